-- The aggregates: the same result in any order, in groups, and from parallel
-- workers; and the plans that give them to workers.
--
-- I12: they compute from the events alone.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- contiguous: each version from the first to the last, once.
SELECT v AS versions, (alvyn_contiguous).*
FROM (SELECT v, (SELECT alvyn.contiguous(x) FROM unnest(v) x) AS alvyn_contiguous
      FROM unnest(ARRAY['{}', '{NULL}', '{1}', '{7}', '{1,2,3}', '{3,1,2}', '{5,NULL,6}', '{1,3}', '{1,2,4}',
                        '{1,1}', '{1,2,2,4}', '{1,2,2,3}', '{1,3,3,3}', '{2,2,2}', '{-1,0,1}', '{1,9223372036854775807}',
                        '{9223372036854775806,9223372036854775807}',
                        '{-9223372036854775808,9223372036854775807}']) WITH ORDINALITY t (t, i),
           LATERAL (SELECT t::bigint[]) c (v)
      ORDER BY i OFFSET 0) s;

-- sum_number: exact, of any path, of numbers only.
SELECT alvyn.sum_number(d, 'amount') AS sum, alvyn.sum_number(d, 'a', 'b') AS nested, alvyn.sum_number(d, 'list', '1') AS element,
       alvyn.sum_number(d, 'none') AS none, alvyn.sum_number(d, VARIADIC '{}') FILTER (WHERE jsonb_typeof(d) <> 'object') AS whole
FROM unnest(ARRAY['{"amount": 0.1}', '{"amount": 0.2, "a": {"b": 1e20}}', '{"amount": -12345678901234567890.5}', '{"amount": null}',
                  '{}', '3', 'null', NULL, '{"a": {"b": 1}, "list": [1, 2, 3]}', '{"list": [5]}', '{"a": 7}']::jsonb[]) d;
SELECT alvyn.sum_number(d, 'amount') FROM (SELECT NULL::jsonb AS d WHERE false) s;
\set VERBOSITY terse
SELECT alvyn.sum_number('{"amount": "12"}', 'amount');
SELECT alvyn.sum_number('{"a": {"b": {}}}', 'a', 'b');
SELECT alvyn.sum_number('{"amount": true}', 'amount');
\set VERBOSITY default

-- digest: each column counts, the order does not, a repeated event does.
CREATE TABLE ev (i int GENERATED ALWAYS AS IDENTITY, e alvyn.event);
INSERT INTO ev (e) VALUES
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((2, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-2', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-1', 2, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, 'ie', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, NULL, 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, 'id', 'U', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00:00.000001+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 2}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1.0}', '{"m": 1}', 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 2}', 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', NULL, 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', 'null', 1, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 2, false)),
    ((1, 's-1', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, true)),
    ((1, 's-1i', 1, 'd', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, NULL, 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false)),
    ((1, '', 1, 'id', 'T', '2024-01-01 00:00+00', '{"a": 1}', '{"m": 1}', 1, false));
SELECT count(DISTINCT d) AS different, count(*) FROM (SELECT i, alvyn.digest(e) AS d FROM ev GROUP BY i) s;
-- Pinned: a digest can be kept and compared with one of a later release.
SELECT alvyn.digest(e) FROM ev WHERE i = 1;
SELECT alvyn.digest((e).position, (e).stream_id, (e).version, (e).id, (e).type, (e)."time", (e).data, (e).metadata,
                    (e).schema_version, (e).snapshot) FROM ev WHERE i = 1;
SELECT alvyn.digest(e) FROM ev;
SELECT alvyn.digest(e ORDER BY i) = alvyn.digest(e ORDER BY i DESC) AS any_order,
       alvyn.digest(e) = (SELECT alvyn.digest(e) FROM (SELECT e FROM ev UNION ALL SELECT e FROM ev WHERE i = 1) s) AS doubled,
       alvyn.digest(e) = (SELECT alvyn.digest(e) FROM ev WHERE i > 1) AS missing
FROM ev;
-- An id that is written out counts like the one that is derived.
SELECT alvyn.digest(NULL::alvyn.event),
       alvyn.digest(1, 's-1', 7, NULL, 'T', NULL, NULL, NULL, 1, false) = alvyn.digest(1, 's-1', 7, 's-1/7', 'T', NULL, NULL, NULL, 1, false) AS derived,
       alvyn.digest(1, 's-1', 7, NULL, 'T', NULL, NULL, NULL, 1, false) = alvyn.digest(1, 's-1', 7, 's-1/8', 'T', NULL, NULL, NULL, 1, false) AS other
FROM (VALUES (1)) v;
DROP TABLE ev;

-- A store for the rest: 3,000 events in 100 streams, some of them large.
SELECT count(*) FROM alvyn.append_streams(ARRAY(SELECT 's-' || i % 100 FROM generate_series(1, 3000) i),
    ARRAY(SELECT 'T' FROM generate_series(1, 3000)),
    ARRAY(SELECT jsonb_build_object('amount', i + 0.25, 'pad', repeat('x', CASE WHEN i % 50 = 0 THEN 9000 ELSE 10 END)) FROM generate_series(1, 3000) i));
ANALYZE alvyn.events, alvyn.streams;
CREATE VIEW report AS
SELECT (SELECT alvyn.contiguous(position) FROM alvyn.events) AS positions,
       (SELECT alvyn.sum_number(data, 'amount') FROM alvyn.events) AS amount,
       (SELECT alvyn.digest(position, type, version, NULL, NULL, NULL, data, metadata, schema_version, snapshot) FROM alvyn.events) AS digest,
       (SELECT count(*) FROM (SELECT stream_no FROM alvyn.events GROUP BY stream_no
                              HAVING (alvyn.contiguous(version)).ok AND (alvyn.contiguous(version)).last = 30) s) AS whole_streams,
       (SELECT v FROM alvyn.verify() v) AS verify, (SELECT v FROM alvyn.verify('s-1') v) AS verify_prefix,
       alvyn.store_digest() AS store_digest, alvyn.store_digest('s-1') AS prefix_digest;
CREATE TABLE serial AS SELECT * FROM report;
SELECT positions, amount, whole_streams, verify, verify_prefix, split_part(prefix_digest, ':', 1) AS prefix_events FROM serial;

-- With workers: partial aggregates, and slices of verify side by side.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT alvyn.contiguous(version), alvyn.sum_number(data, 'amount') FROM alvyn.events;
SELECT r = s AS same FROM report r, serial s;
-- The queries of verify and store_digest, as they stand in the functions.
CREATE FUNCTION parallel_nodes(function regprocedure) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    v_query text := regexp_replace(pg_get_function_sqlbody(function), '^BEGIN ATOMIC|;\s*END$', '', 'g');
    v_line text;
BEGIN
    FOR v_line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || regexp_replace(v_query, '\m(\w+\.)?prefix\M', 'NULL', 'g') LOOP
        IF v_line ~ 'Gather|Workers|Parallel Append' THEN
            RETURN NEXT trim(v_line, ' ->');
        END IF;
    END LOOP;
END
$$;
SELECT parallel_nodes('alvyn.store_digest(text)');
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
-- verify has workers at default settings.
SELECT parallel_nodes('alvyn.verify_log(text)');
RESET max_parallel_workers_per_gather;

-- Everything that is marked parallel safe, inside a worker.
SELECT count(set_config(name, 'on', false)) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT r = s AS same FROM report r, serial s;
SELECT alvyn.stream_version('s-7'), alvyn.stream_slot('s-7');
SELECT count(*), max(id COLLATE "C") FROM alvyn.load('s-7', 3);
SELECT stream_id, version FROM alvyn.list_streams('s-1', max_count => 2);
SELECT count(*) FROM alvyn.verify_streams();
SELECT (alvyn.append('s-7', 30, 'T', '{}')).version;
DROP VIEW report;
DROP TABLE serial;
DROP FUNCTION parallel_nodes;
