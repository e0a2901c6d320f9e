--
-- seed.sql
--    The history that the accounts have before the traffic begins.
--
-- Event 0 of an account opens it, the others deposit 1 each.  An account is
-- one call of append_batch, which also states that its stream must be new.
-- Returns the number of events written.
--
-- This competes with COPY, so it does per event only what cannot be done
-- once: the account's token is put together as text, and text becomes jsonb.
-- The aggregates take the events as generate_series() makes them, in order;
-- should that ever change, the verification will say so.
--

CREATE FUNCTION alvyn_bench.seed_accounts(first_account integer, last_account integer)
    RETURNS bigint
    LANGUAGE sql
    BEGIN ATOMIC
        WITH history AS MATERIALIZED (
            SELECT array_agg(CASE WHEN n = 0 THEN 'AccountOpened'
                                  ELSE 'MoneyDeposited' END ORDER BY n) AS types,
                   'seed:' || alvyn_bench.setting('seed') || ':' AS token
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
                                      THEN '{"initialBalance": 0}'
                                      ELSE ('{"amount": 1, "operationToken": "'
                                            || t.token || n || '"}')::jsonb
                                 END) AS data,
                       array_agg(('{"correlationid": "' || t.token || n || '"}')::jsonb)
                           AS metadata
                  FROM (SELECT history.token || account || ':' AS token OFFSET 0) AS t
                 CROSS JOIN generate_series(0, cardinality(history.types) - 1) AS n
                ) AS events
        )
        SELECT sum((result).version)::bigint FROM appended;
    END;
