--
-- plan.sql
--    The plan of the account model: who does what in which phase.
--
-- Operation i of the run is decided by arithmetic alone, so that two runs
-- with the same options do exactly the same.  With u active users and o
-- operations per user, of which r are reads:
--
--    v       = |31 seed + 17 i|
--    user    = (i mod u + seed) mod u
--    account = user on a day; elsewhere v mod hot when v mod 100 < hot percent
--              or all accounts are hot, else hot + v mod (accounts - hot)
--    read      if (i div u + user) mod o < r, else a deposit
--    amount  = 1 + v mod 10
--    token   = http:{seed}:{i}
--    replica = i mod replicas
--
-- pgbench computes the same (scripts/mix.sql).  What is written here is what
-- the verification compares with, so a difference between the two would not
-- stay hidden.
--

INSERT INTO alvyn_bench.variable
    WITH option AS (
        SELECT alvyn_bench.setting('profile') = 'daily' AS daily,
               alvyn_bench.setting_number('accounts') AS accounts,
               coalesce(alvyn_bench.setting_number('hot-accounts'), 0) AS hot,
               alvyn_bench.setting_number('operations-per-user') AS per_user
    )
    SELECT v.name, v.value
      FROM option
     CROSS JOIN LATERAL (VALUES
        ('seed', alvyn_bench.setting('seed')),
        ('history', alvyn_bench.setting('history')),
        ('replicas', alvyn_bench.setting('replicas')),
        ('users', alvyn_bench.setting('active-users')),
        ('per_user', per_user::text),
        ('reads', round(per_user * alvyn_bench.setting_number('read-percent') / 100)::text),
        ('daily', daily::text),
        ('hot', hot::text),
        ('cold', (accounts - hot)::text),
        ('hot_percent', CASE WHEN hot = 0 THEN '0'
                             WHEN hot = accounts THEN '100'
                             ELSE alvyn_bench.setting('hot-traffic-percent') END),
        ('keyed', alvyn_bench.setting_is_on('replace-replica')::text)
     ) AS v (name, value)
     WHERE v.value IS NOT NULL;

-- A day.  Off-peak is a tenth of the requests in a fifth of the time, peak
-- eight tenths in three fifths, cool-down the rest.
INSERT INTO alvyn_bench.phase
    WITH total AS (
        SELECT alvyn_bench.setting('requests')::integer AS requests,
               alvyn_bench.setting_number('duration-seconds')
                   / alvyn_bench.setting_number('time-scale') AS seconds
         WHERE alvyn_bench.setting('profile') = 'daily'
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

-- Stages of a rising rate.
INSERT INTO alvyn_bench.phase
    WITH stage AS (
        SELECT rate,
               round(rate * alvyn_bench.setting_number('stage-seconds')) AS requests
          FROM generate_series(alvyn_bench.setting_number('capacity-start-rps'),
                               alvyn_bench.setting_number('capacity-max-rps'),
                               alvyn_bench.setting_number('capacity-step-rps')) AS rate
         WHERE alvyn_bench.setting('profile') = 'capacity'
    )
    SELECT row_number() OVER (ORDER BY rate) - 1,
           format('capacity-%s-rps', rate),
           sum(requests) OVER (ORDER BY rate) - requests,
           requests,
           alvyn_bench.setting_number('stage-seconds')
      FROM stage;

-- One phase: as fast as it goes, or at a rate for a long time.
INSERT INTO alvyn_bench.phase
    SELECT 0, profile.name, 0, alvyn_bench.setting('requests')::integer,
           CASE profile.name WHEN 'soak'
                THEN alvyn_bench.setting_number('duration-seconds') END
      FROM (SELECT alvyn_bench.setting('profile') AS name) AS profile
     WHERE profile.name IN ('custom', 'soak');

-- A replica's connections are --clients, or its part of --concurrency.
INSERT INTO alvyn_bench.process
    SELECT row_number() OVER (ORDER BY f.phase, r.replica) - 1,
           f.phase,
           r.replica,
           'mix',
           own.first,
           own.operations,
           least(own.operations,
                 coalesce(alvyn_bench.setting('clients')::integer,
                          (alvyn_bench.setting('concurrency')::integer
                           + o.replicas - 1 - r.replica) / o.replicas)),
           own.operations / f.duration_seconds
      FROM (SELECT alvyn_bench.setting('replicas')::integer AS replicas) AS o
     CROSS JOIN alvyn_bench.phase f
     CROSS JOIN LATERAL generate_series(0, o.replicas - 1) AS r (replica)
     CROSS JOIN LATERAL (
         SELECT f.request_offset + (r.replica + o.replicas
                                    - f.request_offset % o.replicas) % o.replicas AS first
         ) AS start
     CROSS JOIN LATERAL (
         SELECT start.first,
                (f.request_offset + f.request_count - start.first
                 + o.replicas - 1) / o.replicas AS operations
         ) AS own
     WHERE own.operations > 0;

INSERT INTO alvyn_bench.operation
    WITH o AS MATERIALIZED (
        SELECT jsonb_object_agg(name, value) AS o FROM alvyn_bench.variable
    ), option AS MATERIALIZED (
        SELECT (o ->> 'seed')::bigint AS seed,
               (o ->> 'replicas')::integer AS replicas,
               (o ->> 'users')::bigint AS users,
               (o ->> 'per_user')::bigint AS per_user,
               (o ->> 'reads')::bigint AS reads,
               (o ->> 'daily')::boolean AS daily,
               (o ->> 'hot')::bigint AS hot,
               (o ->> 'cold')::bigint AS cold,
               (o ->> 'hot_percent')::bigint AS hot_percent
          FROM o
    )
    SELECT p.process,
           n,
           op.i,
           CASE WHEN (op.i / users + u.user_no) % per_user < reads
                THEN 'read' ELSE 'deposit' END,
           CASE WHEN daily THEN u.user_no
                WHEN op.v % 100 < hot_percent THEN op.v % hot
                ELSE hot + op.v % cold END,
           1 + op.v % 10
      FROM option
     CROSS JOIN alvyn_bench.process p
     CROSS JOIN LATERAL generate_series(0, p.operations - 1) AS n
     CROSS JOIN LATERAL (
         SELECT p.first + n * replicas AS i,
                abs(seed * 31 + (p.first + n * replicas) * 17) AS v
         ) AS op
     CROSS JOIN LATERAL (SELECT (op.i % users + seed) % users AS user_no) AS u;

ANALYZE alvyn_bench.operation;

-- A process was killed: give what its log does not have to a new process.
-- Returns no row when nothing is left.
CREATE FUNCTION alvyn_bench.replace_process(old_process smallint)
    RETURNS SETOF alvyn_bench.process
    LANGUAGE sql
    BEGIN ATOMIC
        INSERT INTO alvyn_bench.process
            SELECT (SELECT max(process) + 1 FROM alvyn_bench.process),
                   phase, replica, scripts, first, 0, clients, rate, process
              FROM alvyn_bench.process
             WHERE process = old_process;
        WITH done AS (
            SELECT p.clients * (row_number() OVER (PARTITION BY l.client_id
                                                   ORDER BY l.transaction_no) - 1)
                   + l.client_id AS n
              FROM alvyn_bench.log l
              JOIN alvyn_bench.process p USING (process)
             WHERE p.process = old_process
        ), left_over AS (
            SELECT o.n, row_number() OVER (ORDER BY o.n) - 1 AS new_n
              FROM alvyn_bench.operation o
             WHERE o.process = old_process
               AND NOT EXISTS (SELECT FROM done WHERE done.n = o.n)
        )
        UPDATE alvyn_bench.operation o
           SET process = s.process,
               n = l.new_n
          FROM left_over l, alvyn_bench.process s
         WHERE s.replaces = old_process
           AND o.process = old_process
           AND o.n = l.n;
        UPDATE alvyn_bench.process s
           SET operations = taken.n
          FROM (SELECT count(*) AS n
                  FROM alvyn_bench.operation
                  JOIN alvyn_bench.process USING (process)
                 WHERE replaces = old_process) AS taken
         WHERE s.replaces = old_process;
        UPDATE alvyn_bench.process s
           SET clients = least(s.clients, s.operations)
         WHERE s.replaces = old_process AND s.operations > 0;
        SELECT * FROM alvyn_bench.process
         WHERE replaces = old_process AND operations > 0;
    END;
