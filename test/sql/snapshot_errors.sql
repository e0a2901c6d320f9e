-- Definitions that cannot be, and evolve functions that fail, write or return
-- nothing: an error with its SQLSTATE, nothing written, the session and the
-- transaction go on.
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
CREATE FUNCTION good(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
$$SELECT jsonb_build_object('n', coalesce((state ->> 'n')::int, 0) + 1)$$;
CREATE FUNCTION bad_argument(state jsonb, event jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION bad_state(state json, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS 'SELECT NULL::jsonb';
CREATE FUNCTION bad_result(state jsonb, event alvyn.event) RETURNS json LANGUAGE sql IMMUTABLE AS 'SELECT NULL::json';
CREATE FUNCTION bad_set(state jsonb, event alvyn.event) RETURNS SETOF jsonb LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION bad_count(state jsonb, event alvyn.event, more int DEFAULT 1) RETURNS jsonb LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION bad_volatile(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql VOLATILE AS 'SELECT $1';
CREATE PROCEDURE bad_kind(state jsonb, event alvyn.event) LANGUAGE sql AS '';

-- Arguments, one by one.
SELECT failure('alvyn.create_snapshot' || a)
FROM unnest(ARRAY[
    $$(NULL, 'a', 1, '{}', rules => '{"A": {}}')$$,
    $$('', 'a', 1, '{}', rules => '{"A": {}}')$$,
    $$(repeat('x', 505), 'a', 1, '{}', rules => '{"A": {}}')$$,
    $$('S', NULL, 1, '{}', rules => '{"A": {}}')$$,
    $$('S', '', 1, '{}', rules => '{"A": {}}')$$,
    $$('S', repeat('x', 512), 1, '{}', rules => '{"A": {}}')$$,
    $$('S', 'a', NULL, '{}', rules => '{"A": {}}')$$,
    $$('S', 'a', 0, '{}', rules => '{"A": {}}')$$,
    $$('S', 'a', -1, '{}', rules => '{"A": {}}')$$,
    $$('S', 'a', 1, NULL, rules => '{"A": {}}')$$,
    $$('S', 'a', 1, '[]', rules => '{"A": {}}')$$,
    $$('S', 'a', 1, '{}')$$,
    $$('S', 'a', 1, '{}', 'good(jsonb, alvyn.event)', '{"A": {}}')$$,
    $$('S', 'a', 1, '{}', rules => '{"A": {}}', schema_version => 0)$$,
    $$('S', 'a', 1, '{}', rules => '{"A": {}}', schema_version => NULL)$$,
    $$('S', 'a', 1, '{}', rules => '{}')$$,
    $$('S', 'a', 1, '{}', 'bad_argument(jsonb, jsonb)')$$,
    $$('S', 'a', 1, '{}', 'bad_state(json, alvyn.event)')$$,
    $$('S', 'a', 1, '{}', 'bad_result(jsonb, alvyn.event)')$$,
    $$('S', 'a', 1, '{}', 'bad_set(jsonb, alvyn.event)')$$,
    $$('S', 'a', 1, '{}', 'bad_count(jsonb, alvyn.event, int)')$$,
    $$('S', 'a', 1, '{}', 'bad_volatile(jsonb, alvyn.event)')$$,
    $$('S', 'a', 1, '{}', 'bad_kind(jsonb, alvyn.event)')$$,
    $$('S', 'a', 1, '{}', 'nothing(jsonb, alvyn.event)')$$,
    $$('S', 'a', 1, '{}', 0::oid::regprocedure)$$]) WITH ORDINALITY a (a, i)
ORDER BY i;
SELECT count(*) FROM alvyn.snapshots;
SELECT alvyn.create_snapshot(repeat('x', 504), repeat('y', 511), 2147483647, '[]', 'good(jsonb, alvyn.event)', schema_version => 2147483647);
SELECT alvyn.create_snapshot('S', 's', 2, '{}', rules => '{"A": {}}');
SELECT failure(a)
FROM unnest(ARRAY[
    $$alvyn.create_snapshot('S', 't', 2, '{}', rules => '{"A": {}}')$$,
    $$alvyn.alter_snapshot('T', 2)$$,
    $$alvyn.alter_snapshot(NULL, 2)$$,
    $$alvyn.alter_snapshot('S', 0)$$,
    $$alvyn.alter_snapshot('S', initial_state => '1')$$,
    $$alvyn.alter_snapshot('S', rules => '[]')$$,
    $$alvyn.alter_snapshot('S', evolve => 'bad_result(jsonb, alvyn.event)')$$,
    $$alvyn.alter_snapshot('S', evolve => 'good(jsonb, alvyn.event)', rules => '{"A": {}}')$$,
    $$alvyn.alter_snapshot('S', schema_version => 0)$$,
    $$alvyn.alter_snapshot(repeat('x', 504), initial_state => '[1]')$$,
    $$alvyn.drop_snapshot('T')$$,
    $$alvyn.state(NULL, 'S')$$,
    $$alvyn.state('', 'S')$$,
    $$alvyn.state('s-1', NULL)$$,
    $$alvyn.state('s-1', 'T')$$,
    $$alvyn.state('s-1', 'S', -1)$$,
    $$alvyn.state('sn-1', 'S')$$,
    $$alvyn.state('s', 'S')$$,
    $$alvyn.state(repeat('s-', 300), 'S')$$,
    $$alvyn.load_latest('s-1', 'T')$$,
    $$alvyn.load_latest(NULL, 'S')$$,
    $$alvyn.load_latest('t-1', 'S')$$,
    $$alvyn.load_latest('s-1', NULL)$$,
    $$alvyn.take_snapshot('s-1', 'T')$$,
    $$alvyn.take_snapshot('t-1', 'S')$$,
    $$alvyn.take_snapshot(NULL, 'S')$$,
    $$alvyn.rebuild_snapshots('T')$$,
    $$alvyn.rebuild_snapshots('S', 0)$$,
    $$alvyn.rebuild_snapshots('S', -1)$$,
    $$alvyn.append('s-1', 0, 'SSnapshot', '{}')$$]) WITH ORDINALITY a (a, i)
ORDER BY i;
SELECT alvyn.drop_snapshot(NULL) IS NULL, alvyn.rebuild_snapshots(NULL) IS NULL, alvyn.rebuild_snapshots('S', NULL) IS NULL;
SELECT every, schema_version FROM alvyn.snapshots ORDER BY name;

-- The wording.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT alvyn.create_snapshot('', 'a', 1, '{}', rules => '{"A": {}}');
SELECT alvyn.create_snapshot('T', 'a', 1, '{}', 'bad_result(jsonb, alvyn.event)');
SELECT alvyn.create_snapshot('T', 'a', 1, '{}', 'bad_volatile(jsonb, alvyn.event)');
SELECT alvyn.create_snapshot('S', 'a', 1, '{}', rules => '{"A": {}}');
SELECT alvyn.alter_snapshot('T', 1);
SELECT alvyn.drop_snapshot('T');
SELECT alvyn.rebuild_snapshots('T');
SELECT alvyn.rebuild_snapshots('S', 0);
SELECT alvyn.state('t-1', 'S');
SELECT alvyn.state('t-1', 'T');

\set SHOW_CONTEXT errors

-- An evolve function that raises: its own error, with where it happened;
-- nothing is written, the stream takes other events, and the transaction goes
-- on from a savepoint.
CREATE FUNCTION evolve_raise(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF event.data ? 'bad' THEN
        RAISE EXCEPTION USING ERRCODE = 'AB123', MESSAGE = 'no such account', DETAIL = 'detail of its own', HINT = 'hint of its own', CONSTRAINT = 'own';
    END IF;
    RETURN state;
END
$$;
SELECT alvyn.create_snapshot('Raise', 'raise', 2, '{}', 'evolve_raise(jsonb, alvyn.event)');
SELECT (alvyn.append('raise-1', 0, 'A', '{}')).version;
SELECT alvyn.append('raise-1', 1, 'A', '{"bad": 1}');
\echo :LAST_ERROR_SQLSTATE
SELECT alvyn.append_streams(ARRAY['raise-2', 'raise-2', 'raise-3', 'raise-3'], array_fill('A'::text, ARRAY[4]), ARRAY['{}', '{}', '{}', '{"bad": 1}']::jsonb[]);
SELECT stream_id, version FROM alvyn.list_streams('raise-');
BEGIN;
SELECT (alvyn.append('raise-1', 1, 'A', '{}')).version;
SAVEPOINT s;
SELECT alvyn.append_batch('raise-1', 3, ARRAY['A', 'A'], ARRAY['{"bad": 1}', '{}']::jsonb[]);
ROLLBACK TO s;
SELECT (alvyn.append('raise-1', 3, 'A', '{}')).version;
COMMIT;
-- One that stands in the stream already stops the state, too, but not what
-- does not need it.
SELECT alvyn.drop_snapshot('Raise');
SELECT (alvyn.append('raise-1', 4, 'A', '{"bad": 1}')).version;
SELECT alvyn.create_snapshot('Raise', 'raise', 2, '{}', 'evolve_raise(jsonb, alvyn.event)', schema_version => 2);
SELECT alvyn.state('raise-1', 'Raise');
SELECT version FROM alvyn.state('raise-1', 'Raise', 4);
SELECT alvyn.append('raise-1', 5, 'A', '{}');
\set VERBOSITY sqlstate
SELECT alvyn.rebuild_snapshots('Raise');
\set VERBOSITY default
SELECT count(*) FROM alvyn.load('raise-1');
SELECT alvyn.drop_snapshot('Raise');

-- One that writes, in whatever way, is refused.
CREATE TABLE scratch (n int);
INSERT INTO scratch VALUES (0);
CREATE SEQUENCE counter;
CREATE FUNCTION evolve_write(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM write_by(event.type);
    RETURN state || '{"written": true}';
END
$$;
-- Immutable as far as the server knows.
CREATE FUNCTION write_by(kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE kind
        WHEN 'insert' THEN INSERT INTO scratch VALUES (1);
        WHEN 'update' THEN UPDATE scratch SET n = n + 1;
        WHEN 'delete' THEN DELETE FROM scratch;
        WHEN 'truncate' THEN TRUNCATE scratch;
        WHEN 'create' THEN CREATE TABLE scratch2 (n int);
        WHEN 'nextval' THEN PERFORM nextval('counter');
        WHEN 'setval' THEN PERFORM setval('counter', 100);
        WHEN 'lock' THEN PERFORM n FROM scratch FOR UPDATE;
        WHEN 'append' THEN PERFORM alvyn.append('elsewhere-1', NULL, 'A', '{}');
        WHEN 'append_batch' THEN PERFORM alvyn.append_batch('elsewhere-1', NULL, ARRAY['A'], ARRAY['{}']::jsonb[]);
        WHEN 'append_streams' THEN PERFORM alvyn.append_streams(ARRAY['elsewhere-1'], ARRAY['A'], ARRAY['{}']::jsonb[]);
        WHEN 'execute' THEN PERFORM alvyn.execute('elsewhere-1', '{}');
        WHEN 'take' THEN PERFORM alvyn.take_snapshot('write-1', 'Write');
        WHEN 'define' THEN PERFORM alvyn.create_snapshot('Inner', 'inner', 1, '{}', rules => '{"A": {}}');
        WHEN 'allow' THEN SET LOCAL transaction_read_only = off; INSERT INTO scratch VALUES (1);
        WHEN 'catch' THEN
            BEGIN
                INSERT INTO scratch VALUES (1);
            EXCEPTION WHEN read_only_sql_transaction THEN
                INSERT INTO scratch VALUES (2);
            END;
        WHEN 'allow in a block' THEN
            BEGIN
                SET LOCAL transaction_read_only = off;
                INSERT INTO scratch VALUES (1);
            END;
        ELSE NULL;
    END CASE;
END
$$;
SELECT alvyn.create_snapshot('Write', 'write', 1, '{}', 'evolve_write(jsonb, alvyn.event)');
SELECT alvyn.append('write-1', 0, 'insert', '{}');
\set VERBOSITY sqlstate
SELECT failure(format('alvyn.append(''write-1'', 0, %L, ''{}'')', k))
FROM unnest(ARRAY['insert', 'update', 'delete', 'truncate', 'create', 'nextval', 'setval', 'lock', 'append', 'append_batch', 'append_streams', 'execute',
                  'take', 'define', 'allow', 'catch', 'allow in a block']) WITH ORDINALITY k (k, i) ORDER BY i;
SELECT n FROM scratch;
SELECT last_value, is_called FROM counter;
SELECT count(*) FROM alvyn.events WHERE stream_no > 2;
SELECT stream_id, version FROM alvyn.list_streams('write-');
-- Errors and what comes after them, in one transaction: it stays writable.
BEGIN;
INSERT INTO scratch VALUES (10);
SELECT (alvyn.append('write-1', 0, 'nothing', '{}')).version;
INSERT INTO scratch VALUES (11);
SAVEPOINT s;
SELECT alvyn.append('write-1', 2, 'insert', '{}');
ROLLBACK TO s;
INSERT INTO scratch VALUES (12);
SELECT current_setting('transaction_read_only');
SELECT (alvyn.append('write-1', 2, 'nothing', '{}')).version;
DO $$
BEGIN
    FOR i IN 1 .. 3 LOOP
        BEGIN
            PERFORM alvyn.append('write-1', 4, 'nextval', '{}');
        EXCEPTION WHEN read_only_sql_transaction THEN
            INSERT INTO scratch VALUES (20 + i);
        END;
    END LOOP;
END
$$;
COMMIT;
SELECT array_agg(n ORDER BY n) FROM scratch;
SELECT type, version FROM alvyn.load('write-1');
-- In a transaction that is read only, a state is computed and stays so.
BEGIN READ ONLY;
SELECT state FROM alvyn.state('write-1', 'Write', 1);
SELECT state FROM alvyn.state('write-1', 'Write');
SELECT alvyn.append('write-1', 4, 'nothing', '{}');
ROLLBACK;
BEGIN READ ONLY;
SELECT state FROM alvyn.state('write-1', 'Write');
INSERT INTO scratch VALUES (99);
ROLLBACK;
BEGIN READ ONLY;
SELECT alvyn.take_snapshot('write-1', 'Write');
ROLLBACK;
BEGIN READ ONLY;
SELECT alvyn.execute('write-1', '{}');
ROLLBACK;
SELECT alvyn.drop_snapshot('Write');
\set VERBOSITY default

-- One that returns null.
CREATE FUNCTION evolve_null(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS 'SELECT NULL::jsonb';
SELECT alvyn.create_snapshot('Null', 'null', 1, '{}', 'evolve_null(jsonb, alvyn.event)');
SELECT alvyn.append('null-1', 0, 'A', '{}');
\echo :LAST_ERROR_SQLSTATE
SELECT stream_id, version FROM alvyn.list_streams('null-');
SELECT alvyn.drop_snapshot('Null');
-- JSON's null is a state like others.
CREATE OR REPLACE FUNCTION evolve_null(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$SELECT 'null'::jsonb$$;
SELECT alvyn.create_snapshot('Null', 'null', 1, 'null', 'evolve_null(jsonb, alvyn.event)');
SELECT (alvyn.append('null-1', 0, 'A', '{}')).version;
SELECT state, snapshot_version FROM alvyn.state('null-1', 'Null');

-- Replaced, dropped, created again, created in another form: seen at once.
SELECT alvyn.create_snapshot('Own', 'own', 1, '{}', 'good(jsonb, alvyn.event)');
SELECT (alvyn.append('own-1', 0, 'A', '{}')).version;
CREATE OR REPLACE FUNCTION good(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
$$SELECT jsonb_build_object('n', (state ->> 'n')::int + 100)$$;
SELECT (alvyn.append('own-1', 2, 'A', '{}')).version;
SELECT state FROM alvyn.state('own-1', 'Own');
ALTER FUNCTION good(jsonb, alvyn.event) RENAME TO better;
SELECT alvyn.append('own-1', 4, 'A', '{}');
\echo :LAST_ERROR_SQLSTATE
SELECT state FROM alvyn.state('own-1', 'Own');
SELECT (alvyn.append('other-1', 0, 'A', '{}')).version;
ALTER FUNCTION better(jsonb, alvyn.event) RENAME TO good;
SELECT (alvyn.append('own-1', 4, 'A', '{}')).version;
DROP FUNCTION good(jsonb, alvyn.event);
\set VERBOSITY sqlstate
SELECT alvyn.append('own-1', 6, 'A', '{}');
-- With a result of another kind, which would be taken for a pointer.
CREATE FUNCTION good(state jsonb, event alvyn.event) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
SELECT alvyn.append('own-1', 6, 'A', '{}');
DROP FUNCTION good;
CREATE FUNCTION good(state jsonb, event alvyn.event) RETURNS SETOF jsonb LANGUAGE sql IMMUTABLE AS 'SELECT $1';
SELECT alvyn.append('own-1', 6, 'A', '{}');
DROP FUNCTION good;
CREATE PROCEDURE good(state jsonb, event alvyn.event) LANGUAGE sql AS '';
SELECT alvyn.append('own-1', 6, 'A', '{}');
DROP PROCEDURE good;
CREATE FUNCTION good(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 5; END';
SELECT (alvyn.append('own-1', 6, 'A', '{}')).version;
SELECT state FROM alvyn.state('own-1', 'Own');
BEGIN;
DROP FUNCTION good;
SELECT alvyn.append('own-1', 8, 'A', '{}');
ROLLBACK;
SELECT (alvyn.append('own-1', 8, 'A', '{}')).version;
-- Its schema renamed, and back.
CREATE SCHEMA "Own Schema";
ALTER FUNCTION good(jsonb, alvyn.event) SET SCHEMA "Own Schema";
SELECT alvyn.append('own-1', 10, 'A', '{}');
SELECT alvyn.alter_snapshot('Own', evolve => '"Own Schema".good(jsonb, alvyn.event)');
SELECT evolve FROM alvyn.snapshots WHERE name = 'Own';
SELECT (alvyn.append('own-1', 10, 'A', '{}')).version;
ALTER SCHEMA "Own Schema" RENAME TO other_schema;
SELECT alvyn.append('own-1', 12, 'A', '{}');
ALTER SCHEMA other_schema RENAME TO "Own Schema";
SELECT (alvyn.append('own-1', 12, 'A', '{}')).version;
-- A name that looks like a signature.
CREATE FUNCTION "Own Schema"."f.(a,b)""x"(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$SELECT '"odd"'::jsonb$$;
SELECT alvyn.alter_snapshot('Own', evolve => '"Own Schema"."f.(a,b)""x"(jsonb, alvyn.event)');
SELECT evolve FROM alvyn.snapshots WHERE name = 'Own';
SELECT (alvyn.append('own-1', 14, 'A', '{}')).version;
SELECT state FROM alvyn.state('own-1', 'Own');

-- All of it left a sound store.
SELECT alvyn.drop_snapshot('Own');
SELECT ok, broken_streams FROM alvyn.verify(NULL, true);
\set VERBOSITY terse
DROP SCHEMA "Own Schema" CASCADE;
DROP TABLE scratch;
DROP SEQUENCE counter;
DROP FUNCTION failure, bad_argument, bad_state, bad_result, bad_set, bad_count, bad_volatile, evolve_raise, evolve_write, write_by, evolve_null;
DROP PROCEDURE bad_kind;
