-- Odd values: what a store must take, keep as it is, or refuse by name.
--
-- I8: counters are bigint, times are finite.  I11: bad input gets one clear
-- error, nothing is written, and the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
\set VERBOSITY sqlstate
SELECT (alvyn.append('v-1', 0, 'A', '{}')).version;

-- Case 11: what jsonb itself refuses, in the caller's cast: the character 0,
-- lone surrogates, a number out of range, nesting without end.
SELECT alvyn.append('v-1', 1, 'A', '{"a": "\u0000"}');
SELECT alvyn.append('v-1', 1, 'A', '"\ud800"');
SELECT alvyn.append('v-1', 1, 'A', '["\udc00\ud800"]');
SELECT alvyn.append('v-1', 1, 'A', '1e131072');
SELECT alvyn.append('v-1', 1, 'A', repeat('[', 1000000)::jsonb);
SELECT alvyn.append_batch('v-1', 1, ARRAY['A', 'B', 'C', 'D', 'E', 'F', 'G'],
    ARRAY['1', '2', '3', '4', '5', '6', '{"a": "\u0000"}']::jsonb[]);
-- Larger than any jsonb, and larger than the limit.
SELECT alvyn.append('v-1', 1, 'A', jsonb_build_object('a', repeat('x', 300 * 1024 * 1024)));
SELECT alvyn.append('v-1', 1, 'A', jsonb_build_object('a', repeat('x', 3 * 1024 * 1024)));
-- The seventh element is bad: the error names it.
\set VERBOSITY default
SELECT alvyn.append_batch('v-1', 1, ARRAY['A', 'B', 'C', 'D', 'E', 'F', 'G'],
    ARRAY['1', '2', '3', '4', '5', '6', to_jsonb(repeat('x', 2000000))]);
\set VERBOSITY sqlstate
SELECT alvyn.stream_version('v-1'), count(*) FROM alvyn.events;
-- Deep, but not without end: 1,000 levels come back.
SELECT (alvyn.append('v-1', 1, 'Deep', (repeat('[', 1000) || repeat(']', 1000))::jsonb)).version;
SELECT data = (repeat('[', 1000) || repeat(']', 1000))::jsonb AS same FROM alvyn.load('v-1', 2);
SELECT (alvyn.append('v-1', 2, 'Wide', '1e131071')).version;
SELECT length(data::text) FROM alvyn.load('v-1', 3);
-- The limit is one of the stored form, and a superuser's to change.
SET alvyn.max_event_size = '1kB';
SELECT (alvyn.append('v-1', 3, 'Fits', to_jsonb(repeat('x', 1016)))).version;
SELECT alvyn.append('v-1', 4, 'Fits not', to_jsonb(repeat('x', 1017)));
RESET alvyn.max_event_size;
-- A value that comes compressed out of a table counts with its full size.
CREATE TABLE payloads (data jsonb, more jsonb[]);
INSERT INTO payloads SELECT d, ARRAY[d] FROM to_jsonb(repeat('x', 2000000)) d;
SELECT pg_column_size(data) < 100000 AS compressed FROM payloads;
SELECT alvyn.append('v-1', 4, 'A', data) FROM payloads;
SELECT alvyn.append_batch('v-1', 4, ARRAY['A'], more) FROM payloads;
SELECT alvyn.append_batch('v-1', 4, ARRAY['A'], ARRAY[data]) FROM payloads;
UPDATE payloads SET data = to_jsonb(repeat('x', 500000));
SELECT (alvyn.append_batch('v-1', 4, ARRAY['A', 'B'], ARRAY[data, data], ARRAY[data, NULL])).version FROM payloads;
DROP TABLE payloads;
SELECT version, length(data #>> '{}'), length(metadata #>> '{}') FROM alvyn.load('v-1', 5);

-- Case 12: numbers and objects come back as jsonb keeps them: scale stays,
-- the order, blanks and repeats of keys do not.
SELECT alvyn.append('v-2', NULL, 'Number', d)
FROM unnest(ARRAY['1.10', '1.1', '1e2', '-0', '0.000', '{"b": 1, "a": 2, "b":3}', '"\u00e9\/"']::jsonb[]) d;
SELECT data FROM alvyn.load('v-2');
-- The digest is one of the stored form: 1.10 is not 1.1.
SELECT count(DISTINCT d) FROM (SELECT alvyn.digest(1, 's', 1, NULL, 't', '2024-01-01', d, NULL, 1, false) AS d
                               FROM unnest(ARRAY['1.10', '1.1', '1.1']::jsonb[]) WITH ORDINALITY v (d, i) GROUP BY i) s;

-- Case 13: times.
SELECT alvyn.append('v-3', 0, 'A', '{}', "time" => t)
FROM unnest(ARRAY['0001-01-01 00:00:00+00', '9999-12-31 23:59:59.999999+00']::timestamptz[]) t LIMIT 1;
SELECT alvyn.append('v-3', 1, 'A', '{}', "time" => '9999-12-31 23:59:59.999999+00');
SELECT alvyn.append('v-3', 2, 'A', '{}', "time" => '10000-01-01 00:00:00+00');
SELECT alvyn.append('v-3', 2, 'A', '{}', "time" => '0044-03-15 BC');
SELECT alvyn.append('v-3', 2, 'A', '{}', "time" => '-infinity');
SET TimeZone = 'Asia/Kolkata';
SELECT (alvyn.append('v-3', 2, 'A', '{}', "time" => '2024-02-29 17:30:00')).version;
SET TimeZone = 'UTC';
SELECT version, "time" FROM alvyn.load('v-3');
RESET TimeZone;
BEGIN;
SELECT count(alvyn.append('v-4', NULL, 'A', '{}')) FROM (VALUES (1), (2)) v, pg_sleep(0.01);
SELECT (alvyn.append('v-4', NULL, 'A', '{}')).version;
SELECT bool_and(later) AS the_clock_goes_on FROM (SELECT "time" > lag("time") OVER (ORDER BY version) AS later FROM alvyn.load('v-4')) s;
COMMIT;
SELECT count(*) AS not_finite FROM alvyn.events WHERE NOT isfinite("time");
