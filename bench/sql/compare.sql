--
-- compare.sql
--    Two reports side by side.
--
-- The spread of a figure is the middle half of its values per second, in the
-- same phase.  Where those of the two reports do not overlap, the difference
-- is larger than the spread.  The first and the last second of a phase do not
-- count, and with fewer than eight in between there is no spread; nor have
-- figures of a whole run any.
--

CREATE TABLE alvyn_bench.compared (
    side text PRIMARY KEY,
    file text NOT NULL,
    report jsonb NOT NULL
);

-- Every figure that a report has and that says better or worse.
CREATE FUNCTION alvyn_bench.figures(report jsonb)
    RETURNS TABLE (rank bigint, part text, figure text, value numeric, more_is_better boolean,
                   low numeric, high numeric)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        WITH phase AS (
            SELECT p.value AS phase, p.number, p.value ->> 'name' AS name
              FROM jsonb_path_query(report, '$.trafficPhases[*]')
                   WITH ORDINALITY AS p (value, number)
        ), any_second AS (
            SELECT s ->> 'phase' AS name,
                   s ->> 'class' AS class,
                   (s ->> 'second')::integer AS second,
                   (s ->> 'succeeded')::numeric AS succeeded,
                   s
              FROM jsonb_path_query(report, '$.timeSeries[*]') AS s
        ), whole AS (
            SELECT name, min(second) AS first, max(second) AS last
              FROM any_second
             GROUP BY name
            HAVING max(second) - min(second) > 8
        ), second AS (
            SELECT s.*
              FROM any_second s
              JOIN whole w ON s.name = w.name AND s.second > w.first AND s.second < w.last
        ), rate AS (
            SELECT name, percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY n) AS band
              FROM (SELECT name, second, sum(succeeded) AS n FROM second GROUP BY 1, 2) AS summed
             GROUP BY name
        ), latency AS (
            SELECT name, class, figure,
                   percentile_cont(ARRAY[0.25, 0.75])
                       WITHIN GROUP (ORDER BY (s ->> figure)::numeric) AS band
              FROM second
             CROSS JOIN (VALUES ('p50'), ('p95'), ('p99')) AS f (figure)
             GROUP BY name, class, figure
        ), class AS (
            SELECT * FROM (VALUES (1, 'read'), (2, 'deposit'), (3, 'load'), (4, 'append'))
                          AS c (line, class)
        ), percentile AS (
            SELECT * FROM (VALUES (1, 'p50'), (2, 'p95'), (3, 'p99'), (4, 'p999'), (5, 'max'))
                          AS p (line, figure)
        )
        SELECT 0, 'run', 'sustained/s',
               (report #>> '{capacity,maximumSustainableRequestsPerSecond}')::numeric,
               true, NULL::numeric, NULL::numeric
         UNION ALL
        SELECT 1, 'run', 'done/s',
               (report #>> '{throughput,requestsPerSecond}')::numeric, true, NULL, NULL
         UNION ALL
        SELECT 10 * c.line + p.line, 'run', c.class || ' ' || p.figure || ', ms',
               (report #>> ARRAY[c.class, 'latency', p.figure])::numeric, false, NULL, NULL
          FROM class c, percentile p
         UNION ALL
        SELECT 90 + s.number, 'run', s.step || ', s',
               round((report #>> ARRAY['phaseDurations', s.step || 'Ms'])::numeric / 1000, 3),
               false, NULL, NULL
          FROM unnest(ARRAY['seeding', 'verification']) WITH ORDINALITY AS s (step, number)
         UNION ALL
        SELECT 1000 * f.number, f.name, 'done/s',
               (f.phase ->> 'achievedRequestsPerSecond')::numeric, true,
               round(r.band[1]::numeric, 3), round(r.band[2]::numeric, 3)
          FROM phase f
          LEFT JOIN rate r USING (name)
         UNION ALL
        SELECT 1000 * f.number + 10 * c.line + p.line, f.name, c.class || ' ' || p.figure || ', ms',
               (f.phase #>> ARRAY[c.class, 'latency', p.figure])::numeric, false,
               round(l.band[1]::numeric, 3), round(l.band[2]::numeric, 3)
          FROM phase f
         CROSS JOIN class c
         CROSS JOIN percentile p
          LEFT JOIN latency l ON (l.name, l.class, l.figure) = (f.name, c.class, p.figure)
         UNION ALL
        SELECT 1000000 + 10 * l.number + w.line,
               format('%s events', l.value ->> 'historyEventsPerAccount'), w.way || ' p50, ms',
               (l.value #>> ARRAY[w.way, 'p50'])::numeric, false, NULL, NULL
          FROM jsonb_path_query(report, '$.snapshotBenchmark.lengths[*]')
               WITH ORDINALITY AS l (value, number)
         CROSS JOIN (VALUES (1, 'withoutSnapshots'), (2, 'withSnapshots'), (3, 'state'),
                            (4, 'tail')) AS w (line, way);
    END;

CREATE VIEW alvyn_bench.comparison AS
    WITH a AS (
        SELECT f.* FROM alvyn_bench.compared c, alvyn_bench.figures(c.report) f WHERE c.side = 'a'
    ), b AS (
        SELECT f.* FROM alvyn_bench.compared c, alvyn_bench.figures(c.report) f WHERE c.side = 'b'
    )
    SELECT a.rank,
           part,
           figure,
           a.value AS a,
           b.value AS b,
           round(b.value / nullif(a.value, 0), 3) AS ratio,
           CASE WHEN a.low IS NULL OR b.low IS NULL THEN NULL
                WHEN a.high < b.low AND a.value < b.value
                THEN CASE WHEN a.more_is_better THEN 'better' ELSE 'worse' END
                WHEN b.high < a.low AND b.value < a.value
                THEN CASE WHEN a.more_is_better THEN 'worse' ELSE 'better' END
                ELSE 'within the spread' END AS difference,
           CASE WHEN a.low IS NOT NULL THEN format('%s to %s', a.low, a.high) END AS spread_a,
           CASE WHEN b.low IS NOT NULL THEN format('%s to %s', b.low, b.high) END AS spread_b
      FROM a
      JOIN b USING (part, figure)
     WHERE a.value IS NOT NULL AND b.value IS NOT NULL;

-- Facts and options in which the two differ: reasons to compare with care.
CREATE VIEW alvyn_bench.circumstance AS
    WITH fact AS (
        SELECT c.side, f.key AS name, f.value
          FROM alvyn_bench.compared c
         CROSS JOIN LATERAL jsonb_each_text(
             coalesce(c.report -> 'environment', '{}') - 'settings'
             || coalesce(c.report #> '{environment,settings}', '{}')
             || coalesce(c.report -> 'configuration', '{}')) AS f
         WHERE f.key NOT IN ('generatedAt', 'outputPath')
    )
    SELECT coalesce(a.name, b.name) AS name, a.value AS a, b.value AS b
      FROM (SELECT * FROM fact WHERE side = 'a') AS a
      FULL JOIN (SELECT * FROM fact WHERE side = 'b') AS b USING (name)
     WHERE a.value IS DISTINCT FROM b.value;

CREATE FUNCTION alvyn_bench.comparison_object() RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT jsonb_build_object(
                       'figures', (SELECT coalesce(jsonb_agg(to_jsonb(c) - 'rank' ORDER BY rank), '[]')
                                     FROM alvyn_bench.comparison c),
                       'circumstances', (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY name), '[]')
                                           FROM alvyn_bench.circumstance d)));
