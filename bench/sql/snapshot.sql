--
-- snapshot.sql
--    What reading by snapshot is worth, from pgbench's log.
--

CREATE TABLE alvyn_bench.reading AS
    SELECT p.first AS events,
           (string_to_array(p.scripts, ' '))[l.script_no + 1] AS script,
           count(*) AS n,
           alvyn_bench.milliseconds(
               percentile_disc(ARRAY[0.5, 0.95, 0.99])
                   WITHIN GROUP (ORDER BY l.outcome::bigint)) AS percentiles
      FROM alvyn_bench.log l
      JOIN alvyn_bench.process p USING (process)
     WHERE l.outcome ~ '^[0-9]+$'
     GROUP BY 1, 2;

-- How many deposits a second were made in each turn.
CREATE TABLE alvyn_bench.command AS
    SELECT p.process,
           p.scripts = 'snapshot/execute' AS execute,
           row_number() OVER (PARTITION BY p.scripts ORDER BY p.process) AS turn,
           round(count(*) * 1000000
                 / (max(l.epoch * 1000000 + l.epoch_us)
                    - min(l.epoch * 1000000 + l.epoch_us - l.outcome::bigint))::numeric,
                 1) AS rate
      FROM alvyn_bench.log l
      JOIN alvyn_bench.process p USING (process)
     WHERE l.outcome ~ '^[0-9]+$' AND p.first = 0
     GROUP BY p.process, p.scripts;

CREATE FUNCTION alvyn_bench.reading_object(of_events integer, of_script text) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object('count', n, 'p50', percentiles[1],
                                  'p95', percentiles[2], 'p99', percentiles[3])
          FROM alvyn_bench.reading
         WHERE events = of_events AND script = 'snapshot/' || of_script;
    END;

-- By how many percent the second of two is faster, per percentile.
CREATE FUNCTION alvyn_bench.improvement_object(slow jsonb, fast jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
        SELECT jsonb_object_agg(p, round(100 - 100 * (fast ->> p)::numeric
                                         / nullif((slow ->> p)::numeric, 0), 3))
          FROM (VALUES ('p50'), ('p95'), ('p99')) AS names (p);
    END;

CREATE TABLE alvyn_bench.benefit AS
    SELECT l.phase,
           l.events,
           jsonb_build_object(
               'requestCount', l.requests,
               'historyEventsPerAccount', l.events,
               'withoutSnapshots', r.replay,
               'withSnapshots', r.latest,
               'state', r.state,
               'tail', r.tail,
               'latencyImprovementPercent', alvyn_bench.improvement_object(r.replay, r.latest),
               'stateImprovementPercent', alvyn_bench.improvement_object(r.replay, r.state),
               'snapshotReplay', jsonb_build_object(
                   'count', (r.state ->> 'count')::bigint,
                   'totalEvents', round((r.state ->> 'count')::bigint * replayed.average),
                   'averageEvents', replayed.average,
                   'maxEvents', replayed.most)) AS benefit
      FROM alvyn_bench.length l
     CROSS JOIN LATERAL (
         SELECT alvyn_bench.reading_object(l.events, 'replay') AS replay,
                alvyn_bench.reading_object(l.events, 'latest') AS latest,
                alvyn_bench.reading_object(l.events, 'state') AS state,
                alvyn_bench.reading_object(l.events, 'tail') AS tail) AS r
     CROSS JOIN LATERAL (
         SELECT round(avg((s).replayed_events), 3) AS average,
                max((s).replayed_events) AS most
           FROM (SELECT alvyn.state(alvyn_bench.benchmark_stream('length-' || l.events, n, l.streams),
                                    'LoadTestAccountBalance') AS s
                   FROM generate_series(0, l.streams - 1) AS n OFFSET 0) AS states) AS replayed;

-- The original's report has one length; that is the one nearest to its own.
INSERT INTO alvyn_bench.part
    SELECT 'snapshotBenchmark',
           (SELECT benefit FROM alvyn_bench.benefit ORDER BY abs(events - 10000) LIMIT 1)
           || jsonb_build_object(
               'lengths', (SELECT jsonb_agg(benefit ORDER BY events) FROM alvyn_bench.benefit),
               'command', c.command,
               'lines', (
                   SELECT jsonb_agg(jsonb_build_object('what', what, 'value', value)
                                    ORDER BY number)
                     FROM (
                       SELECT events AS number,
                              format('%s events, p50: replay, latest, state, tail', events) AS what,
                              format('%s, %s, %s, %s ms; state %s times as fast as replay',
                                     benefit #>> '{withoutSnapshots,p50}',
                                     benefit #>> '{withSnapshots,p50}',
                                     benefit #>> '{state,p50}',
                                     benefit #>> '{tail,p50}',
                                     round((benefit #>> '{withoutSnapshots,p50}')::numeric
                                           / nullif((benefit #>> '{state,p50}')::numeric, 0), 1))
                                  AS value
                         FROM alvyn_bench.benefit
                        UNION ALL
                       SELECT 1000000000, 'deposit, p50: two round trips, execute',
                              format('%s, %s ms; execute does %s times as many (%s)',
                                     command #>> '{twoRoundTrips,p50}',
                                     command #>> '{execute,p50}',
                                     command ->> 'throughputRatio',
                                     command ->> 'throughputRatioSpread')
                     ) AS text))
      FROM (SELECT jsonb_build_object(
                       'twoRoundTrips', alvyn_bench.reading_object(0, 'two_trips')
                           || jsonb_build_object('perSecond', round(avg(two.rate), 1)),
                       'execute', alvyn_bench.reading_object(0, 'execute')
                           || jsonb_build_object('perSecond', round(avg(one.rate), 1)),
                       'throughputRatio',
                       round(percentile_cont(0.5)
                             WITHIN GROUP (ORDER BY one.rate / two.rate)::numeric, 3),
                       'throughputRatioSpread',
                       format('%s to %s', round(min(one.rate / two.rate), 2),
                              round(max(one.rate / two.rate), 2))) AS command
              FROM alvyn_bench.command AS one
              JOIN alvyn_bench.command AS two USING (turn)
             WHERE one.execute AND NOT two.execute) AS c;

INSERT INTO alvyn_bench.fault
    SELECT 'alvyn.verify() found broken streams', greatest(broken_streams, 1), NULL
      FROM alvyn.verify(check_snapshots => true)
     WHERE NOT ok
     UNION ALL
    SELECT 'snapshot read without replaying its tail', 1, benefit #>> '{snapshotReplay}'
      FROM (SELECT benefit FROM alvyn_bench.benefit
             WHERE (benefit #>> '{snapshotReplay,maxEvents}')::bigint
                   <> alvyn_bench.setting_number('tail') LIMIT 1) AS other;
