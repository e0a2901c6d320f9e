--
-- compare_text.sql
--    The comparison that a person reads.  For psql.
--

\set QUIET on
\pset footer off
\pset border 1
\pset null '-'
\pset linestyle ascii

\echo
SELECT upper(side) AS "report", file, report ->> 'status' AS "status",
       report #>> '{configuration,profile}' AS "profile",
       report #>> '{environment,generatedAt}' AS "made"
  FROM alvyn_bench.compared
 ORDER BY side;

SELECT part AS "phase", figure AS "figure", a AS "A", b AS "B", ratio AS "B / A",
       difference AS "difference", spread_a AS "spread of A", spread_b AS "spread of B"
  FROM alvyn_bench.comparison
 ORDER BY rank;

SELECT count(*) > 0 AS some FROM alvyn_bench.circumstance \gset
\if :some
\echo 'What else differs'
SELECT name AS "name", a AS "A", b AS "B"
  FROM alvyn_bench.circumstance
 ORDER BY name;
\endif
