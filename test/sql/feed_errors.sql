-- Each refused read has its SQLSTATE; docs/errors.md lists them.  The wording
-- is shown once.
--
-- I11: bad input gets one error, and the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
SELECT (alvyn.append('s-1', 0, 'A', '{}')).version;
\set SHOW_CONTEXT never

SELECT * FROM alvyn.read(NULL);
SELECT * FROM alvyn.read(-1);
SELECT * FROM alvyn.read(0, -1);
SELECT * FROM alvyn.read(types => ARRAY['A', NULL]);
SELECT alvyn.wait_position(0, NULL);

\set VERBOSITY sqlstate
SELECT * FROM alvyn.read(NULL);
SELECT * FROM alvyn.read(-1);
SELECT * FROM alvyn.read(-9223372036854775808);
SELECT * FROM alvyn.read(0, -1);
SELECT * FROM alvyn.read(types => ARRAY['A', NULL]);
SELECT alvyn.skip(NULL);
SELECT alvyn.skip(-1);
SELECT alvyn.wait_position(-1, '0');
SELECT alvyn.wait_position(0, NULL);
SELECT alvyn.resolved_from(-1, true);
-- Nothing to wait for is not an error.
SELECT alvyn.wait(NULL::bigint, '0');

-- A sequence that hands positions out in advance would hide what is pending.
\set VERBOSITY default
ALTER SEQUENCE alvyn.events_position_seq CACHE 2;
SELECT * FROM alvyn.read();
\set VERBOSITY sqlstate
SELECT alvyn.resolved_position();
ALTER SEQUENCE alvyn.events_position_seq CACHE 1 CYCLE;
SELECT alvyn.skip(0);
ALTER SEQUENCE alvyn.events_position_seq NO CYCLE INCREMENT -1;
SELECT alvyn.wait(0, '0');
-- Steps of more than one only leave holes.
ALTER SEQUENCE alvyn.events_position_seq INCREMENT 5;
SELECT count(alvyn.append('s-1', i, 'A', '{}')) FROM generate_series(1, 3) i;
SELECT position, version FROM alvyn.read();
