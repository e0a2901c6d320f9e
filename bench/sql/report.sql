--
-- report.sql
--    The verdict on a run and the report of it.
--
-- The report has the names of the original's report wherever that has the
-- field.  When a run failed early some tables are empty, and the report says
-- what there is.
--

-- The objectives of a phase, or of the whole run where phase is null.  A
-- phase without a deposit or a read meets the objective for it.
CREATE VIEW alvyn_bench.objective AS
    SELECT l.phase,
           o.metric,
           o.actual,
           o.threshold,
           coalesce(o.actual <= o.threshold, true) AS passed
      FROM alvyn_bench.latency l
     CROSS JOIN LATERAL (VALUES
        ('read_p95_ms',
         (SELECT r.percentiles[2] FROM alvyn_bench.latency r
           WHERE r.phase IS NOT DISTINCT FROM l.phase AND r.class = 'read'),
         alvyn_bench.setting('slo-read-p95-ms')::numeric),
        ('deposit_p95_ms',
         (SELECT d.percentiles[2] FROM alvyn_bench.latency d
           WHERE d.phase IS NOT DISTINCT FROM l.phase AND d.class = 'deposit'),
         alvyn_bench.setting('slo-deposit-p95-ms')::numeric),
        ('error_rate_percent',
         round(l.failed * 100.0 / nullif(l.attempted, 0), 6),
         alvyn_bench.setting('slo-error-rate-percent')::numeric)
     ) AS o (metric, actual, threshold)
     WHERE l.class IS NULL;

-- Why the run failed, or null.
CREATE FUNCTION alvyn_bench.verdict() RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT reason
          FROM (
            SELECT 1, format('%s of %s operations were not run',
                             planned.n - coalesce(l.attempted, 0), planned.n)
              FROM (SELECT count(*) AS n FROM alvyn_bench.operation) planned
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
            SELECT 5, format('objective missed: %s is %s, more than %s',
                             metric, round(actual, 3), threshold)
              FROM alvyn_bench.objective
             WHERE phase IS NULL AND NOT passed
          ) AS found (severity, reason)
         ORDER BY severity, reason
         LIMIT 1;
    END;

CREATE FUNCTION alvyn_bench.setting_number(name text) RETURNS numeric
    LANGUAGE sql STABLE
    RETURN alvyn_bench.setting(name)::numeric;

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
          FROM alvyn_bench.latency
         WHERE phase IS NOT DISTINCT FROM of_phase
           AND class IS NOT DISTINCT FROM of_class;
    END;

CREATE FUNCTION alvyn_bench.slo_object(of_phase smallint) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'enforced', true,
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

-- The most connections that the traffic had at a time.
CREATE FUNCTION alvyn_bench.connections() RETURNS bigint
    LANGUAGE sql STABLE
    RETURN (SELECT max(clients)
              FROM (SELECT sum(clients) AS clients FROM alvyn_bench.process
                     GROUP BY phase) AS phases);

CREATE FUNCTION alvyn_bench.configuration_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
            'profile', alvyn_bench.setting('profile'),
            'workerCount', alvyn_bench.setting_number('replicas'),
            'poolSize', 2 * alvyn_bench.setting_number('clients'),
            'operationTimeoutMs', 1000 * alvyn_bench.setting_number('operation-timeout'),
            'runTimeoutMs', 1000 * alvyn_bench.setting_number('run-timeout'),
            'accountCount', alvyn_bench.setting_number('accounts'),
            'activeUserCount', alvyn_bench.setting_number('active-users'),
            'operationsPerUser', alvyn_bench.setting_number('operations-per-user'),
            'hotAccountCount', 0,
            'hotTrafficPercent', 0,
            'historyEventsPerAccount', alvyn_bench.setting_number('history'),
            'durationSeconds', alvyn_bench.setting_number('duration-seconds'),
            'timeScale', alvyn_bench.setting_number('time-scale'),
            'seedBatchSize', alvyn_bench.setting_number('history'),
            'seedConnections', alvyn_bench.setting_number('seed-connections'),
            'requestCount', (SELECT count(*) FROM alvyn_bench.operation),
            'readPercent', alvyn_bench.setting_number('read-percent'),
            'concurrency', alvyn_bench.connections(),
            'maxRetries', alvyn_bench.setting_number('max-tries') - 1,
            'sloReadP95Ms', alvyn_bench.setting_number('slo-read-p95-ms'),
            'sloDepositP95Ms', alvyn_bench.setting_number('slo-deposit-p95-ms'),
            'sloErrorRatePercent', alvyn_bench.setting_number('slo-error-rate-percent'),
            'seed', alvyn_bench.setting_number('seed'),
            'snapshots', alvyn_bench.setting('no-snapshots') IS DISTINCT FROM 'true',
            'verbose', alvyn_bench.setting('verbose') IS NOT NULL,
            'enforceSlos', true,
            'outputPath', alvyn_bench.setting('output'));
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
                          AND name !~ 'director|dest|library|_file$|^lc_|^log_|^port$|addresses'
                          AND name NOT IN ('DateStyle', 'TimeZone', 'dynamic_shared_memory_type',
                                           'default_text_search_config')
                           OR name IN ('fsync', 'full_page_writes', 'wal_level',
                                       'synchronous_commit', 'autovacuum',
                                       'shared_buffers')))
               || (SELECT jsonb_object_agg(name, CASE WHEN value ~ '^[0-9]{1,15}$'
                                                      THEN to_jsonb(value::bigint)
                                                      ELSE to_jsonb(value) END)
                     FROM alvyn_bench.environment);
    END;

CREATE FUNCTION alvyn_bench.phases_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_agg(jsonb_build_object(
                   'name', p.name,
                   'requestOffset', p.request_offset,
                   'requestCount', p.request_count,
                   'targetRequestsPerSecond',
                       round(p.request_count / p.duration_seconds, 3),
                   'durationMs', round(l.duration_ms, 3),
                   'achievedRequestsPerSecond',
                       round(l.succeeded * 1000 / nullif(l.duration_ms, 0), 3),
                   'request', alvyn_bench.latency_object(p.phase, NULL),
                   'read', alvyn_bench.latency_object(p.phase, 'read'),
                   'deposit', alvyn_bench.latency_object(p.phase, 'deposit'),
                   'slo', alvyn_bench.slo_object(p.phase)) ORDER BY p.phase)
          FROM alvyn_bench.phase p
          JOIN alvyn_bench.latency l ON l.phase = p.phase AND l.class IS NULL;
    END;

-- Null unless the run came as far as verifying.
CREATE FUNCTION alvyn_bench.verification_object() RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
                   'accountCount', t.accounts,
                   'eventCount', t.stored_events - t.snapshot_events,
                   'storedEventCount', t.stored_events,
                   'snapshotEventCount', t.snapshot_events,
                   'expectedEventCount', t.expected_events,
                   'expectedSnapshotEventCount', t.expected_snapshots,
                   'seedEventCount', t.seeded_events,
                   'seedSnapshotEventCount', 0,
                   'successfulDeposits', t.deposits,
                   'finalBalance', t.balance,
                   'expectedBalance', t.expected_balance,
                   'faults', (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]')
                                FROM alvyn_bench.fault f))
          FROM alvyn_bench.total t;
    END;

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
            'phaseDurations', (SELECT jsonb_object_agg(name, duration_ms)
                                 FROM alvyn_bench.step),
            'request', alvyn_bench.latency_object(NULL, NULL),
            'read', alvyn_bench.latency_object(NULL, 'read'),
            'deposit', alvyn_bench.latency_object(NULL, 'deposit'),
            'throughput', (
                SELECT jsonb_build_object(
                           'durationMs', round(duration_ms, 3),
                           'successfulRequests', succeeded,
                           'requestsPerSecond',
                               round(succeeded * 1000 / nullif(duration_ms, 0), 3))
                  FROM alvyn_bench.latency
                 WHERE phase IS NULL AND class IS NULL),
            'trafficPhases', coalesce(alvyn_bench.phases_object(), '[]'),
            'slo', alvyn_bench.slo_object(NULL),
            'capacity', NULL,
            'snapshotBenchmark', NULL,
            'errors', (
                SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]')
                  FROM (SELECT process, n, answer FROM alvyn_bench.wrong_answer
                         ORDER BY process, n LIMIT 100) AS w),
            'verification', alvyn_bench.verification_object(),
            'workers', (
                SELECT jsonb_agg(jsonb_build_object(
                           'workerId', replica,
                           'requestAttempts', operations) ORDER BY replica)
                  FROM (SELECT replica, sum(operations) AS operations
                          FROM alvyn_bench.process GROUP BY replica) AS r));
    END;
