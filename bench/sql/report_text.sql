--
-- report_text.sql
--    The report that a person reads.  For psql; failure is a variable.
--

\set QUIET on
\pset footer off
\pset border 1
\pset null '-'
\pset linestyle ascii
\pset numericlocale off

\echo
\echo 'Traffic (latency in ms, counted from when a request was due)'
SELECT coalesce(p.name, 'all phases') AS "phase",
       coalesce(l.class, 'all') AS "class",
       l.attempted AS "requests",
       l.failed AS "failed",
       l.conflicts AS "conflicts",
       l.retries AS "retries",
       round(l.attempted / coalesce(p.duration_seconds,
             (SELECT sum(duration_seconds) FROM alvyn_bench.phase)), 1) AS "planned/s",
       round(l.succeeded * 1000 / nullif(l.duration_ms, 0), 1) AS "done/s",
       round(l.percentiles[1], 2) AS "p50",
       round(l.percentiles[2], 2) AS "p95",
       round(l.percentiles[3], 2) AS "p99",
       round(l.slowest, 2) AS "max"
  FROM alvyn_bench.latency l
  LEFT JOIN alvyn_bench.phase p USING (phase)
 ORDER BY l.phase, l.class DESC NULLS LAST;

\echo 'Objectives, whole run'
SELECT metric, round(actual, 3) AS "measured", threshold AS "at most",
       CASE WHEN passed THEN 'met' ELSE 'MISSED' END AS "result"
  FROM alvyn_bench.objective
 WHERE phase IS NULL
 ORDER BY metric DESC;

\echo 'Verification against the plan, every event'
SELECT v.name AS "what", v.found AS "found", v.expected AS "expected"
  FROM alvyn_bench.total t
 CROSS JOIN LATERAL (VALUES
    (1, 'accounts', t.accounts, alvyn_bench.setting_number('accounts')),
    (2, 'seeded events', t.seeded_events,
        alvyn_bench.setting_number('accounts') * alvyn_bench.setting_number('history')),
    (3, 'deposits', t.stored_events - t.snapshot_events - t.seeded_events, t.deposits),
    (4, 'source events', t.stored_events - t.snapshot_events, t.expected_events),
    (5, 'snapshot events', t.snapshot_events, t.expected_snapshots),
    (6, 'stored events', t.stored_events, t.expected_events + t.expected_snapshots),
    (7, 'balance', t.balance, t.expected_balance)
 ) AS v (line, name, found, expected)
 ORDER BY v.line;

SELECT count(*) > 0 AS faulty FROM alvyn_bench.fault \gset
\if :faulty
\echo 'Faults'
SELECT fault, occurrences, sample FROM alvyn_bench.fault ORDER BY fault;
\endif

\echo 'Steps'
SELECT s.name AS "step",
       round(s.duration_ms / 1000, 1) AS "seconds",
       CASE WHEN s.name = 'seedingMs' AND s.duration_ms > 0
            THEN format('%s events/s', round(
                     alvyn_bench.setting_number('accounts')
                     * alvyn_bench.setting_number('history')
                     * 1000 / s.duration_ms))
       END AS "rate"
  FROM alvyn_bench.step s
 ORDER BY s.number;

\echo 'Provenance'
SELECT e.key AS "name", e.value AS "value"
  FROM (SELECT alvyn_bench.environment_object() AS o) AS environment
 CROSS JOIN LATERAL jsonb_each_text(o - 'settings') AS e
 UNION ALL
SELECT 'setting ' || s.key, s.value
  FROM (SELECT alvyn_bench.environment_object() -> 'settings' AS o) AS settings
 CROSS JOIN LATERAL jsonb_each_text(o) AS s
 ORDER BY 1;
