-- Guard: the script is run by CREATE EXTENSION only, and needs a superuser
-- because it installs functions written in C.
\echo Use "CREATE EXTENSION alvyn" to load this file. \quit

-- The roles of the grant scheme.  Roles belong to the cluster: another
-- database of it may have created them, and DROP EXTENSION leaves them.
DO $$
DECLARE
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['alvyn_reader', 'alvyn_writer', 'alvyn_admin'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) v_role::pg_catalog.name) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', v_role);
            EXCEPTION
                -- CREATE EXTENSION in another database was faster.
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
    END LOOP;
END
$$;
GRANT alvyn_reader TO alvyn_writer;
GRANT alvyn_writer TO alvyn_admin;
