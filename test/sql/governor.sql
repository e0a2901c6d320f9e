-- Governors: a bucket of tokens for all sessions, that fills at its rate.
--
-- What is not granted takes nothing, what was granted stays taken, and who
-- waits is let through in its turn.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- A burst, and then nothing for long: 1 token in 1,000 seconds.
SELECT alvyn.create_governor('slow', 0.001, 3);
SELECT granted, retry_in FROM generate_series(1, 3) i, alvyn.acquire('slow', 1 + 0 * i);
SELECT granted, retry_in BETWEEN '900 s' AND '1000 s' AS retry_in FROM alvyn.acquire('slow');
SELECT granted, retry_in BETWEEN '2900 s' AND '3000 s' AS retry_in FROM alvyn.acquire('slow', 3);
SELECT granted, retry_in BETWEEN '900 s' AND '1000 s' AS retry_in FROM alvyn.acquire('slow', wait => '15 minutes');
SELECT key, rate, burst, available < 0.1 AS empty, waiting FROM alvyn.governors;

-- Parts of tokens; a rollback gives nothing back.
SELECT alvyn.create_governor('parts', 0.001, 1);
BEGIN;
SELECT granted FROM alvyn.acquire('parts', 0.25);
SAVEPOINT a;
SELECT granted FROM alvyn.acquire('parts', 0.5);
ROLLBACK TO a;
ROLLBACK;
SELECT granted FROM alvyn.acquire('parts', 0.5);
SELECT granted FROM alvyn.acquire('parts', 0.25);
SELECT granted FROM alvyn.acquire('parts', 0.25);

-- Whoever waits gets the token, and pays for it in time.
SELECT alvyn.create_governor('fast', 100, 1);
DO $$
DECLARE
    v_start timestamptz := clock_timestamp();
    v_granted bigint;
BEGIN
    SELECT count(*) FILTER (WHERE a.granted) INTO v_granted
      FROM generate_series(1, 21) i, alvyn.acquire('fast', 1 + 0 * i, '1 s') a;
    RAISE NOTICE '% granted, not before 0.2 s: %', v_granted, clock_timestamp() - v_start >= '0.2 s';
END
$$;

-- A waiter that gives up gives its tokens back.
SELECT alvyn.create_governor('given', 0.1, 1);
SELECT granted FROM alvyn.acquire('given');
BEGIN;
SET LOCAL statement_timeout = '50 ms';
SELECT granted FROM alvyn.acquire('given', wait => '1 minute');
ROLLBACK;
SELECT granted, retry_in < '10 s' AS retry_in FROM alvyn.acquire('given');

-- Another rate and another burst from the next call on; what was taken stays
-- taken.
SELECT alvyn.alter_governor('slow', 0.002, 5);
SELECT granted FROM alvyn.acquire('slow', 2);
SELECT granted, retry_in BETWEEN '450 s' AND '500 s' AS retry_in FROM alvyn.acquire('slow');
SELECT alvyn.alter_governor('slow', 0.001, 3);

-- The clock was set back by a year since the bucket was emptied: it fills as
-- if it had not been.
SELECT alvyn.create_governor('clock', 0.001, 1);
SELECT granted FROM alvyn.acquire('clock');
UPDATE alvyn.governor_states SET arrival = arrival + 31536000000000000, seen = seen + 31536000000000000 WHERE key = 'clock';
SELECT granted, retry_in BETWEEN '900 s' AND '1000 s' AS retry_in FROM alvyn.acquire('clock');

-- Tokens for what a claim returns: whole ones, no more than there are.
SELECT alvyn.create_governor('claims', 0.001, 10);
SELECT granted FROM alvyn.acquire('claims', 2.5);
SELECT alvyn.take_tokens('claims', 5), alvyn.take_tokens('claims', 5), alvyn.take_tokens('claims', 5);
SELECT alvyn.return_tokens('claims', 4);
SELECT alvyn.take_tokens('claims', 100), alvyn.take_tokens('claims', 0);

-- One version of each row, however often it changes.
SELECT alvyn.create_governor('busy', 1000000, 1000000);
SELECT count(*) FILTER (WHERE a.granted) FROM generate_series(1, 10000) i, alvyn.acquire('busy', 1 + 0 * i) a;
SELECT pg_relation_size('alvyn.governor_states') = current_setting('block_size')::int AS one_page;

SELECT alvyn.drop_governor(key) FROM alvyn.governors ORDER BY key;
SELECT count(*) FROM alvyn.governors;
SELECT count(*) FROM alvyn.governor_states;
