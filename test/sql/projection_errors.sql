-- Each refused call of a projection has its SQLSTATE and constraint name;
-- docs/errors.md lists them.  The wording of each is shown once.
--
-- I11: what a handler raises reaches the caller as it is, nothing is written,
-- the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
CREATE TABLE done (position bigint);
CREATE FUNCTION work(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO done VALUES (event.position);
    IF event.data <> '0' THEN
        RAISE EXCEPTION USING ERRCODE = event.data ->> 'code', MESSAGE = 'position ' || event.position, DETAIL = 'Detail.', CONSTRAINT = 'own';
    END IF;
END
$$;
CREATE FUNCTION work_all(events alvyn.event[]) RETURNS void LANGUAGE sql AS $$SELECT work(e) FROM unnest(events) e$$;
CREATE FUNCTION wrong(event alvyn.event) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION wrong_set(event alvyn.event) RETURNS SETOF void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION wrong_argument(event jsonb) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION swap(name text, old bigint, new bigint) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE PROCEDURE procedure(event alvyn.event) LANGUAGE sql AS 'SELECT';
SELECT count(alvyn.append('s-' || i, NULL, 'A', d)) FROM unnest(ARRAY['0', '0', '{"code": "ZZZZZ"}', '0']::jsonb[]) WITH ORDINALITY v (d, i);
SELECT alvyn.create_projection('one', 'work(alvyn.event)'), alvyn.create_projection('all', 'work_all(alvyn.event[])');
SELECT alvyn.create_consumer('reader');

-- Wording, and the context of what a handler raises.
SELECT alvyn.run_projection('one', 2), alvyn.run_projection('all', 2);
SELECT alvyn.run_projection('one');
SELECT alvyn.run_projection('all');
SELECT name, position, failures FROM alvyn.projection_status ORDER BY name;
SELECT position FROM done ORDER BY position;
\set SHOW_CONTEXT never
SELECT alvyn.create_projection('', 'work(alvyn.event)');
SELECT alvyn.create_projection('new', NULL);
SELECT alvyn.create_projection('new', 'work(alvyn.event)', on_error => 'skip');
SELECT alvyn.create_projection('new', 'wrong(alvyn.event)');
SELECT alvyn.create_projection('new', 'work(alvyn.event)', on_swap => 'work(alvyn.event)');
SELECT alvyn.create_projection('one', 'work(alvyn.event)');
SELECT alvyn.create_projection('reader', 'work(alvyn.event)');
SELECT alvyn.run_projection('none');
SELECT alvyn.run_projection('one', 0);
SELECT alvyn.skip_parked('one', 3);
SELECT alvyn.cancel_rebuild('one');
SELECT alvyn.rebuild_projection('one');
SELECT alvyn.rebuild_projection('one');
SELECT alvyn.cancel_rebuild('one');
ALTER FUNCTION work RENAME TO renamed;
SELECT alvyn.run_projection('one');
ALTER FUNCTION renamed RENAME TO work;
SELECT alvyn.handle('wrong(alvyn.event)', NULL::alvyn.event[], 'p', 1, '') IS NULL;
SELECT alvyn.handle('wrong(alvyn.event)', '{}', 'p', 1, '');

-- Codes and constraints.
CREATE FUNCTION failure(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_constraint text;
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'no error: ' || call;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME;
    RETURN trim(v_state || ' ' || v_constraint) || ' <- ' || call;
END
$$;
SELECT alvyn.rebuild_projection('all');
\pset tuples_only on
\pset format unaligned
SELECT failure('alvyn.' || call)
FROM unnest(ARRAY[
    $$create_projection(NULL, 'work(alvyn.event)')$$,
    $$create_projection('', 'work(alvyn.event)')$$,
    $$create_projection(repeat('x', 501), 'work(alvyn.event)')$$,
    $$create_projection('new', NULL)$$,
    $$create_projection('new', 'none(alvyn.event)')$$,
    $$create_projection('new', 'wrong(alvyn.event)')$$,
    $$create_projection('new', 'wrong_set(alvyn.event)')$$,
    $$create_projection('new', 'wrong_argument(jsonb)')$$,
    $$create_projection('new', 'procedure(alvyn.event)')$$,
    $$create_projection('new', 'swap(text, bigint, bigint)')$$,
    $$create_projection('new', 'work(alvyn.event)', on_swap => 'work(alvyn.event)')$$,
    $$create_projection('new', 'work(alvyn.event)', on_error => NULL)$$,
    $$create_projection('new', 'work(alvyn.event)', on_error => 'skip')$$,
    $$create_projection('new', 'work(alvyn.event)', start => 'end')$$,
    $$create_projection('new', 'work(alvyn.event)', types => ARRAY[NULL::text])$$,
    $$create_projection('new', 'work(alvyn.event)', owner => 'nobody')$$,
    $$create_projection('new', 'work(alvyn.event)', owner => NULL)$$,
    $$create_projection('one', 'work(alvyn.event)')$$,
    $$create_projection('reader', 'work(alvyn.event)')$$,
    $$run_projection('none')$$,
    $$run_projection('reader')$$,
    $$run_projection(NULL)$$,
    $$run_projection('one')$$,
    $$run_projection('one', 0)$$,
    $$run_projection('one', NULL)$$,
    $$rebuild_projection('none')$$,
    $$rebuild_projection('one', 'wrong(alvyn.event)')$$,
    $$rebuild_projection('all')$$,
    $$cancel_rebuild('none')$$,
    $$cancel_rebuild('one')$$,
    $$retry_parked('none')$$,
    $$skip_parked('none', 1)$$,
    $$skip_parked('one', 1)$$,
    $$enable_projection('none')$$,
    $$disable_projection('none')$$,
    $$drop_projection('none')$$,
    $$drop_projection('reader')$$,
    $$handle('swap(text, bigint, bigint)', '{}', 'p', 1, '')$$,
    $$handle('procedure(alvyn.event)', '{}', 'p', 1, '')$$,
    $$handle(0, '{}', 'p', 1, '')$$]) WITH ORDINALITY x (call, i)
ORDER BY i;

-- Errors of the moment are not parked; the event is tried again.
SELECT alvyn.create_projection('parking', 'work(alvyn.event)', on_error => 'park', start => '4');
SELECT count(alvyn.append('t-1', NULL, 'A', '{"code": "40001"}'));
SELECT failure($$alvyn.run_projection('parking')$$);
SELECT position, parked FROM alvyn.projection_status WHERE name = 'parking';
SELECT code, alvyn.is_transient(code) FROM unnest(ARRAY['40P01', '40001', '53100', '57014', '58030', 'XX000', '55P03', '55000', '23505', '22023', 'ZZZZZ']) code;

-- The store was set back to an earlier time.
SELECT alvyn.drop_projection(name) FROM alvyn.projections;
SELECT alvyn.create_projection('back', 'work(alvyn.event)', start => 'now');
DELETE FROM alvyn.events WHERE position > 2;
SELECT setval('alvyn.events_position_seq', 2);
SELECT failure($$alvyn.run_projection('back')$$);
SELECT alvyn.drop_projection('back'), alvyn.drop_consumer('reader');
DROP TABLE done;
DROP FUNCTION work, work_all, wrong, wrong_set, wrong_argument, swap, failure;
DROP PROCEDURE procedure;
