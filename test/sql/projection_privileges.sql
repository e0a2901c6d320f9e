-- Who may define and run projections; whose rights handlers run with; and
-- that a definition lends nobody rights that they lack.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset format unaligned
\pset tuples_only on
CREATE ROLE test_nobody;
CREATE ROLE test_reader IN ROLE alvyn_reader;
CREATE ROLE test_writer IN ROLE alvyn_writer;
CREATE ROLE test_admin IN ROLE alvyn_admin;
CREATE TABLE seen (who name, position bigint);
CREATE TABLE secret (who name, position bigint);
GRANT INSERT, SELECT ON seen TO PUBLIC;
CREATE FUNCTION see(event alvyn.event) RETURNS void LANGUAGE sql AS 'INSERT INTO seen VALUES (current_user, event.position)';
CREATE FUNCTION pry(event alvyn.event) RETURNS void LANGUAGE sql AS 'INSERT INTO secret VALUES (current_user, event.position)';
CREATE FUNCTION swap(name text, old bigint, new bigint) RETURNS void LANGUAGE sql AS 'INSERT INTO secret VALUES (current_user, new)';
SELECT count(alvyn.append('s-1', NULL, 'A', '0')) FROM generate_series(1, 3);
SELECT alvyn.create_projection('mine', 'see(alvyn.event)');

-- Every function, by role.
CREATE FUNCTION may(role text) RETURNS TABLE (outcome text) LANGUAGE plpgsql AS $$
DECLARE
    v_call text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    FOREACH v_call IN ARRAY ARRAY[
        $q$alvyn.create_projection('new', 'see(alvyn.event)')$q$,
        $q$alvyn.rebuild_projection('mine')$q$,
        $q$alvyn.cancel_rebuild('mine')$q$,
        $q$alvyn.enable_projection('mine')$q$,
        $q$alvyn.disable_projection('mine')$q$,
        $q$alvyn.run_projection('mine')$q$,
        $q$alvyn.retry_parked('mine')$q$,
        $q$alvyn.skip_parked('mine', 1)$q$,
        $q$alvyn.handle('see(alvyn.event)', '{}', 'mine', 1, '')$q$,
        $q$alvyn.current_generation()$q$,
        $q$count(*) FROM alvyn.projections, alvyn.projection_status, alvyn.parked_events$q$,
        $q$alvyn.drop_projection('mine')$q$]
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
BEGIN;
SELECT may('test_nobody');
ROLLBACK;
BEGIN;
SELECT may('test_reader');
ROLLBACK;
BEGIN;
SELECT may('test_writer');
ROLLBACK;
BEGIN;
SELECT may('test_admin');
ROLLBACK;
-- Nobody writes the tables by hand, not even the administrator.
\set VERBOSITY sqlstate
SET ROLE test_admin;
UPDATE alvyn.projections SET owner = 'test_admin';
DELETE FROM alvyn.parked_events;
RESET ROLE;
\set VERBOSITY default
\set SHOW_CONTEXT never

-- A handler runs with the rights of whoever runs the projection.
SELECT alvyn.create_projection('pry', 'pry(alvyn.event)', on_error => 'stop');
SET ROLE test_writer;
SELECT alvyn.run_projection('mine', 1);
SELECT alvyn.run_projection('pry', 1);
RESET ROLE;
SELECT alvyn.run_projection('mine', 1), alvyn.run_projection('pry', 1);
SELECT who = 'test_writer', who = session_user, position FROM seen ORDER BY position;
SELECT who = session_user, position FROM secret;
-- It must be allowed to execute it.
REVOKE EXECUTE ON FUNCTION see FROM PUBLIC;
SET ROLE test_writer;
SELECT alvyn.run_projection('mine', 1);
RESET ROLE;
GRANT EXECUTE ON FUNCTION see TO PUBLIC;
TRUNCATE secret;

-- Who defines a projection gets a superuser to run nothing.
SET ROLE test_admin;
SELECT alvyn.create_projection('trap', 'pry(alvyn.event)', on_swap => 'swap(text, bigint, bigint)');
SELECT alvyn.run_projection('trap');
RESET ROLE;
\set VERBOSITY sqlstate
SELECT alvyn.run_projection('trap');
SELECT alvyn.retry_parked('trap');
\set VERBOSITY default
SELECT count(*) FROM secret;
-- Nor by a rebuild of somebody else's, nor by naming another owner.  What
-- counts is who has logged in.
SELECT alvyn.create_projection('others', 'see(alvyn.event)', owner => 'test_writer');
SET SESSION AUTHORIZATION test_admin;
SELECT alvyn.create_projection('new', 'pry(alvyn.event)', owner => 'test_writer');
SELECT alvyn.rebuild_projection('others', 'see(alvyn.event)');
SELECT alvyn.rebuild_projection('others');
SELECT alvyn.cancel_rebuild('others');
RESET SESSION AUTHORIZATION;
-- Who could be the role that runs it anyway, may.
GRANT test_admin TO test_writer;
SET ROLE test_admin;
SELECT alvyn.run_projection('others', 1);
RESET ROLE;
REVOKE test_admin FROM test_writer;
SET ROLE test_admin;
SELECT alvyn.run_projection('others', 1);
RESET ROLE;
-- An owner that is no more.
SELECT alvyn.drop_projection('others'), alvyn.drop_projection('trap');
CREATE ROLE test_gone;
SELECT alvyn.create_projection('gone', 'see(alvyn.event)', owner => 'test_gone');
DROP ROLE test_gone;
\set VERBOSITY sqlstate
SELECT alvyn.run_projection('gone');
\set VERBOSITY default

-- Found without the right to use its schema, as other stored functions are.
CREATE SCHEMA logic;
CREATE FUNCTION logic.see(event alvyn.event) RETURNS void LANGUAGE sql AS 'INSERT INTO public.seen VALUES (current_user, event.position)';
SELECT alvyn.create_projection('logic', 'logic.see(alvyn.event)');
SET ROLE test_writer;
SELECT alvyn.run_projection('logic', 1);
RESET ROLE;

-- No function that runs handlers lends rights.
SELECT proname FROM pg_proc WHERE pronamespace = 'alvyn'::regnamespace AND prosecdef AND prosrc ~ 'alvyn\.(handle|handle_or_park|run_generation|build_generation|run_projection|retry_parked)\(';

SELECT alvyn.drop_projection(name) FROM alvyn.projections;
DROP TABLE seen, secret;
DROP FUNCTION see, pry, swap, may;
DROP FUNCTION logic.see;
DROP SCHEMA logic;
DROP ROLE test_nobody, test_reader, test_writer, test_admin;
