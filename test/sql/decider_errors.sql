-- Deciders that cannot be, commands that cannot be, and decide functions that
-- write, return nonsense or are gone.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
\pset format unaligned
\pset tuples_only on
\set VERBOSITY sqlstate

-- SQLSTATE of a failing call.
CREATE FUNCTION failure(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'no error: ' || call;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' <- ' || call;
END
$$;
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE AS
$$SELECT * FROM jsonb_populate_recordset(NULL::alvyn.new_event, command)$$;
CREATE FUNCTION bad_state(state json, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql AS 'SELECT NULL::alvyn.new_event';
CREATE FUNCTION bad_command(state jsonb, command text) RETURNS SETOF alvyn.new_event LANGUAGE sql AS 'SELECT NULL::alvyn.new_event';
CREATE FUNCTION bad_single(state jsonb, command jsonb) RETURNS alvyn.new_event LANGUAGE sql AS 'SELECT NULL::alvyn.new_event';
CREATE FUNCTION bad_result(state jsonb, command jsonb) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION bad_record(state jsonb, command jsonb) RETURNS SETOF record LANGUAGE sql AS 'SELECT 1, 2';
SELECT alvyn.create_snapshot('A', 'a', 100, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');

SELECT failure('alvyn.create_decider' || a)
FROM unnest(ARRAY[
    $$('', 'a', 'A', 'decide(jsonb, jsonb)')$$,
    $$(repeat('x', 513), 'a', 'A', 'decide(jsonb, jsonb)')$$,
    $$('d', '', 'A', 'decide(jsonb, jsonb)')$$,
    $$('d', 'b', 'A', 'decide(jsonb, jsonb)')$$,
    $$('d', 'an', 'A', 'decide(jsonb, jsonb)')$$,
    $$('d', 'a', 'B', 'decide(jsonb, jsonb)')$$,
    $$('d', 'a', 'A', 'nothing(jsonb, jsonb)')$$,
    $$('d', 'a', 'A', 'bad_state(json, jsonb)')$$,
    $$('d', 'a', 'A', 'bad_command(jsonb, text)')$$,
    $$('d', 'a', 'A', 'bad_single(jsonb, jsonb)')$$,
    $$('d', 'a', 'A', 'bad_result(jsonb, jsonb)')$$,
    $$('d', 'a', 'A', 'bad_record(jsonb, jsonb)')$$]) WITH ORDINALITY a (a, i)
ORDER BY i;
SELECT count(*) FROM alvyn.deciders;
SELECT alvyn.create_decider('a', 'a', 'A', 'decide(jsonb, jsonb)');
SELECT alvyn.create_decider(NULL, 'a', 'A', 'decide(jsonb, jsonb)') IS NULL, alvyn.drop_decider(NULL) IS NULL;
SELECT failure(a)
FROM unnest(ARRAY[
    $$alvyn.create_decider('a', 'a-a', 'A', 'decide(jsonb, jsonb)')$$,
    $$alvyn.create_decider('b', 'a', 'A', 'decide(jsonb, jsonb)')$$,
    $$alvyn.drop_decider('b')$$,
    $$alvyn.drop_snapshot('A')$$,
    $$alvyn.execute(NULL, '{}')$$,
    $$alvyn.execute('', '{}')$$,
    $$alvyn.execute(repeat('a-', 300), '{}')$$,
    $$alvyn.execute('a-1', NULL)$$,
    $$alvyn.execute('a-1', '[]', -3)$$,
    $$alvyn.execute('a-1', '[]', idempotency_key => '')$$,
    $$alvyn.execute('a-1', '[]', idempotency_key => repeat('k', 513))$$,
    $$alvyn.execute('a-1', '[]', max_retries => -1)$$,
    $$alvyn.execute('b-1', '{}')$$,
    $$alvyn.execute('a', '{}')$$,
    $$alvyn.execute_streams(NULL, ARRAY['{}']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1'], NULL)$$,
    $$alvyn.execute_streams('{}', '{}')$$,
    $$alvyn.execute_streams(ARRAY['a-1', 'a-2'], ARRAY['[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1'], ARRAY['[]', '[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1', NULL], ARRAY['[]', '[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1', ''], ARRAY['[]', '[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1', 'a-2'], ARRAY['[]', NULL]::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1', 'a-2', 'a-1'], ARRAY['[]', '[]', '[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1', 'b-1'], ARRAY['[]', '[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY[ARRAY['a-1']], ARRAY['[]']::jsonb[])$$,
    $$alvyn.execute_streams(ARRAY['a-1'], ARRAY['[]']::jsonb[], '')$$,
    $$alvyn.execute_streams(ARRAY['a-1'], ARRAY['[]']::jsonb[], max_retries => -1)$$]) WITH ORDINALITY a (a, i)
ORDER BY i;
-- Null retries are none.
SELECT version FROM alvyn.execute('a-1', '[{"type": "A", "data": {}}]', max_retries => NULL);

-- The wording.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT alvyn.create_decider('d', 'b', 'A', 'decide(jsonb, jsonb)');
SELECT alvyn.create_decider('d', 'a', 'A', 'bad_result(jsonb, jsonb)');
SELECT alvyn.create_decider('a', 'a', 'A', 'decide(jsonb, jsonb)');
SELECT alvyn.create_decider('b', 'a', 'A', 'decide(jsonb, jsonb)');
SELECT alvyn.drop_decider('b');
SELECT alvyn.drop_snapshot('A');
SELECT alvyn.execute('b-1', '{}');
SELECT alvyn.execute('a-1', '{}', max_retries => -5);
SELECT alvyn.execute_streams(ARRAY['a-1', 'a-2', 'a-1'], ARRAY['[]', '[]', '[]']::jsonb[]);
\set SHOW_CONTEXT errors

-- Events that append would refuse.
SELECT alvyn.execute('a-2', '[{"type": "A", "data": {}}, {"data": {}}]');
SELECT alvyn.execute('a-2', '[{"type": "A"}]');
SELECT alvyn.execute('a-2', '[{"type": "ASnapshot", "data": {}}]');
\set VERBOSITY sqlstate
SELECT failure(format('alvyn.execute(''a-2'', %L)', e))
FROM unnest(ARRAY[
    '[{"type": "", "data": {}}]',
    '[{"type": "A", "data": {}, "id": ""}]',
    '[{"type": "A", "data": {}, "time": "infinity"}]',
    '[{"type": "A", "data": {}, "schema_version": 0}]',
    '[null]',
    '["A"]']) WITH ORDINALITY e (e, i) ORDER BY i;
SELECT alvyn.execute('a-2', jsonb_build_array(jsonb_build_object('type', repeat('x', 513), 'data', 1)));
SELECT alvyn.execute('a-2', jsonb_build_array(jsonb_build_object('type', 'A', 'data', repeat('x', 1100000))));
-- The rules refuse what they cannot fold, as in an append.
SELECT alvyn.create_snapshot('R', 'a', 100, '{}', rules => '{"R": {"n": {"add": "n"}}}');
SELECT alvyn.execute('a-2', '[{"type": "R", "data": {"n": 1}}, {"type": "R", "data": {}}]');
SELECT alvyn.stream_version('a-2'), count(*) FROM alvyn.events;

-- A closed stream takes no events, but a command that decides none.
UPDATE alvyn.streams SET state = 'z' WHERE stream_id = 'a-1';
SELECT alvyn.execute('a-1', '[{"type": "A", "data": {}}]');
SELECT version FROM alvyn.execute('a-1', '[]');
SELECT alvyn.take_snapshot('a-1', 'A');
UPDATE alvyn.streams SET state = 'a' WHERE stream_id = 'a-1';

-- A decide function that writes, in whatever way, is refused.
CREATE TABLE scratch (n int);
CREATE SEQUENCE counter;
CREATE FUNCTION decide_write(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql AS $$
BEGIN
    CASE command ->> 0
        WHEN 'insert' THEN INSERT INTO scratch VALUES (1);
        WHEN 'nextval' THEN PERFORM nextval('counter');
        WHEN 'lock' THEN PERFORM n FROM scratch FOR UPDATE;
        WHEN 'create' THEN CREATE TABLE scratch2 (n int);
        WHEN 'append' THEN PERFORM alvyn.append('elsewhere-1', NULL, 'A', '{}');
        WHEN 'execute' THEN PERFORM alvyn.execute('a-1', '[{"type": "A", "data": {}}]');
        WHEN 'allow' THEN SET LOCAL transaction_read_only = off; INSERT INTO scratch VALUES (1);
        WHEN 'catch' THEN
            BEGIN
                INSERT INTO scratch VALUES (1);
            EXCEPTION WHEN read_only_sql_transaction THEN
                RETURN QUERY SELECT 'Caught', '{}'::jsonb, NULL::jsonb, NULL, NULL::timestamptz, NULL::int;
            END;
    END CASE;
END
$$;
SELECT alvyn.create_decider('write', 'a-write', 'A', 'decide_write(jsonb, jsonb)');
SELECT failure(format('alvyn.execute(''a-write-1'', ''["%s"]'')', k))
FROM unnest(ARRAY['insert', 'nextval', 'lock', 'create', 'append', 'execute', 'allow']) WITH ORDINALITY k (k, i) ORDER BY i;
SELECT version FROM alvyn.execute('a-write-1', '["catch"]');
SELECT type FROM alvyn.load('a-write-1');
BEGIN;
SAVEPOINT s;
SELECT alvyn.execute('a-write-1', '["insert"]');
ROLLBACK TO s;
INSERT INTO scratch VALUES (2);
DO $$
BEGIN
    PERFORM alvyn.execute('a-write-1', '["nextval"]');
EXCEPTION WHEN read_only_sql_transaction THEN
    INSERT INTO scratch VALUES (3);
END
$$;
SELECT version FROM alvyn.execute('a-write-1', '["catch"]');
INSERT INTO scratch VALUES (4);
COMMIT;
SELECT array_agg(n ORDER BY n) FROM scratch;
SELECT alvyn.drop_decider('write');

-- Functions that are gone, or have come back in another form.
DROP FUNCTION decide;
\set VERBOSITY default
SELECT alvyn.execute('a-1', '[]');
\set VERBOSITY sqlstate
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT $1';
SELECT alvyn.execute('a-1', '[]');
DROP FUNCTION decide;
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS alvyn.new_event LANGUAGE sql AS 'SELECT NULL::alvyn.new_event';
SELECT alvyn.execute('a-1', '[]');
DROP FUNCTION decide;
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql AS
$$SELECT 'A', '{}'::jsonb, NULL::jsonb, NULL, NULL::timestamptz, NULL::int$$;
SELECT version FROM alvyn.execute('a-1', '[]');
-- A decider whose snapshot was removed by hand.
DELETE FROM alvyn.snapshots WHERE name = 'A';
SELECT alvyn.execute('a-1', '[]');
SELECT alvyn.create_snapshot('A', 'a', 100, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT version, state FROM alvyn.execute('a-1', '[]');
-- A stream without a decider is refused before it is locked or created.
SELECT alvyn.drop_decider('a');
SELECT alvyn.execute('a-9', '[]');
SELECT count(*) FROM alvyn.streams WHERE stream_id = 'a-9';

SELECT ok FROM alvyn.verify(NULL, true);
DROP TABLE scratch;
DROP SEQUENCE counter;
DROP FUNCTION failure, decide, decide_write, bad_state, bad_command, bad_single, bad_result, bad_record;
