--
-- seed.sql
--    The history that the accounts have before the traffic begins.
--
-- Event 0 of an account opens it, the others deposit 1 each.  An account is
-- one call of append_batch, which also states that its stream must be new.
-- Returns the number of events written.
--

CREATE FUNCTION alvyn_bench.seed_accounts(first_account integer, last_account integer)
    RETURNS bigint
    LANGUAGE sql
    BEGIN ATOMIC
        WITH history AS (
            SELECT array_agg(CASE WHEN n = 0 THEN 'AccountOpened'
                                  ELSE 'MoneyDeposited' END ORDER BY n) AS types
              FROM generate_series(0, alvyn_bench.setting('history')::integer - 1) AS n
        ), appended AS (
            SELECT alvyn.append_batch(
                       alvyn_bench.stream_prefix() || account,
                       0,
                       history.types,
                       events.data,
                       events.metadata) AS result
              FROM history
             CROSS JOIN generate_series(first_account, last_account) AS account
             CROSS JOIN LATERAL (
                SELECT array_agg(CASE WHEN n = 0
                                      THEN jsonb_build_object('initialBalance', 0)
                                      ELSE jsonb_build_object(
                                               'amount', 1,
                                               'operationToken', token)
                                 END ORDER BY n) AS data,
                       array_agg(jsonb_build_object('correlationid', token)
                                 ORDER BY n) AS metadata
                  FROM generate_series(0, cardinality(history.types) - 1) AS n
                 CROSS JOIN LATERAL (
                    SELECT concat_ws(':', 'seed', alvyn_bench.setting('seed'),
                                     account, n) AS token) AS t) AS events
        )
        SELECT sum((result).version)::bigint FROM appended;
    END;
