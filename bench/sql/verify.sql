--
-- verify.sql
--    Whether the store holds what the plan and the answers say.
--
-- Read from the tables, not through the functions that wrote them.  Nothing
-- is sampled: every event of every account is compared with the event that
-- the plan has for it, every acknowledged deposit must be there exactly once,
-- on its account and with its amount, and nothing else may be there.  Each
-- kind of fault gets a row in alvyn_bench.fault; none means verified.
--

CREATE TABLE alvyn_bench.account AS
    SELECT s.stream_no,
           substr(s.stream_id, length(alvyn_bench.stream_prefix()) + 1) AS account
      FROM alvyn.streams s
     WHERE starts_with(s.stream_id, alvyn_bench.stream_prefix());
ANALYZE alvyn_bench.account;

-- Each account's events, and how many of its first ones are as seeded.
CREATE TABLE alvyn_bench.ledger AS
    SELECT a.account,
           count(*) AS stored_events,
           count(*) FILTER (WHERE e.snapshot) AS snapshot_events,
           min(e.version) AS first_version,
           max(e.version) AS last_version,
           count(*) FILTER (
               WHERE e.version = 1
                 AND e.type = 'AccountOpened'
                 AND e.data = '{"initialBalance": 0}'
                  OR e.version BETWEEN 2 AND o.history
                 AND e.type = 'MoneyDeposited'
                 AND e.data = jsonb_build_object(
                         'amount', 1,
                         'operationToken', o.token || a.account || ':' || e.version - 1)
           ) AS seeded,
           coalesce(sum((e.data ->> 'amount')::numeric)
               FILTER (WHERE e.type = 'MoneyDeposited'), 0) AS balance
      FROM (SELECT alvyn_bench.setting('history')::bigint AS history,
                   'seed:' || alvyn_bench.setting('seed') || ':' AS token OFFSET 0) o
     CROSS JOIN alvyn.events e
      JOIN alvyn_bench.account a USING (stream_no)
     GROUP BY a.account;

-- The events that came after the history: deposits and snapshots.
CREATE TABLE alvyn_bench.live AS
    SELECT a.account,
           e.version,
           e.position,
           e.type,
           e.snapshot,
           e.data,
           e.data ->> 'operationToken' AS token,
           e.data ->> 'amount' AS amount
      FROM alvyn.events e
      JOIN alvyn_bench.account a USING (stream_no)
     WHERE e.version > (SELECT alvyn_bench.setting('history')::bigint);

-- What each snapshot must say: the history, which is checked by itself, and
-- the deposits before it.
CREATE TABLE alvyn_bench.snapshot AS
    SELECT account, version, type, data, expected
      FROM (
        SELECT l.*,
               jsonb_build_object(
                   'status', 'open',
                   'balance', h.deposits + sum(l.amount::numeric) OVER w,
                   'depositCount', h.deposits + count(l.amount) OVER w,
                   'depositTotal', h.deposits + sum(l.amount::numeric) OVER w) AS expected
          FROM alvyn_bench.live l
         CROSS JOIN (SELECT alvyn_bench.setting('history')::bigint - 1 AS deposits) h
        WINDOW w AS (PARTITION BY l.account ORDER BY l.version)
      ) AS with_state
     WHERE snapshot;

-- The deposits of the plan, and whether their success was acknowledged.
CREATE TABLE alvyn_bench.deposit AS
    SELECT 'http:' || (SELECT alvyn_bench.setting('seed')) || ':' || o.i AS token,
           o.account::text AS account,
           o.amount::text AS amount,
           coalesce(r.answered, false) AS acknowledged
      FROM alvyn_bench.operation o
      LEFT JOIN alvyn_bench.request r USING (process, n)
     WHERE o.class = 'deposit';

ANALYZE alvyn_bench.ledger, alvyn_bench.live, alvyn_bench.snapshot, alvyn_bench.deposit;

-- How many snapshots each account has, and how many it must have: the first
-- with its first deposit that makes at least 50 events, one per 50 then.
CREATE TABLE alvyn_bench.snapshot_count AS
    SELECT l.account,
           l.snapshot_events AS found,
           CASE WHEN alvyn_bench.setting_is_on('no-snapshots') OR d.deposits < d.first
                THEN 0
                ELSE 1 + (d.deposits - d.first) / 50
           END AS expected
      FROM alvyn_bench.ledger l
     CROSS JOIN LATERAL (
         SELECT l.stored_events - l.snapshot_events - o.history AS deposits,
                greatest(1, 50 - o.history) AS first
           FROM (SELECT alvyn_bench.setting('history')::bigint AS history) o
         ) AS d;

INSERT INTO alvyn_bench.fault
    SELECT 'account without stream', count(*), min(n::text)
      FROM generate_series(0, alvyn_bench.setting('accounts')::integer - 1) AS n
     WHERE NOT EXISTS (SELECT FROM alvyn_bench.ledger l WHERE l.account = n::text)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'stream without account', count(*), min(l.account)
      FROM alvyn_bench.ledger l
     WHERE l.account !~ '^(0|[1-9][0-9]{0,8})$'
        OR l.account::integer >= (SELECT alvyn_bench.setting('accounts')::integer)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'versions not contiguous', count(*), min(account)
      FROM alvyn_bench.ledger
     WHERE first_version <> 1 OR last_version <> stored_events
    HAVING count(*) > 0
     UNION ALL
    SELECT 'seeded events changed or missing', count(*), min(account)
      FROM alvyn_bench.ledger
     WHERE seeded <> (SELECT alvyn_bench.setting('history')::bigint)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'event that is no deposit', count(*), min(account || '/' || version)
      FROM alvyn_bench.live
     WHERE NOT snapshot
       AND (type <> 'MoneyDeposited' OR token IS NULL OR amount IS NULL)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'events out of order', count(*), min(account || '/' || version)
      FROM (SELECT account, version,
                   position < lag(position) OVER (PARTITION BY account ORDER BY version) AS late
              FROM alvyn_bench.live) AS ordered
     WHERE late
    HAVING count(*) > 0
     UNION ALL
    SELECT 'snapshot with another state', count(*), min(account || '/' || version)
      FROM alvyn_bench.snapshot
     WHERE data IS DISTINCT FROM expected
        OR type <> 'LoadTestAccountBalanceSnapshot'
    HAVING count(*) > 0
     UNION ALL
    SELECT 'snapshots missing or superfluous', count(*), min(account)
      FROM alvyn_bench.snapshot_count
     WHERE found <> expected
    HAVING count(*) > 0
     UNION ALL
    SELECT 'deposit outside the plan', count(*), min(l.token)
      FROM alvyn_bench.live l
     WHERE l.token IS NOT NULL
       AND NOT EXISTS (SELECT FROM alvyn_bench.deposit d WHERE d.token = l.token)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'deposit that was not acknowledged', count(*), min(l.token)
      FROM alvyn_bench.live l
      JOIN alvyn_bench.deposit d USING (token)
     WHERE NOT d.acknowledged
    HAVING count(*) > 0
     UNION ALL
    SELECT 'acknowledged deposit missing', count(*), min(d.token)
      FROM alvyn_bench.deposit d
     WHERE d.acknowledged
       AND NOT EXISTS (SELECT FROM alvyn_bench.live l WHERE l.token = d.token)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'deposit stored more than once', count(*), min(token)
      FROM (SELECT token FROM alvyn_bench.live
             WHERE token IS NOT NULL GROUP BY token HAVING count(*) > 1) AS twice
    HAVING count(*) > 0
     UNION ALL
    SELECT 'deposit on another account', count(*), min(l.token)
      FROM alvyn_bench.live l
      JOIN alvyn_bench.deposit d USING (token)
     WHERE l.account <> d.account
    HAVING count(*) > 0
     UNION ALL
    SELECT 'deposit with another amount', count(*), min(l.token)
      FROM alvyn_bench.live l
      JOIN alvyn_bench.deposit d USING (token)
     WHERE l.amount <> d.amount
    HAVING count(*) > 0;

-- Alvyn's own verification, which recomputes from the events.
CREATE TABLE alvyn_bench.verified AS
    SELECT * FROM alvyn.verify(check_snapshots => true);

-- What the whole store adds up to, and what it should.
CREATE TABLE alvyn_bench.total AS
    WITH size AS (
        SELECT alvyn_bench.setting('accounts')::bigint AS accounts,
               alvyn_bench.setting('history')::bigint AS history
    ), acknowledged AS (
        SELECT count(*) AS deposits, coalesce(sum(amount::bigint), 0) AS amount
          FROM alvyn_bench.deposit
         WHERE acknowledged
    ), stored AS (
        SELECT count(*) AS accounts,
               coalesce(sum(stored_events), 0) AS stored_events,
               coalesce(sum(snapshot_events), 0) AS snapshot_events,
               coalesce(sum(seeded), 0) AS seeded_events,
               coalesce(sum(balance), 0) AS balance
          FROM alvyn_bench.ledger
    ), snapshots AS (
        SELECT coalesce(sum(expected), 0) AS expected_snapshots
          FROM alvyn_bench.snapshot_count
    )
    SELECT stored.*,
           acknowledged.deposits,
           size.accounts * size.history + acknowledged.deposits AS expected_events,
           size.accounts * (size.history - 1) + acknowledged.amount AS expected_balance,
           snapshots.expected_snapshots
      FROM size, acknowledged, stored, snapshots;

INSERT INTO alvyn_bench.fault
    SELECT 'alvyn.verify() found broken streams', greatest(broken_streams, 1), NULL
      FROM alvyn_bench.verified
     WHERE NOT ok
     UNION ALL
    SELECT 'alvyn.verify() counts other events', 1,
           format('%s, not %s', v.stored_events, t.stored_events)
      FROM alvyn_bench.verified v, alvyn_bench.total t
     WHERE (v.streams, v.source_events, v.stored_events, v.snapshot_events)
           IS DISTINCT FROM (t.accounts, t.stored_events - t.snapshot_events,
                             t.stored_events, t.snapshot_events)
     UNION ALL
    SELECT 'number of events', 1,
           format('%s, not %s', stored_events - snapshot_events, expected_events)
      FROM alvyn_bench.total
     WHERE stored_events - snapshot_events <> expected_events
     UNION ALL
    SELECT 'number of snapshots', 1,
           format('%s, not %s', snapshot_events, expected_snapshots)
      FROM alvyn_bench.total
     WHERE snapshot_events <> expected_snapshots
     UNION ALL
    SELECT 'balance of all accounts', 1,
           format('%s, not %s', balance, expected_balance)
      FROM alvyn_bench.total
     WHERE balance <> expected_balance;

INSERT INTO alvyn_bench.checked
    SELECT c.*
      FROM alvyn_bench.total t
     CROSS JOIN LATERAL (VALUES
        (1, 'accounts', t.accounts, alvyn_bench.setting_number('accounts')),
        (2, 'seeded events', t.seeded_events,
            alvyn_bench.setting_number('accounts') * alvyn_bench.setting_number('history')),
        (3, 'deposits', t.stored_events - t.snapshot_events - t.seeded_events, t.deposits),
        (4, 'source events', t.stored_events - t.snapshot_events, t.expected_events),
        (5, 'snapshot events', t.snapshot_events, t.expected_snapshots),
        (6, 'stored events', t.stored_events, t.expected_events + t.expected_snapshots),
        (7, 'balance', t.balance, t.expected_balance)
     ) AS c;

INSERT INTO alvyn_bench.part
    SELECT 'verification',
           jsonb_build_object(
               'accountCount', t.accounts,
               'eventCount', t.stored_events - t.snapshot_events,
               'storedEventCount', t.stored_events,
               'snapshotEventCount', t.snapshot_events,
               'expectedEventCount', t.expected_events,
               'expectedSnapshotEventCount', t.expected_snapshots,
               'seedEventCount', t.seeded_events,
               'seedSnapshotEventCount', 0,
               'successfulDeposits', t.deposits,
               'finalBalance', t.balance,
               'expectedBalance', t.expected_balance,
               'faults', (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY fault), '[]')
                            FROM alvyn_bench.fault f))
      FROM alvyn_bench.total t;
