-- Listing streams: by prefix, byte by byte, page by page.
--
-- I8: the order is that of the bytes, whatever the database's collation.  A
-- prefix has no wildcards.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
SELECT count(alvyn.append(s, NULL, 'A', '{}'))
FROM unnest(ARRAY['a_b-1', 'axb-1', 'a%b-1', 'a_b-2', 'a_b', 'a', 'B-1', 'b-1', 'ä-1', 'a-1', 'é', E'e\u0301',
                  E'a\\b', 'a''b', 'a"b', 'a_b-10', 'a_b-2/x', E'tab\tnl\n', 'z', '~', '日本-1',
                  E'\U0010FFFF-1', ' lead', 'a_B-1']) s;
SELECT count(alvyn.append('a_b-2', NULL, 'A', '{}')) FROM generate_series(1, 4);

-- All, in byte order.
SELECT stream_id, version, state, created_at <= clock_timestamp() AS created FROM alvyn.list_streams();
SELECT array_agg(stream_id) = array_agg(stream_id ORDER BY stream_id COLLATE "C") AS in_byte_order,
       count(*)
FROM alvyn.list_streams();

-- With a prefix: no wildcards, no case, nothing else than bytes.
SELECT stream_id FROM alvyn.list_streams('a_b-');
SELECT stream_id FROM alvyn.list_streams('a%');
SELECT stream_id FROM alvyn.list_streams(E'a\\');
SELECT stream_id FROM alvyn.list_streams('a''');
SELECT stream_id FROM alvyn.list_streams('é');
SELECT stream_id FROM alvyn.list_streams('日');
SELECT stream_id FROM alvyn.list_streams(E'\U0010FFFF');
SELECT stream_id FROM alvyn.list_streams('zz');
SELECT stream_id FROM alvyn.list_streams('a_b-2');
SELECT count(*) FROM alvyn.list_streams('');
SELECT count(*) FROM alvyn.list_streams(repeat('x', 1000));
-- The prefix agrees with starts_with for every stream and every prefix.
SELECT count(*) AS prefixes,
       count(*) FILTER (WHERE ARRAY(SELECT stream_id FROM alvyn.list_streams(p)) =
                              ARRAY(SELECT stream_id FROM alvyn.streams WHERE starts_with(stream_id, p) ORDER BY stream_id)) AS right_ones
FROM (SELECT DISTINCT left(stream_id, n) AS p FROM alvyn.streams, generate_series(0, 7) n) s;

-- Page by page.
SELECT stream_id FROM alvyn.list_streams('a', max_count => 3);
SELECT stream_id FROM alvyn.list_streams('a', 'a''b', 3);
SELECT stream_id FROM alvyn.list_streams('a', 'a_b-1x');
SELECT stream_id FROM alvyn.list_streams('a', 'b', 3);
SELECT stream_id FROM alvyn.list_streams('b', 'a', 3);
SELECT count(*) FROM alvyn.list_streams(max_count => 0);
SELECT count(*) FROM alvyn.list_streams(max_count => NULL);
-- Walking the pages to the end gives every stream once.
WITH RECURSIVE page (n, ids) AS (
    SELECT 1, ARRAY(SELECT stream_id FROM alvyn.list_streams(max_count => 5))
    UNION ALL
    SELECT n + 1, ARRAY(SELECT stream_id FROM alvyn.list_streams(NULL, ids[cardinality(ids)], 5))
    FROM page WHERE cardinality(ids) > 0)
SELECT count(*) AS pages, sum(cardinality(ids)) AS streams,
       (SELECT count(DISTINCT id) FROM page, unnest(ids) id) AS distinct_streams
FROM page;

-- States; a stream that is only reserved is not listed.
UPDATE alvyn.streams SET state = CASE stream_id WHEN 'a' THEN 'z' ELSE 't' END::"char" WHERE stream_id IN ('a', 'z');
SELECT stream_id, state FROM alvyn.list_streams() WHERE stream_id IN ('a', 'b-1', 'z');
SELECT count(*) FROM alvyn.append_streams(ARRAY['b-1'], ARRAY['A'], ARRAY['{}']::jsonb[], NULL, ARRAY['never-1'], ARRAY[0]);
SELECT count(*) FROM alvyn.list_streams('never');

-- The prefix is a range of the index, and the page size stops the work: of
-- 2,000 streams, those of the page are looked at.
SELECT count(*) FROM alvyn.append_streams(ARRAY(SELECT 'bulk-' || i FROM generate_series(1, 2000) i),
    ARRAY(SELECT 'A' FROM generate_series(1, 2000) i), ARRAY(SELECT '{}'::jsonb FROM generate_series(1, 2000)));
ANALYZE alvyn.streams;
CREATE FUNCTION scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    v_line text;
BEGIN
    FOR v_line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF v_line ~ 'Index.*Scan|Seq Scan|Index Cond|Removed' THEN
            RETURN NEXT regexp_replace(trim(v_line, ' ->'), 'rows=(\d+)\.00 ', 'rows=\1 ');
        END IF;
    END LOOP;
END
$$;
SELECT scans('SELECT stream_id FROM alvyn.list_streams(''bulk-'', ''bulk-10'', 7)');
-- A plan can be sent to a client of any encoding.
SET client_encoding = 'LATIN1';
SELECT scans('SELECT stream_id FROM alvyn.list_streams(''bulk-'')');
RESET client_encoding;
DROP FUNCTION scans;
