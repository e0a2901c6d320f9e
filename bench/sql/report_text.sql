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
SELECT count(*) > 0 AS some FROM alvyn_bench.latency \gset
\if :some
\echo 'Traffic (latency in ms, counted from when a request was due)'
SELECT coalesce(p.name, 'all phases') AS "phase",
       coalesce(l.class, 'all') AS "class",
       l.attempted AS "requests",
       l.failed AS "failed",
       l.conflicts AS "conflicts",
       l.retries AS "retries",
       round(CASE WHEN l.class IS NULL THEN p.request_count / p.duration_seconds END,
             1) AS "planned/s",
       round(l.succeeded * 1000 / nullif(l.duration_ms, 0), 1) AS "done/s",
       round(l.percentiles[1], 2) AS "p50",
       round(l.percentiles[2], 2) AS "p95",
       round(l.percentiles[3], 2) AS "p99",
       round(l.percentiles[4], 2) AS "p99.9",
       round(l.slowest, 2) AS "max"
  FROM alvyn_bench.latency l
  LEFT JOIN alvyn_bench.phase p USING (phase)
 ORDER BY l.phase, l.class DESC NULLS LAST;
\endif

SELECT count(*) > 0 AS some FROM alvyn_bench.objective \gset
\if :some
\echo 'Objectives, whole run'
SELECT metric, round(actual, 3) AS "measured", threshold AS "at most",
       CASE WHEN passed THEN 'met' ELSE 'MISSED' END AS "result"
  FROM alvyn_bench.objective
 WHERE phase IS NULL
 ORDER BY metric DESC;
\endif

SELECT alvyn_bench.capacity_object() IS NOT NULL AS some \gset
\if :some
\echo 'Capacity'
SELECT o ->> 'maximumSustainableRequestsPerSecond' AS "sustained/s",
       o ->> 'firstUnsustainableRequestsPerSecond' AS "not sustained/s",
       (SELECT string_agg(r, ', ') FROM jsonb_array_elements_text(
            CASE jsonb_typeof(o -> 'reasons') WHEN 'array' THEN o -> 'reasons'
                 ELSE '[]' END) AS r) AS "because of"
  FROM (SELECT alvyn_bench.capacity_object() AS o) AS capacity;
\endif

SELECT count(*) > 0 AS some FROM alvyn_bench.part WHERE jsonb_typeof(value -> 'lines') = 'array' \gset
\if :some
\echo 'Findings'
SELECT l.*
  FROM alvyn_bench.part
 CROSS JOIN LATERAL jsonb_to_recordset(
            CASE jsonb_typeof(value -> 'lines') WHEN 'array' THEN value -> 'lines'
                 ELSE '[]' END) AS l ("what" text, "value" text);
\endif

SELECT count(*) > 0 AS some FROM alvyn_bench.checked \gset
\if :some
\echo 'Verification against the plan, every event'
SELECT name AS "what", found AS "found", expected AS "expected"
  FROM alvyn_bench.checked
 ORDER BY line;
\endif

SELECT count(*) > 0 AS some FROM alvyn_bench.fault \gset
\if :some
\echo 'Faults'
SELECT fault, occurrences, sample FROM alvyn_bench.fault ORDER BY fault;
\endif

\echo 'Steps'
SELECT s.name AS "step",
       round(s.duration_ms / 1000, 1) AS "seconds",
       CASE WHEN s.name = 'seedingMs' AND s.duration_ms > 0
                 AND alvyn_bench.setting('history') IS NOT NULL
            THEN format('%s events/s', round(
                     coalesce(alvyn_bench.setting_number('accounts'),
                              alvyn_bench.setting_number('streams'))
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
