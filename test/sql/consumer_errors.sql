-- Each refused call of a consumer has its SQLSTATE and constraint name;
-- docs/errors.md lists them.  The wording of each is shown once.
--
-- I11: bad input gets one error, nothing is written, the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT count(alvyn.append('s-1', NULL, 'A', to_jsonb(i))) FROM generate_series(1, 10) i;
SELECT alvyn.create_consumer('one'), alvyn.create_consumer('two', partitions => 2);

-- Wording.
\set SHOW_CONTEXT never
SELECT alvyn.create_consumer('');
SELECT alvyn.create_consumer('new', partitions => 0);
SELECT alvyn.create_consumer('new', key => '');
SELECT alvyn.create_consumer('new', types => ARRAY['A', NULL]);
SELECT alvyn.create_consumer('new', start => '11');
SELECT alvyn.create_consumer('one');
SELECT alvyn.drop_consumer('none');
SELECT alvyn.reset_consumer('none');
SELECT alvyn.lease('none', 'ada');
SELECT alvyn.lease('two', 'ada', 0);
SELECT alvyn.consume('none');
SELECT alvyn.consume('two');
SELECT alvyn.consume('one', -1);
SELECT alvyn.checkpoint('one', 11);
SELECT alvyn.checkpoint('two', 0, 1, 5);
SELECT fence FROM alvyn.lease('one', 'ada');
SELECT alvyn.checkpoint('one', 5);
SELECT alvyn.release('one', 0, 1);

-- The store was set back to an earlier time: nothing is skipped in silence.
SELECT alvyn.checkpoint('one', 9);
DELETE FROM alvyn.events WHERE position > 5;
SELECT setval('alvyn.events_position_seq', 5);
SELECT alvyn.consume('one');
SELECT alvyn.reset_consumer('one', '5');
SELECT count(*) FROM alvyn.consume('one');
SELECT (alvyn.append('s-1', 5, 'A', '"again"')).first_position;
SELECT position, data FROM alvyn.consume('one');

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
SELECT alvyn.checkpoint('one', 6);
SELECT * FROM alvyn.lease('two', 'ada');
\pset tuples_only on
\pset format unaligned
SELECT failure('alvyn.' || call)
FROM unnest(ARRAY[
    $$create_consumer(NULL)$$,
    $$create_consumer('')$$,
    $$create_consumer(repeat('x', 513))$$,
    $$create_consumer('new', partitions => NULL)$$,
    $$create_consumer('new', partitions => 0)$$,
    $$create_consumer('new', partitions => 1025)$$,
    $$create_consumer('new', key => NULL)$$,
    $$create_consumer('new', key => '')$$,
    $$create_consumer('new', types => ARRAY[NULL::text])$$,
    $$create_consumer('new', start => NULL)$$,
    $$create_consumer('new', start => 'end')$$,
    $$create_consumer('new', start => '-1')$$,
    $$create_consumer('new', start => '7')$$,
    $$create_consumer('new', start => '99999999999999999999')$$,
    $$create_consumer('one')$$,
    $$drop_consumer('none')$$,
    $$reset_consumer('none')$$,
    $$reset_consumer('one', '7')$$,
    $$consume('none')$$,
    $$consume(NULL)$$,
    $$consume('one', -1)$$,
    $$consume('one', 1, NULL)$$,
    $$consume('two')$$,
    $$consume('two', 0, NULL)$$,
    $$consume('two', 0, 2)$$,
    $$consume('two', 2, 1)$$,
    $$checkpoint('none', 1)$$,
    $$checkpoint('one', NULL)$$,
    $$checkpoint('one', 5)$$,
    $$checkpoint('one', 7)$$,
    $$checkpoint('two', 1)$$,
    $$checkpoint('two', 0, 0, 1)$$,
    $$checkpoint('two', 1, 1, 1)$$,
    $$lease('none', 'ada')$$,
    $$lease('two', 'ada', 0)$$,
    $$lease('two', 'ada', -1)$$,
    $$lease('two', 'ada', 'NaN')$$,
    $$lease('two', 'ada', 'infinity')$$,
    $$renew('two', 0, 1, 0)$$,
    $$renew('two', 0, 1, 'NaN')$$,
    $$renew('two', 1, 1)$$,
    $$release('two', 1, 1)$$,
    $$release('two', 0, 0)$$]) WITH ORDINALITY x (call, i)
ORDER BY i;
SELECT name, partition, position, owner, fence FROM alvyn.consumer_partitions ORDER BY name, partition;
DROP FUNCTION failure;
