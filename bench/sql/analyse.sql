--
-- analyse.sql
--    What the traffic did, from pgbench's logs.
--
-- A client's log lines are in the order of its scripts, so the k-th line of
-- client c is operation k * clients + c of the process.  Lines that match no
-- operation are the surplus scripts of the last round, which did nothing.
--

CREATE TABLE alvyn_bench.request AS
    WITH numbered AS (
        SELECT l.*,
               row_number() OVER (PARTITION BY l.process, l.client_id
                                  ORDER BY l.transaction_no) - 1 AS k
          FROM alvyn_bench.log l
    ), matched AS (
        SELECT o.process,
               o.n,
               o.i,
               o.account,
               o.amount,
               l.outcome ~ '^[0-9]+$' AS answered,
               l.outcome,
               l.epoch * 1000000 + l.epoch_us AS finished_us,
               coalesce(l.lag_us, 0) AS lag_us,
               coalesce(l.retries, 0) AS retries
          FROM numbered l
          JOIN alvyn_bench.process p USING (process)
          JOIN alvyn_bench.operation o
            ON o.process = l.process AND o.n = l.k * p.clients + l.client_id
    )
    SELECT m.process,
           m.n,
           m.i,
           m.account,
           m.amount,
           p.phase,
           p.class,
           p.replica,
           m.answered,
           m.answered AND w.n IS NULL AS succeeded,
           CASE WHEN m.answered THEN m.outcome::bigint END AS latency_us,
           m.lag_us,
           m.finished_us,
           m.retries,
           m.retries + CASE WHEN m.answered THEN 0 ELSE 1 END AS conflicts
      FROM matched m
      JOIN alvyn_bench.process p USING (process)
      LEFT JOIN (SELECT DISTINCT process, n FROM alvyn_bench.wrong_answer) w
             ON w.process = m.process AND w.n = m.n;

ANALYZE alvyn_bench.request;

CREATE FUNCTION alvyn_bench.milliseconds(us bigint[]) RETURNS numeric[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT array_agg(round(u / 1000.0, 3) ORDER BY n)
              FROM unnest(us) WITH ORDINALITY AS e (u, n));

-- Per phase and class; null stands for all of them.  Percentiles are exact,
-- over all requests, and latency is counted from when a request was due.
INSERT INTO alvyn_bench.latency
    SELECT phase,
           class,
           count(*) AS attempted,
           count(*) FILTER (WHERE succeeded) AS succeeded,
           count(*) FILTER (WHERE NOT succeeded) AS failed,
           sum(conflicts) AS conflicts,
           sum(retries) AS retries,
           count(latency_us) AS samples,
           alvyn_bench.milliseconds(
               percentile_disc(ARRAY[0.5, 0.95, 0.99, 0.999])
                   WITHIN GROUP (ORDER BY latency_us)) AS percentiles,
           round(max(latency_us) / 1000.0, 3) AS slowest,
           (max(finished_us) - min(finished_us - coalesce(latency_us, 0)))
               / 1000.0 AS duration_ms
      FROM alvyn_bench.request
     GROUP BY GROUPING SETS ((phase, class), (phase), (class), ());
