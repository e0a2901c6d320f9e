--
-- plan_snapshot.sql
--    The streams that "snapshot" reads, and how often it does.
--
-- Of each length there are some streams, LoadTestAccount-length-{length}-{n}.
-- Their snapshot stands --tail events before the end.
--

CREATE TABLE alvyn_bench.length AS
    SELECT number - 1 AS phase,
           events::integer,
           least(100, requests, greatest(2, 200000 / events::integer)) AS streams,
           least(requests, greatest(20, 10000000 / events::integer)) AS requests
      FROM (SELECT alvyn_bench.setting('requests')::integer AS requests) AS o
     CROSS JOIN string_to_table(alvyn_bench.setting('lengths'), ',')
           WITH ORDINALITY AS l (events, number);

INSERT INTO alvyn_bench.variable
    VALUES ('tail', alvyn_bench.setting('tail')),
           ('accounts', least(1000, alvyn_bench.setting_number('requests'))::text);

-- A phase for each length.  pgbench takes the scripts in random order, so that
-- the ways to read alternate and meet the same machine.  Then commands in turn
-- with deposits in two round trips, from several connections, because there
-- the question is how many a server does.
INSERT INTO alvyn_bench.phase
    SELECT phase, format('%s events', events), 0, 4 * requests
      FROM alvyn_bench.length
     UNION ALL
    SELECT (SELECT count(*) FROM alvyn_bench.length) + turn,
           format('%s, %s', CASE turn % 2 WHEN 0 THEN 'two trips' ELSE 'execute' END,
                  1 + turn / 2),
           0, 20 * alvyn_bench.setting('requests')::integer
      FROM generate_series(0, 5) AS turn;

INSERT INTO alvyn_bench.process
    SELECT f.phase, f.phase, 0,
           CASE WHEN l.events IS NOT NULL
                THEN 'snapshot/replay snapshot/latest snapshot/state snapshot/tail'
                WHEN f.name ~ 'two' THEN 'snapshot/two_trips'
                ELSE 'snapshot/execute' END,
           coalesce(l.events, 0),
           f.request_count,
           CASE WHEN l.events IS NULL THEN 8 ELSE 1 END
      FROM alvyn_bench.phase f
      LEFT JOIN alvyn_bench.length l USING (phase);

-- The name of a stream, the n-th of so many, where n may be any number.
CREATE FUNCTION alvyn_bench.benchmark_stream(kind text, n bigint, streams bigint)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN concat_ws('-', 'LoadTestAccount', kind, n % streams);

-- One stream: its events up to the snapshot, that, and the tail.  Only then
-- does the snapshot's definition exist, so the first step writes none.
CREATE PROCEDURE alvyn_bench.write_events(stream_id text, first bigint, last bigint)
    LANGUAGE sql
    BEGIN ATOMIC
        SELECT alvyn.append_batch(
                   stream_id, from_n - 1,
                   array_agg(CASE WHEN n = 1 THEN 'AccountOpened' ELSE 'MoneyDeposited' END
                             ORDER BY n),
                   array_agg(CASE WHEN n = 1 THEN '{"initialBalance": 0}'
                                  ELSE jsonb_build_object('amount', 1, 'operationToken',
                                                          'seed:' || n)
                             END ORDER BY n))
          FROM generate_series(first, last, 1000) AS from_n
         CROSS JOIN LATERAL generate_series(from_n, least(from_n + 999, last)) AS n
         GROUP BY from_n
         ORDER BY from_n;
    END;

CREATE PROCEDURE alvyn_bench.write_histories()
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_tail bigint := alvyn_bench.setting('tail');
    v_stream record;
BEGIN
    CREATE TEMPORARY TABLE benchmark AS
        SELECT alvyn_bench.benchmark_stream('length-' || events, n, streams) AS stream_id, events
          FROM alvyn_bench.length
         CROSS JOIN LATERAL generate_series(0, streams - 1) AS n
         UNION ALL
        SELECT alvyn_bench.benchmark_stream('command', n, 1000), 60
          FROM alvyn_bench.variable
         CROSS JOIN LATERAL generate_series(0, value::bigint - 1) AS n
         WHERE name = 'accounts';
    FOR v_stream IN SELECT * FROM benchmark LOOP
        CALL alvyn_bench.write_events(v_stream.stream_id, 1, v_stream.events - v_tail);
    END LOOP;
END
$$;

CREATE PROCEDURE alvyn_bench.write_tails()
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_tail bigint := alvyn_bench.setting('tail');
    v_stream record;
BEGIN
    FOR v_stream IN SELECT * FROM benchmark LOOP
        PERFORM alvyn.take_snapshot(v_stream.stream_id, 'LoadTestAccountBalance');
        PERFORM alvyn.append_batch(
                    v_stream.stream_id, NULL,
                    array_fill('MoneyDeposited'::text, ARRAY[v_tail::integer]),
                    array_fill('{"amount": 1, "operationToken": "tail"}'::jsonb,
                               ARRAY[v_tail::integer]))
          WHERE v_tail > 0;
    END LOOP;
END
$$;

CREATE FUNCTION alvyn_bench.decide_deposit(state jsonb, command jsonb)
    RETURNS SETOF alvyn.new_event
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
        SELECT 'MoneyDeposited', command, NULL::jsonb, NULL, NULL::timestamptz, 1
         WHERE state ->> 'status' = 'open';
    END;

-- Waiting for the disk would hide what a round trip costs.
DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
END
$$;
