--
-- snapshots.sql
--    From here on appends keep snapshots of the accounts, and loads use them.
--
-- Run after seeding, so that the history has none: an account's first
-- deposits of the traffic write its first snapshot.
--

SELECT alvyn.create_snapshot(
    'LoadTestAccountBalance', 'LoadTestAccount', 50,
    '{"balance": 0, "depositCount": 0, "depositTotal": 0}',
    rules => '{
        "AccountOpened": {
            "status": {"set": "open"},
            "balance": {"copy": "initialBalance"}
        },
        "MoneyDeposited": {
            "balance": {"add": "amount"},
            "depositCount": {"increment": 1},
            "depositTotal": {"add": "amount"}
        }
    }');

CREATE OR REPLACE FUNCTION alvyn_bench.account_state(account_stream text)
    RETURNS TABLE (
        stream_id text,
        status text,
        version bigint,
        balance bigint,
        deposit_count bigint,
        deposit_total bigint
    )
    LANGUAGE sql STABLE PARALLEL SAFE
    BEGIN ATOMIC
        SELECT account_stream,
               (a.s).state ->> 'status',
               (a.s).version,
               ((a.s).state ->> 'balance')::bigint,
               ((a.s).state ->> 'depositCount')::bigint,
               ((a.s).state ->> 'depositTotal')::bigint
          FROM (SELECT alvyn.state(account_stream, 'LoadTestAccountBalance') AS s
                OFFSET 0) AS a;
    END;
