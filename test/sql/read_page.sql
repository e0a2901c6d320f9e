-- Pages of a set of streams: merged by position, each event once, in both
-- directions, from any cursor, while others append.  A page costs its rows,
-- not the streams.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT count(alvyn.append('s-' || n % 5, NULL, 'T' || n, to_jsonb(n))) FROM generate_series(1, 20) n;

SELECT position, stream_id, version, id, type, data FROM alvyn.read_page(ARRAY['s-1', 's-3'], 3);
SELECT position, stream_id FROM alvyn.read_page(ARRAY['s-1', 's-3'], 3, descending => true);
-- Order and doubles in the set mean nothing; what is not there is empty.
SELECT array_agg(position) FROM alvyn.read_page(ARRAY['s-3', 's-1', 's-3', 'none']);
SELECT count(*) FROM alvyn.read_page('{}');
SELECT count(*) FROM alvyn.read_page(ARRAY['none']);
SELECT count(*), max(position) FROM alvyn.read_page(ARRAY['s-1'], 0);
SELECT count(*), max(position) FROM alvyn.read_page(ARRAY['s-1'], NULL);

-- Every prefix of a page can be continued, at every place, in both directions.
SELECT d, count(*), bool_and(rest.positions IS NOT DISTINCT FROM (
           SELECT array_agg(p.position) FROM alvyn.read_page(ARRAY['s-1', 's-2', 's-4'], 100, NULL, d) p
           WHERE CASE WHEN d THEN p.position < page.position ELSE p.position > page.position END)) AS same
FROM (VALUES (false), (true)) v (d), LATERAL alvyn.read_page(ARRAY['s-1', 's-2', 's-4'], 100, NULL, d) page,
     LATERAL (SELECT array_agg(r.position) AS positions FROM alvyn.read_page(ARRAY['s-4', 's-1', 's-2'], 100, page.cursor, d) r) rest
GROUP BY d ORDER BY d;

-- Others append: a walk down is not moved, a walk up meets what came.
SELECT cursor AS down FROM alvyn.read_page(ARRAY['s-1', 'late-1'], 2, descending => true) ORDER BY position LIMIT 1 \gset
SELECT cursor AS up FROM alvyn.read_page(ARRAY['s-1', 'late-1'], 2) ORDER BY position DESC LIMIT 1 \gset
SELECT version, first_position FROM alvyn.append_streams(ARRAY['s-1', 'late-1', 's-1'], ARRAY['N', 'N', 'N'], ARRAY['1', '2', '3']::jsonb[]);
SELECT array_agg(position) FROM alvyn.read_page(ARRAY['late-1', 's-1'], 100, :'down', true);
SELECT array_agg(position) FROM alvyn.read_page(ARRAY['late-1', 's-1'], 100, :'up');

-- Snapshots are events of their streams.
SELECT alvyn.create_snapshot('n', 'snap', 2, '{"n": 0}', rules => '{"T": {"n": {"increment": 1}}}');
SELECT count(alvyn.append('snap-1', NULL, 'T', '1')) FROM generate_series(1, 3);
SELECT version, type, snapshot FROM alvyn.read_page(ARRAY['snap-1']);

-- The work is for the page, not for the streams: neither the other streams nor
-- the rest of these are read.
SELECT count(alvyn.append_batch('long-' || s, NULL, array_fill('T'::text, ARRAY[20000]), array_fill('1'::jsonb, ARRAY[20000])))
FROM generate_series(1, 3) s;
SELECT cursor AS middle FROM alvyn.read_page(ARRAY['long-1', 'long-2', 'long-3'], 30000) ORDER BY position DESC LIMIT 1 \gset
CREATE FUNCTION buffers(call text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING off, SUMMARY off) ' || call INTO v_plan;
    RETURN (v_plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (v_plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
END
$$;
SELECT call, buffers(format(call, :'middle')) < 500 AS cheap
FROM unnest(ARRAY['SELECT * FROM alvyn.read_page(ARRAY[''long-1'', ''long-2'', ''long-3''], 10)',
                  'SELECT * FROM alvyn.read_page(ARRAY[''long-1'', ''long-2'', ''long-3''], 10, %L)',
                  'SELECT * FROM alvyn.read_page(ARRAY[''long-1'', ''long-2'', ''long-3''], 10, descending => true)',
                  'SELECT * FROM alvyn.read_backwards(max_count => 10)',
                  'SELECT * FROM alvyn.read_backwards(60000, 10, ''long'')']) call;
