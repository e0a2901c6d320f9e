-- A command on each of several streams: all of it or nothing, one row for
-- each stream in the order of the caller.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

SELECT alvyn.create_snapshot('Account', 'account', 4, '{"balance": 0}', rules => '{"Moved": {"balance": {"add": "amount"}}}');
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (state ->> 'balance')::numeric + (command ->> 'amount')::numeric < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'AB001', MESSAGE = format('only %s left', state ->> 'balance');
    END IF;
    IF (command ->> 'amount')::numeric <> 0 THEN
        RETURN QUERY SELECT 'Moved', command, NULL::jsonb, NULL, NULL::timestamptz, NULL::int;
    END IF;
END
$$;
SELECT alvyn.create_decider('account', 'account', 'Account', 'decide(jsonb, jsonb)');
SELECT version FROM alvyn.execute('account-b', '{"amount": 100}');

-- A transfer to an account that is new, and on.
SELECT * FROM alvyn.execute_streams(ARRAY['account-b', 'account-a'], ARRAY['{"amount": -30}', '{"amount": 30}']::jsonb[]);
SELECT stream_id, first_version, version, state FROM alvyn.execute_streams(ARRAY['account-c', 'account-a', 'account-b'], ARRAY['{"amount": 5}', '{"amount": -10}', '{"amount": 5}']::jsonb[]);
-- Snapshots are taken of each.
SELECT stream_id, first_version, last_version, version, state
FROM alvyn.execute_streams(ARRAY['account-b', 'account-a'], ARRAY['{"amount": -1}', '{"amount": 1}']::jsonb[]);
SELECT version, data FROM alvyn.load('account-b') WHERE snapshot;

-- One that must not: nothing of it, also not a new stream.
SELECT * FROM alvyn.execute_streams(ARRAY['account-d', 'account-a'], ARRAY['{"amount": 1000}', '{"amount": -1000}']::jsonb[]);
SELECT stream_id, version FROM alvyn.list_streams();
SELECT count(*) FROM alvyn.streams;

-- Streams for which nothing is decided are as they were, and not there if
-- they were not.
SELECT * FROM alvyn.execute_streams(ARRAY['account-e', 'account-a', 'account-b'], ARRAY['{"amount": 0}', '{"amount": 1}', '{"amount": 0}']::jsonb[]);
SELECT * FROM alvyn.execute_streams(ARRAY['account-e', 'account-b', 'account-f'], ARRAY['{"amount": 0}', '{"amount": 0}', '{"amount": 0}']::jsonb[], 'none');
SELECT count(*) FROM alvyn.streams;
SELECT count(*) FROM alvyn.idempotency_keys;
SELECT * FROM alvyn.verify_streams();

-- One key for all of it: the second call returns the first result, with the
-- states as of then, whatever has come since.
SELECT * FROM alvyn.execute_streams(ARRAY['account-b', 'account-g', 'account-h'], ARRAY['{"amount": -7}', '{"amount": 7}', '{"amount": 0}']::jsonb[], 'transfer');
SELECT version FROM alvyn.execute('account-g', '{"amount": 100}');
SELECT version FROM alvyn.execute('account-h', '{"amount": 100}');
SELECT * FROM alvyn.execute_streams(ARRAY['account-b', 'account-g', 'account-h'], ARRAY['{"amount": -7}', '{"amount": 7}', '{"amount": 0}']::jsonb[], 'transfer');
-- In another order it is the same call.
SELECT stream_id, version, duplicate FROM alvyn.execute_streams(ARRAY['account-h', 'account-g', 'account-b'], ARRAY['{"amount": 0}', '{"amount": 7}', '{"amount": -7}']::jsonb[], 'transfer');
\set VERBOSITY sqlstate
SELECT * FROM alvyn.execute_streams(ARRAY['account-b', 'account-g', 'account-h'], ARRAY['{"amount": -7}', '{"amount": 7}', '{"amount": 1}']::jsonb[], 'transfer');
SELECT * FROM alvyn.execute_streams(ARRAY['account-b', 'account-g'], ARRAY['{"amount": -7}', '{"amount": 7}']::jsonb[], 'transfer');
SELECT * FROM alvyn.execute_streams(ARRAY['account-b', 'account-i', 'account-h'], ARRAY['{"amount": -7}', '{"amount": 7}', '{"amount": 0}']::jsonb[], 'transfer');
\set VERBOSITY default
SELECT count(*) FROM alvyn.streams WHERE stream_id = 'account-i';

-- An append that is repeated leaves no row of a stream that it only had to
-- find absent, either.
SELECT stream_id, version, duplicate FROM alvyn.append_streams(ARRAY['plain-1'], ARRAY['A'], ARRAY['{}']::jsonb[], NULL, ARRAY['plain-2'], ARRAY[0], 'plain');
SELECT stream_id, version, duplicate FROM alvyn.append_streams(ARRAY['plain-1'], ARRAY['A'], ARRAY['{}']::jsonb[], NULL, ARRAY['plain-2'], ARRAY[0], 'plain');
SELECT count(*) FROM alvyn.streams WHERE stream_id = 'plain-2';

-- One stream, and many.
SELECT stream_id, version, state FROM alvyn.execute_streams(ARRAY['account-a'], ARRAY['{"amount": 1}']::jsonb[]);
SELECT count(*), count(DISTINCT stream_id), sum(version), sum((state ->> 'balance')::int)
FROM alvyn.execute_streams(ARRAY(SELECT 'account-m' || i FROM generate_series(1, 500) i ORDER BY i % 7, i), array_fill('{"amount": 2}'::jsonb, ARRAY[500]));
SELECT stream_id = 'account-n' || ordinality AS in_order, count(*)
FROM alvyn.execute_streams(ARRAY(SELECT 'account-n' || i FROM generate_series(1, 100) i ORDER BY i), array_fill('{"amount": 2}'::jsonb, ARRAY[100])) WITH ORDINALITY GROUP BY 1;

-- Deciders may differ.
CREATE FUNCTION decide_other(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE AS
$$SELECT 'Noted', command, NULL::jsonb, NULL, NULL::timestamptz, NULL::int FROM generate_series(1, 2)$$;
SELECT alvyn.create_snapshot('Note', 'note', 3, '{}', rules => '{"Noted": {"notes": {"append": "text"}}}');
SELECT alvyn.create_decider('note', 'note', 'Note', 'decide_other(jsonb, jsonb)');
SELECT stream_id, first_version, last_version, version, state
FROM alvyn.execute_streams(ARRAY['note-1', 'account-a'], ARRAY['{"text": "paid"}', '{"amount": -1}']::jsonb[]);

SELECT ok FROM alvyn.verify(NULL, true);
SELECT sum((s.state ->> 'balance')::numeric) AS total FROM alvyn.streams t, alvyn.state(t.stream_id, 'Account') s WHERE t.stream_id LIKE 'account-_';
SELECT alvyn.drop_decider(name) FROM alvyn.deciders;
DROP FUNCTION decide, decide_other;
