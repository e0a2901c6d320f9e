-- execute() loads, decides and appends in one call: the state it decides on,
-- the events it takes, and what comes back.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

SELECT alvyn.create_snapshot('Account', 'account', 5, '{"balance": 0}',
                             rules => '{"Opened": {"status": {"set": "open"}}, "Deposited": {"balance": {"add": "amount"}}, "Withdrawn": {"balance": {"subtract": "amount"}}}');
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_event alvyn.new_event;
BEGIN
    IF command ? 'noop' THEN
        RETURN;
    END IF;
    IF NOT state ? 'status' THEN
        v_event.type := 'Opened';
        v_event.data := '{}';
        RETURN NEXT v_event;
    END IF;
    IF (state ->> 'balance')::numeric + (command ->> 'amount')::numeric < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'AB001', MESSAGE = format('only %s left', state ->> 'balance');
    END IF;
    v_event.type := CASE WHEN (command ->> 'amount')::numeric < 0 THEN 'Withdrawn' ELSE 'Deposited' END;
    v_event.data := jsonb_build_object('amount', abs((command ->> 'amount')::numeric));
    v_event.metadata := command -> 'metadata';
    FOR i IN 1 .. coalesce((command ->> 'times')::int, 1) LOOP
        RETURN NEXT v_event;
    END LOOP;
END
$$;
SELECT alvyn.create_decider('account', 'account', 'Account', 'decide(jsonb, jsonb)');
SELECT * FROM alvyn.deciders;

-- A new stream, an old one; the state is that after the events.
SELECT * FROM alvyn.execute('account-1', '{"amount": 10.50}');
SELECT * FROM alvyn.execute('account-1', '{"amount": 5, "metadata": {"by": "me"}}');
SELECT first_version, last_version, version, state FROM alvyn.execute('account-1', '{"amount": -0.5}');
-- The fifth handled event makes a snapshot due; the version tells of it.
SELECT first_version, last_version, version, state FROM alvyn.execute('account-1', '{"amount": 1}');
SELECT first_version, last_version, version, state FROM alvyn.execute('account-1', '{"amount": 2, "times": 12}');
SELECT first_version, last_version, version, state FROM alvyn.execute('account-1', '{"amount": 1}', 19);
SELECT version, type, data, metadata, snapshot FROM alvyn.load('account-1', 1) WHERE version < 8 OR snapshot;
SELECT state = (alvyn.execute('account-1', '{"noop": true}')).state AS same FROM alvyn.state('account-1', 'Account');

-- Nothing decided, nothing written: no row, no position, no key.
SELECT * FROM alvyn.execute('account-1', '{"noop": true}');
SELECT * FROM alvyn.execute('account-2', '{"noop": true}', idempotency_key => 'noop');
SELECT count(*) FROM alvyn.streams WHERE stream_id = 'account-2';
SELECT count(*) FROM alvyn.idempotency_keys;
SELECT last_value = (SELECT max(position) FROM alvyn.events) AS none FROM alvyn.events_position_seq;

-- What decide raises comes as it is; nothing is written, the session goes on.
SELECT * FROM alvyn.execute('account-1', '{"amount": -1000}');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM alvyn.execute('account-3', '{"amount": -1}');
SELECT count(*) FROM alvyn.streams WHERE stream_id = 'account-3';
SELECT alvyn.stream_version('account-1');
BEGIN;
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}');
SAVEPOINT s;
SELECT version FROM alvyn.execute('account-1', '{"amount": -1000}');
ROLLBACK TO s;
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}');
ROLLBACK;
SELECT alvyn.stream_version('account-1');

-- The caller's expectation: every kind of it.
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}', 20);
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}', -2);
\set VERBOSITY sqlstate
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}', 20);
SELECT version FROM alvyn.execute('account-1', '{"noop": true}', 20);
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}', 0);
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}', -1);
SELECT version FROM alvyn.execute('account-4', '{"amount": 1}', -2);
SELECT version FROM alvyn.execute('account-4', '{"amount": 1}', 1);
\set VERBOSITY default
SELECT version FROM alvyn.execute('account-1', '{"amount": 1}', 20);
SELECT version FROM alvyn.execute('account-4', '{"amount": 1}', 0);
SELECT version FROM alvyn.execute('account-5', '{"amount": 1}', -1);

-- The same command with the same key: the first result, with the state as of
-- then; another command: refused.
SELECT * FROM alvyn.execute('account-6', '{"amount": 7, "times": 4}', idempotency_key => 'k6');
SELECT version, state FROM alvyn.execute('account-6', '{"amount": 100}');
SELECT * FROM alvyn.execute('account-6', '{"amount": 7, "times": 4}', idempotency_key => 'k6');
SELECT version, duplicate FROM alvyn.execute('account-6', '{"times": 4,     "amount": 7}', 1000, 'k6');
\set VERBOSITY sqlstate
SELECT * FROM alvyn.execute('account-6', '{"amount": 7, "times": 5}', idempotency_key => 'k6');
SELECT * FROM alvyn.execute('account-5', '{"amount": 7, "times": 4}', idempotency_key => 'k6');
SELECT alvyn.append('account-6', NULL, 'Deposited', '{"amount": 7}', idempotency_key => 'k6');
\set VERBOSITY default
SELECT version FROM alvyn.execute('account-6', '{"noop": true}', idempotency_key => 'k7');
SELECT version, duplicate FROM alvyn.execute('account-6', '{"amount": 1}', idempotency_key => 'k7');
SELECT version, duplicate FROM alvyn.execute('account-6', '{"amount": 1}', idempotency_key => 'k7');

-- Several commands in one statement and in one transaction see each other.
SELECT (alvyn.execute('account-7', '{"amount": 1}')).state ->> 'balance' AS one, (alvyn.execute('account-7', '{"amount": 1}')).state ->> 'balance' AS two
FROM generate_series(1, 3);
BEGIN;
SELECT (alvyn.append('account-7', NULL, 'Deposited', '{"amount": 4}')).version;
SELECT version, state FROM alvyn.execute('account-7', '{"amount": -10}');
ROLLBACK;

-- All that an event can have; events in the order in which they were decided.
CREATE FUNCTION decide_rows(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE AS $$
SELECT e.type, e.data, e.metadata, e.id, e."time", e.schema_version
FROM jsonb_populate_recordset(NULL::alvyn.new_event, command) e
$$;
CREATE FUNCTION evolve_types(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
'SELECT state || to_jsonb(event.type)';
SELECT alvyn.create_snapshot('Types', 'row', 1000, '[]', 'evolve_types(jsonb, alvyn.event)');
SELECT alvyn.create_decider('row', 'row', 'Types', 'decide_rows(jsonb, jsonb)');
SELECT first_version, last_version, version, state FROM alvyn.execute('row-1', '[
    {"type": "A", "data": {"a": 1.10}, "metadata": {"m": null}, "id": "my id", "time": "2024-02-29 12:00:00+02", "schema_version": 3},
    {"type": "B", "data": 7},
    {"type": "Ä", "data": []}]');
SELECT version, id, type, data, metadata, schema_version, "time" = '2024-02-29 10:00:00+00' AS given FROM alvyn.load('row-1');
SELECT first_version, last_version, version, jsonb_array_length(state) AS state
FROM alvyn.execute('row-1', (SELECT jsonb_agg(jsonb_build_object('type', 'T' || i, 'data', i)) FROM generate_series(1, 1000) i));
SELECT count(*), bool_and(type = 'T' || (version - 3)) AS in_order FROM alvyn.load('row-1', 4) WHERE NOT snapshot;
-- Large and compressed values.
SELECT version, length(state ->> -1) AS type
FROM alvyn.execute('row-2', jsonb_build_array(jsonb_build_object('type', repeat('t', 500), 'data', repeat('abc', 200000), 'metadata', repeat('def', 100000), 'id', repeat('i', 512))));
SELECT length(type) AS type, length(data #>> '{}') AS data, length(metadata #>> '{}') AS metadata, length(id) AS id FROM alvyn.load('row-2');
-- From a table whose values are stored apart.
CREATE TABLE stored (type text, data jsonb, id text);
ALTER TABLE stored ALTER type SET STORAGE EXTENDED;
INSERT INTO stored SELECT repeat('stored', 80), jsonb_agg(md5(i::text)), repeat('x', 400) FROM generate_series(1, 1000) i;
INSERT INTO stored VALUES (repeat('long ', 6000), '{}', 'y');
CREATE FUNCTION decide_stored(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT s.type, s.data, NULL::jsonb, s.id, NULL::timestamptz, NULL::int FROM stored s WHERE s.id LIKE (command ->> 'id') || '%';
END
$$;
SELECT alvyn.create_decider('stored', 'row-stored', 'Types', 'decide_stored(jsonb, jsonb)');
SELECT version, length(state ->> -1) AS type FROM alvyn.execute('row-stored-1', '{"id": "x"}');
SELECT type = repeat('stored', 80) AS type, data = (SELECT data FROM stored WHERE id LIKE 'x%') AS data, id = repeat('x', 400) AS id FROM alvyn.load('row-stored-1');
\set VERBOSITY sqlstate
SELECT version FROM alvyn.execute('row-stored-1', '{"id": "y"}');
\set VERBOSITY default

-- The longest prefix decides; the snapshot may have a shorter one.
CREATE FUNCTION decide_sub(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE AS
$$SELECT 'Sub', '{}'::jsonb, NULL::jsonb, NULL, NULL::timestamptz, NULL::int$$;
SELECT alvyn.create_decider('sub', 'account-sub', 'Account', 'decide_sub(jsonb, jsonb)');
SELECT version, state FROM alvyn.execute('account-sub-1', '{}');
SELECT version, state FROM alvyn.execute('account-subs', '{"amount": 1}');
SELECT stream_id, type FROM alvyn.load('account-sub-1');
SELECT alvyn.drop_decider('sub');
SELECT version, state FROM alvyn.execute('account-sub-1', '{"amount": 1}');

-- Decide functions see what was committed when the stream was locked, and the
-- transaction's own rows; they may read other streams.
CREATE FUNCTION decide_look(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT 'Looked', jsonb_build_object('streams', (SELECT count(*) FROM alvyn.list_streams('account-')),
                                                     'balance', (alvyn.state('account-1', 'Account')).state -> 'balance',
                                                     'own', (SELECT count(*) FROM alvyn.load('look-1'))), NULL::jsonb, NULL, NULL::timestamptz, NULL::int;
END
$$;
SELECT alvyn.create_snapshot('Look', 'look', 3, '{}', rules => '{"Looked": {"seen": {"append": "balance"}, "own": {"append": "own"}}}');
SELECT alvyn.create_decider('look', 'look', 'Look', 'decide_look(jsonb, jsonb)');
BEGIN;
SELECT state FROM alvyn.execute('look-1', '{}');
SELECT version FROM alvyn.execute('account-1', '{"amount": 1000}');
SELECT state FROM alvyn.execute('look-1', '{}');
SELECT state, version FROM alvyn.execute('look-1', '{}');
COMMIT;

-- A function that is replaced while its decider stands: volatile, strict.
CREATE OR REPLACE FUNCTION decide_look(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STRICT AS
$$SELECT ('Looked', '{"balance": 0, "own": 0}', NULL, NULL, NULL, NULL)::alvyn.new_event FROM generate_series(1, (command ->> 'n')::int)$$;
SELECT version FROM alvyn.execute('look-2', '{"n": 3}');

SELECT ok FROM alvyn.verify(NULL, true);
SELECT alvyn.drop_decider(name) FROM alvyn.deciders;
DROP TABLE stored;
DROP FUNCTION decide, decide_rows, decide_sub, decide_look, decide_stored;
SELECT alvyn.drop_snapshot('Types');
DROP FUNCTION evolve_types;
