-- What read_page refuses, each with its SQLSTATE; docs/errors.md lists it.
-- A cursor is checked: whole, of this set of streams, of this direction.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT count(alvyn.append('s-' || n % 2, NULL, 'T', '{}')) FROM generate_series(1, 4) n;
SELECT cursor AS up FROM alvyn.read_page(ARRAY['s-0', 's-1'], 1) \gset
\set SHOW_CONTEXT never

SELECT * FROM alvyn.read_page(NULL);
SELECT * FROM alvyn.read_page(ARRAY['s-0', NULL]);
SELECT * FROM alvyn.read_page(ARRAY['s-0'], -1);
SELECT * FROM alvyn.read_page(ARRAY(SELECT 's-' || n FROM generate_series(1, 1001) n));
SELECT * FROM alvyn.read_page(ARRAY['s-0'], 1, '');
SELECT * FROM alvyn.read_page(ARRAY['s-0'], 1, :'up');
SELECT * FROM alvyn.read_page(ARRAY['s-0', 's-1'], 1, :'up', true);
SELECT alvyn.read_backwards(0);
SELECT alvyn.position_at(NULL);

\set VERBOSITY sqlstate
SELECT * FROM alvyn.read_page(NULL);
SELECT * FROM alvyn.read_page(ARRAY['s-0', NULL]);
SELECT * FROM alvyn.read_page(ARRAY['s-0'], -1);
SELECT * FROM alvyn.read_page(ARRAY(SELECT 's-' || n FROM generate_series(1, 1001) n));
-- Each character of a cursor counts.
CREATE FUNCTION outcome(streams text[], cursor text, descending boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM alvyn.read_page(streams, 1, cursor, descending);
    RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END
$$;
SELECT outcome(ARRAY['s-1', 's-0'], :'up') AS right_one, outcome(ARRAY['s-0'], :'up') AS other_set,
       outcome(ARRAY['s-0', 's-1', 's-2'], :'up') AS larger_set, outcome(ARRAY['s-0', 's-1'], :'up', true) AS other_direction;
SELECT outcome(ARRAY['s-0', 's-1'], overlay(:'up' PLACING CASE substr(:'up', i, 1) WHEN '1' THEN '2' ELSE '1' END FROM i)), count(*)
FROM generate_series(1, length(:'up')) i GROUP BY 1 ORDER BY 1;
SELECT outcome(ARRAY['s-0', 's-1'], c) FROM unnest(ARRAY['', '1', 'x', left(:'up', -1), :'up' || '0', E'a\n']) c;

SELECT * FROM alvyn.read_backwards(0);
SELECT * FROM alvyn.read_backwards(max_count => -1);
SELECT * FROM alvyn.read_backwards(types => ARRAY['A', NULL]);
SELECT alvyn.position_at(NULL);

DROP FUNCTION outcome;
