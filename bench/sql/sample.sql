--
-- sample.sql
--    What a server that runs for long must not do: grow.
--
-- A sample is taken every so many seconds.  At the end the second quarter of
-- the run, when caches are filled, is compared with the last one.
--

CREATE TABLE alvyn_bench.sample (
    taken_at timestamptz PRIMARY KEY,
    connections integer NOT NULL,
    backends integer NOT NULL,
    backend_kb numeric,
    events bigint,
    table_bytes bigint NOT NULL,
    index_bytes bigint NOT NULL,
    live_tuples bigint NOT NULL,
    dead_tuples bigint NOT NULL
);

-- The memory of a backend that is its own, in kB; shared buffers, which every
-- backend comes to have mapped, do not count.  Null where the server may not
-- look: elsewhere than on Linux, or without the right to read files.
CREATE FUNCTION alvyn_bench.backend_kb(pid integer) RETURNS numeric
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN substring(pg_read_file(format('/proc/%s/smaps_rollup', pid), 0, 10000, true)
                     FROM 'Anonymous: *([0-9]+) kB');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

CREATE FUNCTION alvyn_bench.sample() RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
        INSERT INTO alvyn_bench.sample
            SELECT clock_timestamp(),
                   (SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database()),
                   b.backends,
                   b.kb,
                   (SELECT max(position) FROM alvyn.events),
                   t.table_bytes,
                   t.index_bytes,
                   t.live,
                   t.dead
              FROM (SELECT count(*) AS backends,
                           avg(alvyn_bench.backend_kb(pid)) AS kb
                      FROM pg_stat_activity
                     WHERE datname = current_database()
                       AND application_name = 'alvyn_bench traffic') AS b
             CROSS JOIN (SELECT sum(pg_table_size(relid)) AS table_bytes,
                                sum(pg_indexes_size(relid)) AS index_bytes,
                                sum(n_live_tup) AS live,
                                sum(n_dead_tup) AS dead
                           FROM pg_stat_user_tables
                          WHERE schemaname = 'alvyn') AS t;
    END;

-- Each measure in the second and in the last quarter.  Of dead tuples as many
-- are allowed as autovacuum lets come together by default, a fifth, and as
-- many again that come while it works.
CREATE VIEW alvyn_bench.trend AS
    WITH numbered AS (
        SELECT s.*, ntile(4) OVER (ORDER BY taken_at) AS quarter
          FROM alvyn_bench.sample s
    ), median AS (
        SELECT quarter,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY connections) AS connections,
               round(percentile_disc(0.5) WITHIN GROUP (ORDER BY backend_kb), 1) AS backend_kb,
               round(percentile_disc(0.5) WITHIN GROUP (
                   ORDER BY (table_bytes + index_bytes) / nullif(events, 0)::numeric), 1)
                   AS bytes_per_event,
               round(percentile_disc(0.5) WITHIN GROUP (
                   ORDER BY 100.0 * dead_tuples / nullif(live_tuples, 0)), 1) AS dead_percent
          FROM numbered
         GROUP BY quarter
    )
    SELECT m.metric,
           m.early,
           m.late,
           m.allowed,
           coalesce(m.late <= m.allowed, true) AS passed
      FROM median a
      JOIN median z ON a.quarter = 2 AND z.quarter = 4
     CROSS JOIN (SELECT 1 + alvyn_bench.setting_number('growth-percent') / 100 AS factor) g
     CROSS JOIN LATERAL (VALUES
        ('backend memory, kB', a.backend_kb, z.backend_kb,
            round(a.backend_kb * g.factor, 1)),
        ('connections', a.connections, z.connections, round(a.connections * g.factor)),
        ('bytes per event', a.bytes_per_event, z.bytes_per_event,
            round(a.bytes_per_event * g.factor, 1)),
        ('dead tuples, %', a.dead_percent, z.dead_percent, 40)
     ) AS m (metric, early, late, allowed);

CREATE FUNCTION alvyn_bench.judge_samples() RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
        INSERT INTO alvyn_bench.part
            SELECT 'soak',
                   jsonb_build_object(
                       'sampleCount', (SELECT count(*) FROM alvyn_bench.sample),
                       'samples', (SELECT jsonb_agg(to_jsonb(s) ORDER BY taken_at)
                                     FROM alvyn_bench.sample s),
                       'trends', jsonb_agg(to_jsonb(t)),
                       'lines', jsonb_agg(jsonb_build_object(
                           'what', metric,
                           'value', format('%s, then %s; at most %s',
                                           coalesce(early::text, 'not known'),
                                           coalesce(late::text, 'not known'),
                                           coalesce(allowed::text, '-')))),
                       'failure', string_agg(format('%s grew from %s to %s', metric, early, late),
                                             '; ') FILTER (WHERE NOT passed))
              FROM alvyn_bench.trend t;
    END;
