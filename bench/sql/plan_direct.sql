--
-- plan_direct.sql
--    The plan of streams without a model: appends and loads.
--
-- Operation n of a worker is decided by arithmetic alone.  With s streams, of
-- which h are hot:
--
--    v      = |31 seed + 17 worker + 13 n|
--    append   if v mod 100 < append percent, else a load
--    stream = v mod h if v mod 100 < 75, else h + v mod (s - h)
--    token  = live:{seed}:{worker}:{n}:{event}
--
-- The same v decides both, so with three quarters of appends all of them go
-- to hot streams.  pgbench computes the same (scripts/direct.sql).
--

INSERT INTO alvyn_bench.variable
    WITH option AS (
        SELECT alvyn_bench.setting_number('streams') AS streams,
               alvyn_bench.setting_number('hot-streams') AS hot
    )
    SELECT v.name, v.value
      FROM option
     CROSS JOIN LATERAL (VALUES
        ('seed', alvyn_bench.setting('seed')),
        ('append_percent', alvyn_bench.setting('append-percent')),
        ('batch', alvyn_bench.setting('batch-size')),
        ('hot', hot::text),
        ('cold', (streams - hot)::text),
        ('hot_percent', CASE hot WHEN 0 THEN '0' WHEN streams THEN '100' ELSE '75' END),
        ('loaded', '0')
     ) AS v (name, value);

INSERT INTO alvyn_bench.phase
    SELECT 0, 'direct', 0,
           alvyn_bench.setting('operations')::integer * alvyn_bench.setting('replicas')::integer;

INSERT INTO alvyn_bench.process
    SELECT worker, 0, worker, 'direct', worker, operations,
           least(operations, alvyn_bench.setting('clients')::integer)
      FROM (SELECT alvyn_bench.setting('operations')::integer AS operations,
                   alvyn_bench.setting('replicas')::integer AS replicas) AS o
     CROSS JOIN LATERAL generate_series(0, o.replicas - 1) AS worker;

INSERT INTO alvyn_bench.operation
    WITH o AS MATERIALIZED (
        SELECT jsonb_object_agg(name, value) AS o FROM alvyn_bench.variable
    ), option AS MATERIALIZED (
        SELECT (o ->> 'seed')::bigint AS seed,
               (o ->> 'append_percent')::bigint AS append_percent,
               (o ->> 'hot')::bigint AS hot,
               (o ->> 'cold')::bigint AS cold,
               (o ->> 'hot_percent')::bigint AS hot_percent,
               alvyn_bench.setting('replicas')::integer AS replicas
          FROM o
    )
    SELECT p.process,
           n,
           n * replicas + p.process,
           CASE WHEN v % 100 < append_percent THEN 'append' ELSE 'load' END,
           CASE WHEN v % 100 < hot_percent THEN v % hot ELSE hot + v % cold END,
           0
      FROM option
     CROSS JOIN alvyn_bench.process p
     CROSS JOIN LATERAL generate_series(0, p.operations - 1) AS n
     CROSS JOIN LATERAL (SELECT abs(seed * 31 + p.process * 17 + n * 13) AS v) AS drawn;

ANALYZE alvyn_bench.operation;

-- The history: one append after another, a transaction per stream.
CREATE PROCEDURE alvyn_bench.seed_streams()
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_history bigint := alvyn_bench.setting('history');
    v_batch bigint := alvyn_bench.setting('batch-size');
    v_first bigint;
    v_stream bigint;
BEGIN
    FOR v_stream IN 0 .. alvyn_bench.setting('streams')::bigint - 1 LOOP
        FOR v_first IN SELECT generate_series(0, v_history - 1, v_batch) LOOP
            PERFORM alvyn.append_batch(
                        'load-test-stream-' || v_stream,
                        v_first,
                        array_agg('LoadTestEvent'::text),
                        array_agg(alvyn_bench.seed_event(v_stream, n) ORDER BY n),
                        array_agg('{"source": "alvyn-load-test"}'::jsonb))
               FROM generate_series(v_first, least(v_first + v_batch, v_history) - 1) AS n;
        END LOOP;
        COMMIT;
    END LOOP;
END
$$;

CREATE FUNCTION alvyn_bench.seed_event(stream bigint, n bigint) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN jsonb_build_object(
        'phase', 'seed',
        'seed', alvyn_bench.setting_number('seed'),
        'streamIndex', stream,
        'eventIndex', n,
        'token', concat_ws(':', 'seed', alvyn_bench.setting('seed'), stream, n));
