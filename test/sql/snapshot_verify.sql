-- verify(check_snapshots => true) folds every stream again and finds each
-- snapshot that is not the state at its version, by name and place; without
-- it snapshots are only counted.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

CREATE FUNCTION evolve_sum(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
$$SELECT jsonb_build_object('sum', coalesce((state ->> 'sum')::numeric, 0) + (event.data ->> 'n')::numeric)$$;
SELECT alvyn.create_snapshot('Sum', 'a', 4, '{"sum": 0, "log": []}', rules => '{"A": {"sum": {"add": "n"}, "log": {"append": "n", "keep": 2}}}');
SELECT alvyn.create_snapshot('Count', 'a', 3, '{}', rules => '{"A": {"count": {"increment": 1}}}');
SELECT alvyn.create_snapshot('Evolved', 'b', 3, '{}', 'evolve_sum(jsonb, alvyn.event)');
SELECT max((alvyn.append(p || '-' || i % 3, NULL, CASE WHEN i % 5 = 0 THEN 'X' ELSE 'A' END, jsonb_build_object('n', i + 0.50))).version)
FROM unnest(ARRAY['a', 'b', 'c']) p, generate_series(1, 60) i GROUP BY p ORDER BY p;
SELECT streams, source_events, stored_events, snapshot_events, broken_streams, ok FROM alvyn.verify(check_snapshots => true);
SELECT * FROM alvyn.verify_streams(check_snapshots => true);

-- Falsify a snapshot in some way, and see what finds it.
CREATE FUNCTION falsify(stream text, snapshot text, nth int, expression text) RETURNS TABLE (plain boolean, checked boolean, problems text) LANGUAGE plpgsql AS $$
DECLARE
    v_version bigint;
BEGIN
    SELECT l.version INTO STRICT v_version FROM alvyn.load(stream) l WHERE l.type = falsify.snapshot || 'Snapshot' ORDER BY l.version OFFSET nth - 1 LIMIT 1;
    EXECUTE format('UPDATE alvyn.events SET data = %s WHERE version = %s AND stream_no = (SELECT stream_no FROM alvyn.streams WHERE stream_id = %L)',
                   expression, v_version, stream);
    SELECT ok INTO plain FROM alvyn.verify();
    SELECT ok INTO checked FROM alvyn.verify(NULL, true);
    SELECT string_agg(format('%s %s %s: %s', p.stream_id, p.version - v_version, p.problem, p.detail), E'\n' ORDER BY p.version) INTO problems
    FROM alvyn.verify_streams(NULL, true) p;
    IF (SELECT v.broken_streams <> 1 OR (SELECT broken_streams FROM alvyn.verify(left(stream, 2), true)) <> 1
            OR NOT (SELECT ok FROM alvyn.verify('c-', true))
            OR EXISTS (SELECT FROM alvyn.verify_streams('c-', true)) FROM alvyn.verify(NULL, true) v) THEN
        problems := problems || ' (sums differ)';
    END IF;
    RETURN NEXT;
    RAISE EXCEPTION USING ERRCODE = 'AL000';
EXCEPTION WHEN SQLSTATE 'AL000' THEN
    RETURN;
END
$$;
SELECT * FROM falsify('a-1', 'Sum', 1, $$jsonb_set(data, '{sum}', to_jsonb((data ->> 'sum')::numeric + 0.01))$$);
SELECT * FROM falsify('a-1', 'Sum', 2, $$jsonb_set(data, '{sum}', to_jsonb(data ->> 'sum'))$$);
SELECT * FROM falsify('a-0', 'Sum', 3, $$jsonb_set(data, '{log}', '[]')$$);
SELECT * FROM falsify('a-2', 'Count', 1, $$data || '{"more": 1}'$$);
SELECT * FROM falsify('a-2', 'Count', 5, $$data - 'count'$$);
SELECT * FROM falsify('a-2', 'Count', 5, $$'1'$$);
SELECT * FROM falsify('a-2', 'Count', 5, $$'[]'$$);
SELECT * FROM falsify('b-0', 'Evolved', 2, $$'{"sum": 0}'$$);
-- Of the same length.
SELECT * FROM falsify('a-1', 'Count', 1, $$jsonb_set(data, '{count}', '4')$$);
-- Equal is equal: digits behind the point are not a difference.
SELECT * FROM falsify('a-1', 'Count', 1, $$jsonb_set(data, '{count}', '3.000')$$);

-- The first difference of each snapshot; two of one stream are two problems,
-- and one broken stream.
BEGIN;
UPDATE alvyn.events SET data = '{}' WHERE stream_no = 1 AND snapshot;
SELECT stream_id, problem, version, position, detail FROM alvyn.verify_streams('a-', true) ORDER BY version;
SELECT min(version) FILTER (WHERE type = 'SumSnapshot') AS sum, min(version) FILTER (WHERE type = 'CountSnapshot') AS count FROM alvyn.load('a-1');
SELECT broken_streams, ok FROM alvyn.verify(NULL, true);
SELECT broken_streams, ok FROM alvyn.verify(NULL, NULL);
-- An event that was changed shows in the snapshots behind it.
ROLLBACK;
BEGIN;
UPDATE alvyn.events SET data = '{"n": 1000000}' WHERE stream_no = 1 AND version = 1;
SELECT stream_id, problem, version, detail FROM alvyn.verify_streams(NULL, true);
ROLLBACK;
-- One of another fold is passed over, and one that nobody defines any more.
BEGIN;
UPDATE alvyn.events SET data = '{}' WHERE snapshot;
SELECT alvyn.alter_snapshot('Sum', rules => '{"A": {"sum": {"add": "n"}}}');
SELECT alvyn.drop_snapshot('Count');
SELECT alvyn.alter_snapshot('Evolved', schema_version => 3);
SELECT ok FROM alvyn.verify(NULL, true);
ROLLBACK;
-- A stream whose beginning was removed: the first snapshot left is believed,
-- what follows it is checked.
BEGIN;
DELETE FROM alvyn.events WHERE stream_no = 2 AND version < 10;
UPDATE alvyn.streams SET version_floor = 9 WHERE stream_no = 2;
SELECT stream_id FROM alvyn.streams WHERE stream_no = 2;
SELECT ok FROM alvyn.verify(NULL, true);
UPDATE alvyn.events SET data = '{"sum": 1}' WHERE stream_no = 2 AND version = (SELECT max(version) FROM alvyn.events WHERE stream_no = 2 AND snapshot);
SELECT problem FROM alvyn.verify_streams(NULL, true);
ROLLBACK;
-- An evolve function that fails stops the check with its own error.
BEGIN;
CREATE OR REPLACE FUNCTION evolve_sum(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$SELECT to_jsonb(1 / 0)$$;
SELECT ok FROM alvyn.verify();
\set VERBOSITY terse
SELECT ok FROM alvyn.verify(NULL, true);
\set VERBOSITY default
ROLLBACK;

-- The definitions are found by parallel workers, and verify calls no function
-- of users there.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM alvyn.streams WHERE CASE WHEN stream_id LIKE 'a-%' THEN alvyn.snapshot_version(stream_id, 'Sum') > 1 END;
SELECT count(*) FROM alvyn.streams WHERE CASE WHEN stream_id LIKE 'a-%' THEN alvyn.snapshot_version(stream_id, 'Sum') > 1 END;
SELECT ok FROM alvyn.verify(NULL, true);
SELECT ok FROM alvyn.verify();
SELECT count(*) = count(s.state) AS all_of_them FROM alvyn.streams t, LATERAL alvyn.state(t.stream_id, 'Sum') s WHERE t.stream_id LIKE 'a-%';
RESET enable_indexscan;
RESET enable_bitmapscan;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET parallel_leader_participation;
SELECT p.proname, p.proparallel FROM pg_proc p
WHERE p.proname IN ('verify', 'verify_log', 'verify_refold', 'verify_slice', 'verify_streams', 'state', 'load_latest', 'snapshot_version') AND pronamespace = 'alvyn'::regnamespace
ORDER BY p.proname;

DROP FUNCTION falsify, evolve_sum;
