--
-- analyse.sql
--    What the traffic did, from pgbench's logs.
--
-- A client's log lines are in the order of its scripts, so the k-th line of
-- client c is operation k * clients + c of the process.  Lines that match no
-- operation are the surplus scripts of the last round, which did nothing.
--

CREATE FUNCTION alvyn_bench.milliseconds(us bigint[]) RETURNS numeric[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT array_agg(round(u / 1000.0, 3) ORDER BY n)
              FROM unnest(us) WITH ORDINALITY AS e (u, n));

-- Counts and latency of a phase, or of all phases, per class and altogether.
-- Percentiles are exact, over all requests, and latency is counted from when
-- a request was due.
CREATE FUNCTION alvyn_bench.summarise(of_phase smallint) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
        INSERT INTO alvyn_bench.latency
            SELECT of_phase,
                   class,
                   count(*),
                   count(*) FILTER (WHERE succeeded),
                   count(*) FILTER (WHERE NOT succeeded),
                   sum(conflicts),
                   sum(retries),
                   count(latency_us),
                   alvyn_bench.milliseconds(
                       percentile_disc(ARRAY[0.5, 0.95, 0.99, 0.999])
                           WITHIN GROUP (ORDER BY latency_us)),
                   round(max(latency_us) / 1000.0, 3),
                   min(finished_us - coalesce(latency_us, 0)),
                   (max(finished_us) - min(finished_us - coalesce(latency_us, 0)))
                       / 1000.0,
                   (max(finished_us - coalesce(latency_us, 0))
                    - min(finished_us - coalesce(latency_us, 0))) / 1000.0
              FROM alvyn_bench.request
             WHERE of_phase IS NULL OR phase = of_phase
             GROUP BY GROUPING SETS ((class), ())
            HAVING count(*) > 0;
    END;

-- The requests of one phase, and its lines of alvyn_bench.latency.
CREATE FUNCTION alvyn_bench.analyse_phase(of_phase smallint) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
        INSERT INTO alvyn_bench.request
            WITH numbered AS (
                SELECT l.*,
                       p.clients,
                       p.replica,
                       row_number() OVER (PARTITION BY l.process, l.client_id
                                          ORDER BY l.transaction_no) - 1 AS k
                  FROM alvyn_bench.process p
                  JOIN alvyn_bench.log l USING (process)
                 WHERE p.phase = of_phase
            )
            SELECT o.process,
                   o.n,
                   o.i,
                   of_phase,
                   o.class,
                   l.replica,
                   done.answered,
                   done.answered AND w.n IS NULL,
                   CASE WHEN done.answered THEN l.outcome::bigint END,
                   l.epoch * 1000000 + l.epoch_us,
                   coalesce(l.retries, 0),
                   coalesce(l.retries, 0) + CASE WHEN done.answered THEN 0 ELSE 1 END
              FROM numbered l
              JOIN alvyn_bench.operation o
                ON o.process = l.process AND o.n = l.k * l.clients + l.client_id
             CROSS JOIN LATERAL (SELECT l.outcome ~ '^[0-9]+$' AS answered) AS done
              LEFT JOIN (SELECT DISTINCT process, n FROM alvyn_bench.wrong_answer) AS w
                     ON w.process = o.process AND w.n = o.n;
        SELECT alvyn_bench.summarise(of_phase);
    END;

-- What is left to do at the end: the phases not analysed yet, and the whole.
CREATE FUNCTION alvyn_bench.analyse_rest() RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
        SELECT alvyn_bench.analyse_phase(p.phase)
          FROM alvyn_bench.phase p
         WHERE NOT EXISTS (SELECT FROM alvyn_bench.latency l WHERE l.phase = p.phase)
         ORDER BY p.phase;
        SELECT alvyn_bench.summarise(NULL);
    END;

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
         alvyn_bench.setting_number('slo-read-p95-ms')),
        ('deposit_p95_ms',
         (SELECT d.percentiles[2] FROM alvyn_bench.latency d
           WHERE d.phase IS NOT DISTINCT FROM l.phase AND d.class = 'deposit'),
         alvyn_bench.setting_number('slo-deposit-p95-ms')),
        ('error_rate_percent',
         round(l.failed * 100.0 / nullif(l.attempted, 0), 6),
         alvyn_bench.setting_number('slo-error-rate-percent'))
     ) AS o (metric, actual, threshold)
     WHERE l.class IS NULL AND o.threshold IS NOT NULL;

-- Why a phase does not count as sustained; an empty array when it does.  The
-- rate is reached when 95 % of what came to be due in a time was done in it:
-- due times are drawn, so a short phase may be offered less than planned.
CREATE VIEW alvyn_bench.sustained AS
    SELECT l.phase,
           array_remove(array_agg(o.metric ORDER BY o.metric)
                        FILTER (WHERE NOT o.passed)
                        || CASE WHEN l.succeeded / nullif(l.duration_ms, 0)
                                     < 0.95 * l.attempted / nullif(l.offered_ms, 0)
                                THEN 'rate' END, NULL) AS reasons
      FROM alvyn_bench.latency l
      JOIN alvyn_bench.phase f USING (phase)
      LEFT JOIN alvyn_bench.objective o USING (phase)
     WHERE l.class IS NULL
     GROUP BY l.phase, l.succeeded, l.duration_ms, l.attempted, l.offered_ms;

-- After a stage: whether the next one is run.  When enough stages have been
-- run beyond the first that was not sustained, the rest is skipped.
CREATE FUNCTION alvyn_bench.next_stage(after_phase smallint) RETURNS boolean
    LANGUAGE sql
    BEGIN ATOMIC
        UPDATE alvyn_bench.phase
           SET skipped = true
         WHERE phase > after_phase
           AND after_phase >= (SELECT min(s.phase) FROM alvyn_bench.sustained s
                                WHERE s.reasons <> '{}')
                              + alvyn_bench.setting_number('stages-beyond');
        SELECT EXISTS (SELECT FROM alvyn_bench.phase
                        WHERE phase > after_phase AND NOT skipped);
    END;
