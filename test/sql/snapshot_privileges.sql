-- Who may define, keep, read and execute; whose rights evolve and decide
-- functions run with; and that no search_path leads a stored signature to
-- another function.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset format unaligned
\pset tuples_only on
CREATE ROLE test_nobody;
CREATE ROLE test_reader IN ROLE alvyn_reader;
CREATE ROLE test_writer IN ROLE alvyn_writer;
CREATE ROLE test_admin IN ROLE alvyn_admin;
CREATE ROLE test_owner;

-- Functions in a schema that nobody but their owner may use.
CREATE SCHEMA logic AUTHORIZATION test_owner;
GRANT USAGE ON SCHEMA alvyn TO test_owner;
SET ROLE test_owner;
CREATE FUNCTION logic.evolve(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql STABLE AS
$$SELECT state || jsonb_build_object('by', current_user)$$;
CREATE FUNCTION logic.decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE AS
$$SELECT 'A', jsonb_build_object('by', current_user), NULL::jsonb, NULL, NULL::timestamptz, NULL::int$$;
RESET ROLE;
REVOKE USAGE ON SCHEMA alvyn FROM test_owner;

-- Every function, by role.
CREATE FUNCTION may(role text) RETURNS TABLE (outcome text) LANGUAGE plpgsql AS $$
DECLARE
    v_call text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    FOREACH v_call IN ARRAY ARRAY[
        $q$alvyn.create_snapshot('S', 's', 2, '{}', rules => '{"A": {}}')$q$,
        $q$alvyn.alter_snapshot('A', 3)$q$,
        $q$alvyn.drop_snapshot('B')$q$,
        $q$alvyn.create_decider('s', 'a-s', 'A', 'logic.decide(jsonb, jsonb)')$q$,
        $q$alvyn.drop_decider('b')$q$,
        $q$alvyn.take_snapshot('a-1', 'A')$q$,
        $q$alvyn.rebuild_snapshots('A')$q$,
        $q$alvyn.execute('a-1', '{}')$q$,
        $q$alvyn.execute_streams(ARRAY['a-1', 'a-2'], ARRAY['{}', '{}']::jsonb[])$q$,
        $q$alvyn.append('a-1', NULL, 'A', '{}')$q$,
        $q$alvyn.state('a-1', 'A')$q$,
        $q$count(*) FROM alvyn.load_latest('a-1', 'A')$q$,
        $q$alvyn.snapshot_version('a-1', 'A')$q$,
        $q$count(*) FROM alvyn.verify_streams(NULL, true)$q$,
        $q$alvyn.verify(NULL, true)$q$,
        $q$count(*) FROM alvyn.snapshots, alvyn.deciders, alvyn.snapshot_marks, alvyn.snapshot_status$q$,
        $q$alvyn.check_rules('{"A": {}}')$q$,
        $q$alvyn.definition_changed()$q$]
    LOOP
        BEGIN
            EXECUTE 'SELECT ' || v_call;
            outcome := 'yes   ' || v_call;
        EXCEPTION WHEN OTHERS THEN
            outcome := SQLSTATE || ' ' || v_call;
        END;
        RETURN NEXT;
    END LOOP;
    RESET ROLE;
END
$$;
SELECT alvyn.create_snapshot('A', 'a', 2, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT alvyn.create_snapshot('B', 'b', 2, '{}', rules => '{"A": {}}');
SELECT alvyn.create_decider('a', 'a', 'A', 'logic.decide(jsonb, jsonb)');
SELECT alvyn.create_decider('b', 'a-b', 'A', 'logic.decide(jsonb, jsonb)');
SELECT (alvyn.append('a-1', 0, 'A', '{}')).version;
BEGIN;
SELECT may('test_nobody');
ROLLBACK;
BEGIN;
SELECT may('test_reader');
ROLLBACK;
BEGIN;
SELECT may('test_writer');
ROLLBACK;
-- The administrator needs USAGE on the schema only to name the function.
BEGIN;
SELECT may('test_admin');
ROLLBACK;
BEGIN;
GRANT USAGE ON SCHEMA logic TO test_admin;
SELECT outcome FROM may('test_admin') WHERE outcome LIKE '%decide(jsonb%';
ROLLBACK;
-- Nobody writes the tables by hand, not even the administrator.
\set VERBOSITY sqlstate
SET ROLE test_admin;
INSERT INTO alvyn.snapshots (name, stream_prefix, every, schema_version, initial_state) VALUES ('x', 'x', 1, 1, '{}');
UPDATE alvyn.snapshots SET evolve = 'pg_catalog.jsonb_concat(jsonb,jsonb)';
DELETE FROM alvyn.deciders;
SELECT nextval('alvyn.snapshots_snapshot_no_seq');
RESET ROLE;
\set VERBOSITY default

-- Evolve and decide functions run with the rights of whoever appends, and are
-- found without the right to use their schema, but not without EXECUTE.
SELECT alvyn.create_snapshot('Logic', 'logic', 1, '{}', 'logic.evolve(jsonb, alvyn.event)');
SELECT alvyn.create_decider('logic', 'logic', 'Logic', 'logic.decide(jsonb, jsonb)');
SET ROLE test_writer;
SELECT (alvyn.append('logic-1', 0, 'A', '{}')).version;
SELECT version, state FROM alvyn.execute('logic-1', '{}');
RESET ROLE;
SELECT version, data FROM alvyn.load('logic-1');
SET ROLE test_reader;
SELECT state FROM alvyn.state('logic-1', 'Logic', 1);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION logic.evolve, logic.decide FROM PUBLIC;
SET ROLE test_writer;
SELECT alvyn.append('logic-1', NULL, 'A', '{}');
SELECT alvyn.execute('logic-1', '{}');
SELECT alvyn.state('logic-1', 'Logic');
-- What has nothing to do with them goes on.
SELECT (alvyn.append('a-1', NULL, 'A', '{}')).version;
RESET ROLE;
GRANT EXECUTE ON FUNCTION logic.evolve TO test_writer;
SET ROLE test_writer;
SELECT (alvyn.append('logic-1', NULL, 'A', '{}')).version;
SELECT alvyn.execute('logic-1', '{}');
RESET ROLE;
GRANT EXECUTE ON FUNCTION logic.decide TO test_writer;
SET ROLE test_writer;
SELECT version FROM alvyn.execute('logic-1', '{}');
RESET ROLE;
-- rebuild_snapshots lends an administrator no rights of the owner of the
-- extension: the function sees who called.
GRANT EXECUTE ON FUNCTION logic.evolve TO test_admin;
SELECT alvyn.alter_snapshot('Logic', schema_version => 2);
SET ROLE test_admin;
SELECT alvyn.rebuild_snapshots('Logic');
SELECT state FROM alvyn.state('logic-1', 'Logic') WHERE replayed_events = 0;
RESET ROLE;
SELECT proname FROM pg_proc WHERE pronamespace = 'alvyn'::regnamespace AND prosecdef AND prosrc ~ 'alvyn\.(try_)?(take_snapshot|execute|append|state)[a-z_]*\(';
SELECT alvyn.drop_decider('logic');
SELECT alvyn.drop_snapshot('Logic');

-- Search paths.  The signature was stored under one path; whoever reads it
-- has another, with types and functions of the same names before all others.
-- What is inside the functions is their maker's concern; these are bound when
-- they are made.
CREATE FUNCTION public.evolve(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE
RETURN '{"by": "the right one"}'::jsonb;
CREATE FUNCTION public.decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT 'Right', '{}'::jsonb, NULL::jsonb, NULL, NULL::timestamptz, NULL::int;
END;
SELECT alvyn.create_snapshot('Path', 'path', 1, '{}', 'evolve(jsonb, alvyn.event)');
SELECT alvyn.create_decider('path', 'path', 'Path', 'decide(jsonb, jsonb)');
GRANT CREATE ON SCHEMA public TO test_writer;
CREATE SCHEMA trap AUTHORIZATION test_writer;
SELECT current_database() AS db \gset
GRANT TEMP ON DATABASE :"db" TO test_writer;
SET ROLE test_writer;
CREATE DOMAIN trap.jsonb AS text;
CREATE TYPE trap.event AS (a int);
CREATE TYPE trap.new_event AS (a int);
CREATE FUNCTION trap.evolve(state trap.jsonb, event alvyn.event) RETURNS trap.jsonb LANGUAGE sql AS $$SELECT 'trapped'::text$$;
CREATE FUNCTION trap.evolve(state pg_catalog.jsonb, event alvyn.event) RETURNS pg_catalog.jsonb LANGUAGE sql AS $$SELECT '"trapped"'::pg_catalog.jsonb$$;
CREATE FUNCTION public.evolve(state trap.jsonb, event alvyn.event) RETURNS trap.jsonb LANGUAGE sql AS $$SELECT 'trapped'::text$$;
CREATE FUNCTION public.evolve(state pg_catalog.jsonb, event trap.event) RETURNS pg_catalog.jsonb LANGUAGE sql AS $$SELECT '"trapped"'::pg_catalog.jsonb$$;
CREATE FUNCTION public.decide(state trap.jsonb, command trap.jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql AS
$$SELECT 'Trapped', '{}'::pg_catalog.jsonb, NULL::pg_catalog.jsonb, NULL, NULL::timestamptz, NULL::int$$;
CREATE FUNCTION pg_temp.evolve(state pg_catalog.jsonb, event alvyn.event) RETURNS pg_catalog.jsonb LANGUAGE sql AS $$SELECT '"trapped"'::pg_catalog.jsonb$$;
CREATE DOMAIN pg_temp.jsonb AS text;
SET search_path = trap, pg_temp, public, pg_catalog;
-- The definitions have just been forgotten, and are read under this path.
SELECT (alvyn.append('path-1', 0, 'A', '{}')).version;
SELECT version, state FROM alvyn.execute('path-1', '{}');
SELECT type FROM alvyn.load('path-1');
SELECT state FROM alvyn.state('path-1', 'Path', 1);
RESET search_path;
RESET ROLE;
SELECT count(*) FROM alvyn.events WHERE data = '"trapped"' OR type = 'Trapped';
-- Defined under a hostile path, the function that was meant is stored.
SET search_path = trap, public, pg_catalog;
SELECT alvyn.create_snapshot('Path2', 'path2', 1, '{}', 'public.evolve(pg_catalog.jsonb, alvyn.event)');
SELECT alvyn.alter_snapshot('Path2', schema_version => 2);
\set VERBOSITY sqlstate
SELECT alvyn.create_snapshot('Path3', 'path3', 1, '{}', 'public.evolve(jsonb, alvyn.event)');
RESET search_path;
SELECT name, evolve FROM alvyn.snapshots WHERE name LIKE 'Path_' ORDER BY name;

DROP DOMAIN pg_temp.jsonb;
SELECT alvyn.drop_decider(name) FROM alvyn.deciders;
SET client_min_messages = warning;
DROP SCHEMA trap CASCADE;
DROP SCHEMA logic CASCADE;
DROP FUNCTION public.evolve(jsonb, alvyn.event);
DROP FUNCTION public.decide(jsonb, jsonb);
DROP FUNCTION may;
REVOKE CREATE ON SCHEMA public FROM test_writer;
REVOKE TEMP ON DATABASE :"db" FROM test_writer;
DROP OWNED BY test_writer;
DROP ROLE test_nobody, test_reader, test_writer, test_admin, test_owner;
