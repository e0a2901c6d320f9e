-- Reading a stream.
--
-- The events come in the order of their versions, or backwards; max_count
-- and LIMIT stop the work and not only the output; the planner puts the
-- function's query in place of the call, so rows are streamed.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
SELECT count(alvyn.append_batch('s-' || i, 0, ARRAY['A', 'B', 'C', 'D', 'E'], ARRAY['1', '2', '3', '4', '5']::jsonb[],
             ids => ARRAY[NULL, 'id-' || i, NULL, NULL, NULL]))
FROM generate_series(1, 3) i;

-- All columns.
SELECT position, stream_id, version, id, type, "time" <= clock_timestamp() AS "time", data, metadata, schema_version, snapshot
FROM alvyn.load('s-2');
SELECT pg_typeof(e) FROM alvyn.load('s-2') e LIMIT 1;

-- From a version, some of them, backwards: from_version is the lowest
-- version in either direction.
SELECT array_agg(version) AS whole FROM alvyn.load('s-1');
SELECT array_agg(version) AS from_3 FROM alvyn.load('s-1', 3);
SELECT array_agg(version) AS two_from_2 FROM alvyn.load('s-1', 2, 2);
SELECT array_agg(version) AS backwards FROM alvyn.load('s-1', backwards => true);
SELECT array_agg(version) AS last_two FROM alvyn.load('s-1', 1, 2, true);
SELECT array_agg(version) AS backwards_from_4 FROM alvyn.load('s-1', 4, 100, true);
SELECT array_agg(version) AS none FROM alvyn.load('s-1', 1, 0);
SELECT array_agg(version) AS behind_the_head FROM alvyn.load('s-1', 6);
SELECT array_agg(version) AS far_behind FROM alvyn.load('s-1', 9223372036854775807);
SELECT array_agg(version) AS no_stream FROM alvyn.load('none-1');
SELECT array_agg(version) AS forwards FROM alvyn.load('s-1', backwards => NULL);
SELECT alvyn.stream_version('s-1') AS head, alvyn.stream_version('none-1') AS no_stream;

-- In other places than FROM, correlated, and with arguments that the planner
-- does not know.
SELECT s.stream_id, e.version, e.data
FROM alvyn.list_streams('s-') s, LATERAL alvyn.load(s.stream_id, s.version) e;
SELECT (alvyn.load('s-3', 4)).version;
SET plan_cache_mode = force_generic_plan;
PREPARE forth(text, bigint, bigint, boolean) AS SELECT version FROM alvyn.load($1, $2, $3, $4);
EXECUTE forth('s-1', 4, NULL, false);
EXECUTE forth('s-1', 1, 2, true);
EXECUTE forth('none-1', 1, NULL, false);
RESET plan_cache_mode;
DEALLOCATE forth;

-- A statement sees the stream as of its own start; a cursor keeps to that.
BEGIN;
DECLARE c CURSOR FOR SELECT version FROM alvyn.load('s-1');
FETCH 2 FROM c;
SELECT (alvyn.append('s-1', 5, 'F', '6')).version;
FETCH ALL FROM c;
SELECT array_agg(version) FROM alvyn.load('s-1');
COMMIT;

-- What a plan reads, with the rows it read when it was run.
CREATE FUNCTION plan(query text, run boolean) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    v_line text;
BEGIN
    FOR v_line IN EXECUTE format('EXPLAIN (ANALYZE %s, COSTS OFF, TIMING OFF, SUMMARY OFF) %s', run::text, query) LOOP
        IF v_line ~ 'Scan|Index Cond' THEN
            RETURN NEXT regexp_replace(trim(v_line, ' ->'), 'rows=(\d+)\.00 ', 'rows=\1 ');
        END IF;
    END LOOP;
END
$$;
SELECT count(alvyn.append_batch('long-1', NULL, ARRAY(SELECT 'T' FROM generate_series(1, 5000)),
             ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 5000) i)));
VACUUM ANALYZE alvyn.events, alvyn.streams;
-- There is no function scan, and only the direction that is wanted.
SELECT plan('SELECT * FROM alvyn.load(''long-1'')', false);
SELECT plan('SELECT * FROM alvyn.load(''long-1'', 100, 10, true)', false);
-- Of 5,000 events only those are read that LIMIT, max_count or the caller of
-- an unknown direction ask for.
SELECT plan('SELECT * FROM alvyn.load(''long-1'') LIMIT 10', true);
SELECT plan('SELECT * FROM alvyn.load(''long-1'', 2000, 10)', true);
SELECT plan('SELECT * FROM alvyn.load(''long-1'', backwards => true) LIMIT 1', true);
SET plan_cache_mode = force_generic_plan;
PREPARE any_way(text, bigint, bigint, boolean) AS SELECT * FROM alvyn.load($1, $2, $3, $4);
SELECT plan('EXECUTE any_way(''long-1'', 1, 5, false)', true);
SELECT plan('EXECUTE any_way(''long-1'', 1, 5, true)', true);
RESET plan_cache_mode;
DEALLOCATE any_way;
DROP FUNCTION plan;
