--
-- plan.sql
--    The daily plan: who does what in which phase.
--
-- Operation i of the run is decided by arithmetic alone, so that two runs
-- with the same options do exactly the same.  With u users and o operations
-- per user, of which r are reads:
--
--    user    = (i mod u + seed) mod u, which is also the account
--    read      if (i div u + user) mod o < r, else a deposit
--    amount  = 1 + |31 seed + 17 i| mod 10
--    token   = http:{seed}:{i}
--    replica = i mod replicas
--
-- so that each user makes exactly r reads and o - r deposits.
--

CREATE VIEW alvyn_bench.planned AS
    WITH option AS MATERIALIZED (
        SELECT alvyn_bench.setting('active-users')::bigint AS users,
               alvyn_bench.setting('operations-per-user')::bigint AS operations,
               alvyn_bench.setting('read-percent')::numeric AS read_percent,
               alvyn_bench.setting('replicas')::bigint AS replicas,
               alvyn_bench.setting('seed')::bigint AS seed
    )
    SELECT i,
           account,
           CASE WHEN (i / users + account) % operations
                     < round(operations * read_percent / 100)
                THEN 'read' ELSE 'deposit'
           END AS class,
           i % replicas AS replica,
           1 + abs(seed * 31 + i * 17) % 10 AS amount
      FROM option
     CROSS JOIN LATERAL generate_series(0, users * operations - 1) AS i
     CROSS JOIN LATERAL (SELECT (i % users + seed) % users AS account) AS who;

-- Off-peak is a tenth of the requests in a fifth of the time, peak eight
-- tenths in three fifths, cool-down the rest.
INSERT INTO alvyn_bench.phase
    WITH total AS (
        SELECT alvyn_bench.setting('active-users')::integer
                   * alvyn_bench.setting('operations-per-user')::integer AS requests,
               alvyn_bench.setting('duration-seconds')::numeric
                   / alvyn_bench.setting('time-scale')::numeric AS seconds
    ), off_peak AS (
        SELECT round(requests * 0.1)::integer AS requests FROM total
    ), peak AS (
        SELECT round(requests * 0.8)::integer AS requests FROM total
    )
    SELECT 0, 'off-peak', 0, off_peak.requests, total.seconds * 0.2
      FROM total, off_peak
     UNION ALL
    SELECT 1, 'peak', off_peak.requests, peak.requests, total.seconds * 0.6
      FROM total, off_peak, peak
     UNION ALL
    SELECT 2, 'cool-down', off_peak.requests + peak.requests,
           total.requests - off_peak.requests - peak.requests, total.seconds * 0.2
      FROM total, off_peak, peak;

CREATE TEMPORARY TABLE drawn AS
    SELECT p.i, f.phase, p.class, p.replica, p.account, p.amount
      FROM alvyn_bench.planned p
      JOIN alvyn_bench.phase f
        ON p.i >= f.request_offset AND p.i < f.request_offset + f.request_count;

INSERT INTO alvyn_bench.process
    SELECT row_number() OVER (ORDER BY d.phase, d.class DESC, d.replica) - 1,
           d.phase,
           d.class,
           d.replica,
           count(*),
           least(count(*), alvyn_bench.setting('clients')::integer),
           count(*) / f.duration_seconds
      FROM drawn d
      JOIN alvyn_bench.phase f USING (phase)
     GROUP BY d.phase, d.class, d.replica, f.duration_seconds;

INSERT INTO alvyn_bench.operation
    SELECT p.process,
           row_number() OVER (PARTITION BY p.process ORDER BY d.i) - 1,
           d.i,
           d.account,
           d.amount
      FROM drawn d
      JOIN alvyn_bench.process p USING (phase, class, replica)
     ORDER BY 1, 2;

DROP TABLE drawn;
ANALYZE alvyn_bench.operation;
