--
-- report.sql
--    The verdict on a run and the report of it.
--
-- The report has the names of the original's report wherever that has the
-- field.  When a run failed early some tables are empty, and the report says
-- what there is.
--

-- Why the run failed, or null.
CREATE FUNCTION alvyn_bench.verdict() RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT reason
          FROM (
            SELECT 1, format('%s of %s operations were not run',
                             planned.n - coalesce(l.attempted, 0), planned.n)
              FROM (SELECT count(*) AS n
                      FROM alvyn_bench.operation
                      JOIN alvyn_bench.process USING (process)
                      JOIN alvyn_bench.phase USING (phase)
                     WHERE NOT skipped) planned
              LEFT JOIN alvyn_bench.latency l
                     ON l.phase IS NULL AND l.class IS NULL
             WHERE planned.n <> coalesce(l.attempted, 0)
             UNION ALL
            SELECT 2, format('%s answers were wrong, one of them: %s',
                             count(*), min(answer))
              FROM alvyn_bench.wrong_answer
            HAVING count(*) > 0
             UNION ALL
            SELECT CASE WHEN fault ~ '^(number|balance) of ' THEN 4 ELSE 3 END,
                   format('verification found: %s (%s)', fault,
                          concat_ws(', for example ', occurrences, sample))
              FROM alvyn_bench.fault
             UNION ALL
            SELECT 5, value ->> 'failure' FROM alvyn_bench.part
             WHERE value ->> 'failure' IS NOT NULL
             UNION ALL
            SELECT 6, format('objective missed: %s is %s, more than %s',
                             metric, round(actual, 3), threshold)
              FROM alvyn_bench.objective
             WHERE phase IS NULL AND NOT passed
               AND alvyn_bench.setting_is_on('enforce-slos')
             UNION ALL
            SELECT 6, format('not even the first stage was sustained: %s',
                             array_to_string(reasons, ', '))
              FROM alvyn_bench.sustained
             WHERE phase = 0 AND reasons <> '{}'
               AND alvyn_bench.setting('profile') = 'capacity'
          ) AS found (severity, reason)
         ORDER BY severity, reason
         LIMIT 1;
    END;

-- Text as JSON: what looks like a number or a truth value is one.
CREATE FUNCTION alvyn_bench.plain_value(value text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN value ~ '^[0-9]{1,15}([.][0-9]{1,15})?$' OR value IN ('true', 'false')
                THEN value::jsonb
                ELSE to_jsonb(value) END;

-- Counts and latency of one line of alvyn_bench.latency.
CREATE FUNCTION alvyn_bench.latency_object(of_phase smallint, of_class text)
    RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'attempted', attempted,
                   'succeeded', succeeded,
                   'failed', failed,
                   'conflicts', conflicts,
                   'retries', retries,
                   'latency', jsonb_build_object(
                       'count', samples,
                       'p50', percentiles[1],
                       'p95', percentiles[2],
                       'p99', percentiles[3],
                       'p999', percentiles[4],
                       'max', slowest))
               || CASE class
                      WHEN 'append' THEN jsonb_build_object(
                          'eventCount', succeeded * alvyn_bench.setting_number('batch-size'))
                      WHEN 'load' THEN jsonb_build_object(
                          'eventCount', (SELECT coalesce(sum(events), 0)
                                           FROM alvyn_bench.loaded))
                      ELSE '{}'
                  END
          FROM alvyn_bench.latency
         WHERE phase IS NOT DISTINCT FROM of_phase
           AND class IS NOT DISTINCT FROM of_class;
    END;

-- A field for each class that there is, as latency_object gives it.
CREATE FUNCTION alvyn_bench.classes_object(of_phase smallint) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT coalesce(jsonb_object_agg(class, alvyn_bench.latency_object(of_phase, class)),
                        '{}')
          FROM (SELECT DISTINCT class FROM alvyn_bench.operation) AS classes;
    END;

CREATE FUNCTION alvyn_bench.slo_object(of_phase smallint) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'enforced', alvyn_bench.setting_is_on('enforce-slos'),
                   'passed', bool_and(passed),
                   'checks', jsonb_agg(jsonb_build_object(
                       'metric', metric,
                       'actual', actual,
                       'threshold', threshold,
                       'passed', passed) ORDER BY metric))
          FROM alvyn_bench.objective
         WHERE phase IS NOT DISTINCT FROM of_phase
        HAVING count(*) > 0;
    END;

-- The traffic as a whole; of appends and loads also the events.
CREATE FUNCTION alvyn_bench.throughput_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'durationMs', round(l.duration_ms, 3),
                   'successfulRequests', l.succeeded,
                   'requestsPerSecond',
                       round(l.succeeded * 1000 / nullif(l.duration_ms, 0), 3))
               || coalesce((
                   SELECT jsonb_build_object(
                              'operationsPerSecond',
                              round(l.succeeded * 1000 / nullif(l.duration_ms, 0), 3))
                          || jsonb_object_agg(
                              class || 'EventsPerSecond',
                              round((o ->> 'eventCount')::numeric * 1000
                                    / nullif(l.duration_ms, 0), 3))
                     FROM (VALUES ('append'), ('load')) AS c (class)
                    CROSS JOIN alvyn_bench.latency_object(NULL, class) AS o
                    WHERE o IS NOT NULL
                   HAVING count(*) > 0), '{}')
          FROM alvyn_bench.latency l
         WHERE l.phase IS NULL AND l.class IS NULL;
    END;

-- The most connections that the traffic had at a time.
CREATE FUNCTION alvyn_bench.connections() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(max(clients), 0)
              FROM (SELECT sum(clients) AS clients FROM alvyn_bench.process
                     WHERE replaces IS NULL
                     GROUP BY phase) AS phases);

-- Names that the original's report always has, for the commands on accounts
-- that have no such option.
CREATE FUNCTION alvyn_bench.original_configuration() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT coalesce((SELECT jsonb_build_object(
                           'poolSize', round(alvyn_bench.connections()
                                             / alvyn_bench.setting_number('replicas')),
                           'hotAccountCount', 0,
                           'hotTrafficPercent', 0,
                           'durationSeconds', NULL,
                           'seedBatchSize', alvyn_bench.setting_number('history'),
                           'capacityStartRequestsPerSecond', NULL,
                           'capacityStepRequestsPerSecond', NULL,
                           'capacityMaxRequestsPerSecond', NULL,
                           'capacityStageSeconds', NULL,
                           'snapshots', NOT alvyn_bench.setting_is_on('no-snapshots'),
                           'snapshotBenchmarkRequests', 0,
                           'snapshotBenchmarkHistoryEventsPerAccount', NULL,
                           'enforceSlos', false,
                           'verbose', false,
                           'outputPath', NULL)
                 WHERE alvyn_bench.setting('accounts') IS NOT NULL), '{}');
    END;

-- The options, under the original's names where it has them, else in camel
-- case.  Times are in milliseconds there.
CREATE FUNCTION alvyn_bench.configuration_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT alvyn_bench.original_configuration()
               || jsonb_object_agg(
                   coalesce(CASE WHEN s.name = 'history'
                                       AND alvyn_bench.setting('profile') = 'direct'
                                 THEN 'historyEventsPerStream' END,
                            k.field, lower(left(camel, 1)) || substr(camel, 2)),
                   CASE WHEN k.factor IS NOT NULL
                        THEN to_jsonb(s.value::numeric * k.factor)
                        ELSE alvyn_bench.plain_value(s.value) END)
               || jsonb_build_object(
                   'requestCount', (SELECT sum(request_count) FROM alvyn_bench.phase),
                   'maxRetries', alvyn_bench.setting_number('max-tries') - 1,
                   'concurrency', alvyn_bench.connections())
          FROM alvyn_bench.setting s
         CROSS JOIN LATERAL (SELECT replace(initcap(replace(s.name, '-', ' ')), ' ', '') AS camel) c
          LEFT JOIN (VALUES
            ('replicas', 'workerCount', NULL),
            ('clients', 'poolSize', NULL),
            ('operation-timeout', 'operationTimeoutMs', 1000),
            ('run-timeout', 'runTimeoutMs', 1000),
            ('accounts', 'accountCount', NULL),
            ('active-users', 'activeUserCount', NULL),
            ('hot-accounts', 'hotAccountCount', NULL),
            ('history', 'historyEventsPerAccount', NULL),
            ('requests', 'requestCount', NULL),
            ('capacity-start-rps', 'capacityStartRequestsPerSecond', NULL),
            ('capacity-step-rps', 'capacityStepRequestsPerSecond', NULL),
            ('capacity-max-rps', 'capacityMaxRequestsPerSecond', NULL),
            ('stage-seconds', 'capacityStageSeconds', NULL),
            ('streams', 'streamCount', NULL),
            ('hot-streams', 'hotStreamCount', NULL),
            ('operations', 'operationsPerWorker', NULL),
            ('batch-size', 'appendBatchSize', NULL),
            ('output', 'outputPath', NULL)
          ) AS k (name, field, factor) USING (name)
         WHERE s.name NOT IN ('dsn', 'max-tries', 'no-snapshots', 'concurrency');
    END;

-- Where the run took place.  The settings are those that were set or that
-- decide what a commit promises.
CREATE FUNCTION alvyn_bench.environment_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'generatedAt', to_char(now() AT TIME ZONE 'UTC',
                                          'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                   'postgresqlVersion', current_setting('server_version'),
                   'alvynVersion', (SELECT extversion FROM pg_extension
                                     WHERE extname = 'alvyn'),
                   'settings', (
                       SELECT jsonb_object_agg(name, current_setting(name))
                         FROM pg_settings
                        WHERE source IN ('configuration file', 'command line')
                          AND name !~ 'director|dest|library|_file$|^lc_|^log_|^port$|addresses|^extension_'
                          AND name NOT IN ('DateStyle', 'TimeZone', 'dynamic_shared_memory_type',
                                           'default_text_search_config')
                           OR name IN ('fsync', 'full_page_writes', 'wal_level',
                                       'synchronous_commit', 'autovacuum',
                                       'shared_buffers')))
               || (SELECT jsonb_object_agg(name, alvyn_bench.plain_value(value))
                     FROM alvyn_bench.environment);
    END;

-- When the first operation was due; the times of the report count from here.
CREATE FUNCTION alvyn_bench.begin_us() RETURNS numeric
    LANGUAGE sql STABLE
    RETURN (SELECT begin_us FROM alvyn_bench.latency WHERE phase IS NULL AND class IS NULL);

CREATE FUNCTION alvyn_bench.phases_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'name', p.name,
                   'requestOffset', p.request_offset,
                   'requestCount', p.request_count,
                   'targetRequestsPerSecond',
                       round(p.request_count / p.duration_seconds, 3),
                   'offeredRequestsPerSecond',
                       CASE WHEN p.duration_seconds IS NOT NULL
                            THEN round(l.attempted * 1000 / nullif(l.offered_ms, 0), 3) END,
                   'startMs', round((l.begin_us - alvyn_bench.begin_us()) / 1000, 3),
                   'durationMs', round(l.duration_ms, 3),
                   'achievedRequestsPerSecond',
                       round(l.succeeded * 1000 / nullif(l.duration_ms, 0), 3),
                   'request', alvyn_bench.latency_object(p.phase, NULL),
                   'errors', l.failed,
                   'sustained', s.reasons = '{}',
                   'reasons', s.reasons,
                   'slo', alvyn_bench.slo_object(p.phase))
                   || alvyn_bench.classes_object(p.phase) ORDER BY p.phase), '[]')
          FROM alvyn_bench.phase p
          JOIN alvyn_bench.latency l ON l.phase = p.phase AND l.class IS NULL
          JOIN alvyn_bench.sustained s ON s.phase = p.phase;
    END;

-- The highest stage of the unbroken run from the start that was sustained,
-- and the first that was not, with the reasons.
CREATE FUNCTION alvyn_bench.capacity_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        WITH stage AS (
            SELECT p.phase, s.reasons,
                   round(p.request_count / p.duration_seconds, 3) AS rate
              FROM alvyn_bench.sustained s
              JOIN alvyn_bench.phase p USING (phase)
        ), missed AS (
            SELECT * FROM stage WHERE reasons <> '{}' ORDER BY phase LIMIT 1
        )
        SELECT jsonb_build_object(
                   'maximumSustainableRequestsPerSecond',
                   (SELECT max(rate) FROM stage
                     WHERE phase < coalesce((SELECT phase FROM missed), 32767)),
                   'firstUnsustainableRequestsPerSecond', (SELECT rate FROM missed),
                   'reasons', (SELECT to_jsonb(reasons) FROM missed))
         WHERE alvyn_bench.setting('profile') = 'capacity';
    END;

-- One entry per second and class.  A request counts in the second in which
-- it was done, and as offered in the one in which it was due.
CREATE FUNCTION alvyn_bench.time_series_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        WITH done AS (
            SELECT div(finished_us - alvyn_bench.begin_us(), 1000000)::integer AS second,
                   class,
                   min(phase) AS phase,
                   count(*) FILTER (WHERE succeeded) AS succeeded,
                   count(*) FILTER (WHERE NOT succeeded) AS failed,
                   alvyn_bench.milliseconds(
                       percentile_disc(ARRAY[0.5, 0.95, 0.99])
                           WITHIN GROUP (ORDER BY latency_us)) AS percentiles,
                   round(max(latency_us) / 1000.0, 3) AS slowest
              FROM alvyn_bench.request
             GROUP BY 1, 2
        ), due AS (
            SELECT div(finished_us - coalesce(latency_us, 0) - alvyn_bench.begin_us(),
                       1000000)::integer AS second,
                   class,
                   count(*) AS offered
              FROM alvyn_bench.request
             GROUP BY 1, 2
        )
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'second', second,
                   'class', class,
                   'phase', p.name,
                   'offered', coalesce(offered, 0),
                   'succeeded', coalesce(succeeded, 0),
                   'failed', coalesce(failed, 0),
                   'p50', percentiles[1],
                   'p95', percentiles[2],
                   'p99', percentiles[3],
                   'max', slowest) ORDER BY second, class), '[]')
          FROM done
          FULL JOIN due USING (second, class)
          LEFT JOIN alvyn_bench.phase p USING (phase);
    END;

-- Samples of what went wrong: refused answers and what pgbench complained of.
CREATE FUNCTION alvyn_bench.errors_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]')
          FROM (SELECT process, n, answer AS message, 'wrong answer' AS error
                  FROM alvyn_bench.wrong_answer
                 UNION ALL
                SELECT process, NULL, line, 'pgbench'
                  FROM alvyn_bench.output
                 WHERE line ~ 'error|ERROR|FATAL'
                 ORDER BY process, n
                 LIMIT 100) AS e;
    END;

-- A process that was killed: what its successor took over, and what of that
-- the store had already.
CREATE FUNCTION alvyn_bench.replacement_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'workerId', s.replica,
                   'killedProcess', s.replaces,
                   'successorProcess', s.process,
                   'operationsTakenOver', s.operations,
                   'depositsAlreadyStored', repeated.n,
                   'lines', jsonb_build_array(
                       jsonb_build_object('what', 'operations that a replica took over',
                                          'value', s.operations),
                       jsonb_build_object('what', 'deposits of these that were stored already',
                                          'value', repeated.n)))
          FROM alvyn_bench.process s
         CROSS JOIN LATERAL (SELECT count(*) AS n FROM alvyn_bench.repeated r
                              WHERE r.process = s.process) AS repeated
         WHERE s.replaces IS NOT NULL;
    END;

-- What the profile adds, if anything.
INSERT INTO alvyn_bench.part
    SELECT 'replacement', alvyn_bench.replacement_object()
     WHERE EXISTS (SELECT FROM alvyn_bench.process WHERE replaces IS NOT NULL);

CREATE FUNCTION alvyn_bench.workers_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'workerId', replica,
                   'requestAttempts', attempts) ORDER BY replica), '[]')
          FROM (SELECT replica, count(*) + sum(retries) AS attempts
                  FROM alvyn_bench.request GROUP BY replica) AS r;
    END;

-- Parts that a profile adds replace fields of the same name.
CREATE FUNCTION alvyn_bench.report(failure text) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
            'status', CASE WHEN failure IS NULL THEN 'passed' ELSE 'failed' END,
            'failure', failure,
            'environment', alvyn_bench.environment_object(),
            'configuration', alvyn_bench.configuration_object(),
            'schema', 'alvyn',
            'workerConnectionCount', alvyn_bench.connections(),
            'coordinatorConnectionCount', 1,
            'connectionCount', alvyn_bench.connections() + 1,
            'durationMs', (SELECT sum(duration_ms) FROM alvyn_bench.step),
            'phaseDurations', (
                SELECT jsonb_build_object('workerStartupMs', NULL, 'snapshotBenchmarkMs', NULL)
                       || jsonb_object_agg(name, duration_ms)
                  FROM alvyn_bench.step),
            'request', alvyn_bench.latency_object(NULL, NULL),
            'overallLatency', alvyn_bench.latency_object(NULL, NULL) -> 'latency',
            'throughput', alvyn_bench.throughput_object(),
            'trafficPhases', alvyn_bench.phases_object(),
            'timeSeries', alvyn_bench.time_series_object(),
            'slo', alvyn_bench.slo_object(NULL),
            'capacity', alvyn_bench.capacity_object(),
            'snapshotBenchmark', NULL,
            'errors', alvyn_bench.errors_object(),
            'verification', NULL,
            'workers', alvyn_bench.workers_object())
            || alvyn_bench.classes_object(NULL)
            || (SELECT coalesce(jsonb_object_agg(name, value), '{}') FROM alvyn_bench.part);
    END;
