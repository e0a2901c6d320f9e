-- I9: no search_path, operator or temporary object of the caller changes
-- what runs.
--
-- Case 21: a role without rights makes functions, operators, tables and types
-- with the names Alvyn uses, puts them before everything else, and calls
-- everything: none of its code runs.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
CREATE ROLE test_hostile IN ROLE alvyn_writer;
CREATE SCHEMA trap AUTHORIZATION test_hostile;
GRANT TEMP ON DATABASE :DBNAME TO test_hostile;
SELECT (alvyn.append('s-1', 0, 'A', '{"a": 1}')).version, (alvyn.append('s-1', 1, 'B', '{"a": 2}', idempotency_key => 'k1')).version,
       (alvyn.append('t-1', 0, 'A', '{}')).version;
-- For the administrator to purge.
UPDATE alvyn.idempotency_keys SET created_at = '2000-01-01 00:00+00';

-- Whatever of these is run, raises.
SET ROLE test_hostile;
SET search_path = trap, pg_catalog;
CREATE FUNCTION trap.spring() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'trapped';
END
$$;
-- Operators of the types that Alvyn's functions compare and compute with.
DO $$
DECLARE
    v_type regtype;
    v_name text;
BEGIN
    FOREACH v_type IN ARRAY ARRAY['text', 'bigint', 'int', 'smallint', 'timestamptz', 'boolean', '"char"', 'jsonb']::regtype[] LOOP
        EXECUTE format('CREATE FUNCTION trap.op(%1$s, %1$s) RETURNS boolean LANGUAGE sql AS ''SELECT trap.spring()''', v_type);
        FOREACH v_name IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>='] LOOP
            EXECUTE format('CREATE OPERATOR trap.%1$s (LEFTARG = %2$s, RIGHTARG = %2$s, FUNCTION = trap.op)', v_name, v_type);
        END LOOP;
    END LOOP;
    CREATE FUNCTION trap.minus(timestamptz, interval) RETURNS timestamptz LANGUAGE sql AS 'SELECT now() WHERE trap.spring()';
    CREATE OPERATOR trap.- (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = trap.minus);
END
$$;
-- Functions, the server's and Alvyn's own.
CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now() WHERE trap.spring()';
CREATE FUNCTION trap.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT ''''::text WHERE trap.spring()';
CREATE FUNCTION trap.make_interval(secs double precision) RETURNS interval LANGUAGE sql AS 'SELECT NULL::interval WHERE trap.spring()';
CREATE FUNCTION trap.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS 'SELECT ''text''::text WHERE trap.spring()';
CREATE FUNCTION trap.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT trap.spring()';
CREATE FUNCTION trap.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE trap.spring()';
CREATE FUNCTION trap.load_stream(text, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE trap.spring()';
CREATE FUNCTION trap.event_id(text, text, bigint) RETURNS text LANGUAGE sql AS 'SELECT ''''::text WHERE trap.spring()';
CREATE FUNCTION trap.stream_version(text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint WHERE trap.spring()';
CREATE FUNCTION trap.prefix_end(text) RETURNS text LANGUAGE sql AS 'SELECT ''''::text WHERE trap.spring()';
CREATE FUNCTION trap.verify_slice(text, int, int) RETURNS alvyn.verification LANGUAGE sql AS 'SELECT NULL::alvyn.verification WHERE trap.spring()';
CREATE AGGREGATE trap.sum(bigint) (SFUNC = int8pl, STYPE = bigint, INITCOND = '-1');
CREATE AGGREGATE trap.min(bigint) (SFUNC = int8pl, STYPE = bigint, INITCOND = '-1');
CREATE AGGREGATE trap.bool_and(boolean) (SFUNC = booland_statefunc, STYPE = boolean, INITCOND = 'false');
-- Tables, sequences and types, in the path and temporary.
CREATE TABLE trap.events (position bigint);
CREATE TABLE trap.streams (stream_no bigint);
CREATE TYPE trap.append_result AS (a int);
CREATE TEMP TABLE events (position bigint);
CREATE TEMP TABLE streams (stream_no bigint, stream_id text);
CREATE TEMP TABLE idempotency_keys (key text, created_at timestamptz);
CREATE TEMP SEQUENCE events_position_seq;
CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now() WHERE trap.spring()';
CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (trap.spring());

-- The trap works.
SELECT 'a'::pg_catalog.text < 'b'::pg_catalog.text;

-- Everything, with that in front of everything else, by its maker and by a
-- superuser who was talked into the same path.
GRANT USAGE ON SCHEMA trap TO PUBLIC;
CREATE PROCEDURE trap.call_everything(stream pg_catalog.text) LANGUAGE plpgsql AS $$
BEGIN
    ASSERT pg_catalog.int8eq((SELECT version FROM alvyn.append(stream, 0, 'A', '{"a": 1}', idempotency_key => stream)), 1);
    ASSERT (SELECT duplicate FROM alvyn.append(stream, 0, 'A', '{"a": 1}', idempotency_key => stream));
    ASSERT (SELECT conflict FROM alvyn.try_append(stream, 0, 'A', '{}'));
    PERFORM alvyn.append_batch(stream, 1, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[]);
    PERFORM alvyn.append_streams(ARRAY[stream], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY[stream], ARRAY[3]);
    ASSERT pg_catalog.int8eq((SELECT pg_catalog.count(*) FROM alvyn.load(stream)), 4);
    ASSERT pg_catalog.int8eq((SELECT pg_catalog.count(*) FROM alvyn.load(stream, 2, 2, true)), 2);
    ASSERT pg_catalog.texteq((SELECT id FROM alvyn.load(stream, 1, 1)), pg_catalog.concat(stream, '/1'));
    ASSERT pg_catalog.int8eq(alvyn.stream_version(stream), 4);
    ASSERT pg_catalog.int8eq((SELECT pg_catalog.count(*) FROM alvyn.list_streams(stream)), 1);
    ASSERT (SELECT ok FROM alvyn.verify());
    ASSERT (SELECT ok FROM alvyn.verify(stream));
    ASSERT pg_catalog.int8eq((SELECT stored_events FROM alvyn.verify(stream)), 4);
    ASSERT pg_catalog.int8eq((SELECT pg_catalog.count(*) FROM alvyn.verify_streams()), 0);
    ASSERT pg_catalog.texteq(pg_catalog.split_part(alvyn.store_digest(stream), ':', 1), '4');
    ASSERT (SELECT (alvyn.contiguous(version)).ok FROM alvyn.load(stream));
    PERFORM alvyn.sum_number(data, 'a'), alvyn.digest(e) FROM alvyn.load(stream) e;
END
$$;
SET search_path = pg_temp, trap, pg_catalog;
CALL trap.call_everything('by-role');
RESET ROLE;
SET search_path = pg_temp, trap, pg_catalog;
CALL trap.call_everything('by-superuser');
SELECT alvyn.purge_idempotency_keys();
-- Also the installation.
BEGIN;
DROP EXTENSION alvyn CASCADE;
CREATE EXTENSION alvyn;
SELECT (alvyn.append('x-1', 0, 'A', '{}')).version, (alvyn.verify()).ok, alvyn.purge_idempotency_keys();
ROLLBACK;
RESET search_path;
-- And a path that has nothing at all.
SET search_path = '';
SELECT (alvyn.append('y-1', 0, 'A', '{}', idempotency_key => 'y')).version, (alvyn.verify()).ok;
SELECT version FROM alvyn.load('y-1');
RESET search_path;
SELECT count(*) FROM pg_temp.events;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP OWNED BY test_hostile CASCADE;
DROP ROLE test_hostile;
