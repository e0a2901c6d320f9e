-- Each refused call of an outbox has its SQLSTATE and constraint name;
-- docs/errors.md lists them.  The wording of each is shown once.
--
-- I11: bad input gets one error, nothing is written, the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT count(alvyn.append('s-1', NULL, 'A', to_jsonb(i))) FROM generate_series(1, 5) i;
SELECT alvyn.create_outbox('one', partitions => 1);
SELECT count(*) FROM alvyn.claim('one', 'ada', 2);

-- Wording.
\set SHOW_CONTEXT never
SELECT alvyn.create_outbox('new', partitions => 0);
SELECT alvyn.create_outbox('new', key => '');
SELECT alvyn.create_outbox('new', start => '9');
SELECT alvyn.create_outbox('new', governor => 'none');
SELECT alvyn.create_outbox('one');
SELECT alvyn.drop_outbox('none');
SELECT alvyn.claim('one', '');
SELECT alvyn.claim('one', 'ada', 1001);
SELECT alvyn.complete('one', 1024, '{}');
SELECT alvyn.complete('one', 1024, ARRAY[1, 3]);
SELECT alvyn.complete('one', 0, ARRAY[1]);
SELECT alvyn.fail('one', 1024, 1, 'x', '-1 s');
SELECT alvyn.skip_dead_letter('one', 1);
SELECT alvyn.partition_state('none', 0, false);
BEGIN READ ONLY;
SELECT alvyn.complete('one', 1024, ARRAY[1, 2]);
ROLLBACK;
BEGIN;
SELECT alvyn.complete('one', 1024, ARRAY[1, 2]);
PREPARE TRANSACTION 'p';

-- The store was set back to an earlier time: nothing is skipped in silence.
SELECT alvyn.complete('one', 1024, ARRAY[1, 2]);
SELECT alvyn.complete('one', 1024, ARRAY[1, 2]);
DELETE FROM alvyn.events WHERE position > 1;
SELECT setval('alvyn.events_position_seq', 1);
SELECT alvyn.claim('one', 'ada');
SELECT alvyn.reset_outbox('one', '1');
SELECT count(*) FROM alvyn.claim('one', 'ada');
SELECT (alvyn.append('s-1', 1, 'A', '"again"')).first_position;
SELECT position, data, fence FROM alvyn.claim('one', 'ada');

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
\pset tuples_only on
\pset format unaligned
SELECT failure('alvyn.' || call)
FROM unnest(ARRAY[
    $$create_outbox(NULL)$$,
    $$create_outbox('')$$,
    $$create_outbox(repeat('x', 513))$$,
    $$create_outbox('new', types => ARRAY[NULL::text])$$,
    $$create_outbox('new', start => NULL)$$,
    $$create_outbox('new', partitions => NULL)$$,
    $$create_outbox('new', partitions => 1025)$$,
    $$create_outbox('new', key => NULL)$$,
    $$create_outbox('new', max_attempts => 0)$$,
    $$create_outbox('new', max_attempts => NULL)$$,
    $$create_outbox('new', backoff => '-1 s')$$,
    $$create_outbox('new', backoff => '2 days')$$,
    $$create_outbox('new', lease => '0')$$,
    $$create_outbox('new', lease => NULL)$$,
    $$create_outbox('new', on_dead => 'stop')$$,
    $$create_outbox('new', on_dead => NULL)$$,
    $$alter_outbox('none')$$,
    $$alter_outbox('one', lease => '-1 s')$$,
    $$alter_outbox('one', governor => 'none')$$,
    $$reset_outbox('none')$$,
    $$reset_outbox('one', '77')$$,
    $$claim('none', 'ada')$$,
    $$claim(NULL, 'ada')$$,
    $$claim('one', NULL)$$,
    $$claim('one', repeat('x', 64))$$,
    $$claim('one', 'ada', 0)$$,
    $$claim('one', 'ada', NULL)$$,
    $$complete('none', 1, ARRAY[1])$$,
    $$complete('one', 3072, NULL)$$,
    $$complete('one', 3072, ARRAY[NULL]::bigint[])$$,
    $$complete('one', 3072, ARRAY[2, NULL])$$,
    $$complete('one', 3072, ARRAY[1])$$,
    $$complete('one', 3072, ARRAY[2, 3])$$,
    $$complete('one', NULL, ARRAY[2])$$,
    $$complete('one', 2048, ARRAY[2])$$,
    $$complete('one', 3073, ARRAY[2])$$,
    $$complete('one', -1, ARRAY[2])$$,
    $$fail('none', 3072, 2, 'x')$$,
    $$fail('one', 2048, 2, 'x')$$,
    $$fail('one', NULL, 2, 'x')$$,
    $$fail('one', 3072, NULL, 'x')$$,
    $$fail('one', 3072, 1, 'x')$$,
    $$fail('one', 3072, 3, 'x')$$,
    $$fail('one', 3072, 2, 'x', '2 years')$$,
    $$replay_dead_letter('none', 1)$$,
    $$replay_dead_letter('one', 2)$$,
    $$replay_dead_letter('one', NULL)$$,
    $$skip_dead_letter('one', 2)$$]) WITH ORDINALITY x (call, i)
ORDER BY i;
DROP FUNCTION failure;
\pset tuples_only off
-- Nothing was changed.
SELECT alvyn.complete('one', 3072, ARRAY[2]);
SELECT topic, position, in_flight, parked, dead FROM alvyn.outboxes;

-- Rows that somebody made up are refused, and nothing of them stays behind.
SELECT alvyn.change_partition(jsonb_populate_record(p, '{"topic": null}'), p) FROM alvyn.outbox_partitions p WHERE topic = 'one';
SELECT alvyn.change_partition(jsonb_populate_record(p, '{"partition": null}'), p) FROM alvyn.outbox_partitions p WHERE topic = 'one';
BEGIN;
SAVEPOINT s;
SELECT alvyn.change_at_commit(p, jsonb_populate_record(p, '{"topic": null}')) FROM alvyn.outbox_partitions p WHERE topic = 'one';
ROLLBACK TO s;
COMMIT;
