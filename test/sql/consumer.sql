-- Consumers of one partition: what they read, and where they are.
--
-- I4: a checkpoint passes what the filter leaves out, up to the bound that is
-- proven, and never an event that is wanted.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
SELECT count(alvyn.append(s, NULL, t, to_jsonb(i))) FROM generate_series(1, 3) i, unnest(ARRAY['order-1', 'pay-1']) s, unnest(ARRAY['A', 'B']) t;

SELECT alvyn.create_consumer('all');
SELECT alvyn.create_consumer('orders', category => 'order');
SELECT alvyn.create_consumer('some', prefix => 'pay-', types => ARRAY['B'], start => '4');
SELECT alvyn.create_consumer('late', start => 'now');
SELECT name, category, prefix, types, partitions, partition, position, lag_positions, lag_time > interval '0' AS lag_time, owner,
       lease_until, active_at <= clock_timestamp() AS active_at
FROM alvyn.consumers ORDER BY name;

-- Reading does not move the checkpoint; the checkpoint does.
SELECT position, stream_id, type, data FROM alvyn.consume('orders', 2);
SELECT position, stream_id, type, data FROM alvyn.consume('orders', 2);
SELECT alvyn.checkpoint('orders', 2);
SELECT position, stream_id, type, data FROM alvyn.consume('orders');
SELECT alvyn.checkpoint('orders', 10);
-- There is nothing more, and the rest need not be looked at again.
SELECT count(*) FROM alvyn.consume('orders');
SELECT position, lag_positions FROM alvyn.consumers WHERE name = 'orders';
SELECT position, stream_id, type, data FROM alvyn.consume('some');
SELECT alvyn.checkpoint('some', 12);
SELECT count(*) FROM alvyn.consume('late');
SELECT count(*) FROM alvyn.consume('all', 0);
SELECT count(*) FROM alvyn.consume('all', NULL);

-- Reading, work and checkpoint in one transaction: all of it, or nothing.
CREATE TABLE totals (stream_id text PRIMARY KEY, n bigint);
CREATE PROCEDURE project(max_count int, fail boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_event alvyn.event;
BEGIN
    FOR v_event IN SELECT * FROM alvyn.consume('all', max_count) LOOP
        INSERT INTO totals VALUES (v_event.stream_id, 1)
        ON CONFLICT (stream_id) DO UPDATE SET n = totals.n + 1;
    END LOOP;
    IF v_event.position IS NOT NULL THEN
        PERFORM alvyn.checkpoint('all', v_event.position);
    END IF;
    IF fail THEN
        RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = 'the handler failed';
    END IF;
END
$$;
CALL project(5, false);
CALL project(5, true);
CALL project(5, false);
CALL project(5, true);
CALL project(5, false);
CALL project(5, false);
SELECT * FROM totals ORDER BY stream_id;
SELECT position, lag_positions, lag_time FROM alvyn.consumers WHERE name = 'all';

-- Case 19: a filter that matches nothing moves on over 100,000 events, holes
-- at the end included, and does not look at them twice.
SELECT count(alvyn.append_batch('bulk-' || i % 10, NULL, array_fill('A'::text, ARRAY[100]), array_fill('1'::jsonb, ARRAY[100])))
FROM generate_series(1, 1000) i;
BEGIN;
SELECT (alvyn.append('bulk-0', NULL, 'A', '1')).version > 0 AS appended;
ROLLBACK;
SELECT count(*) FROM alvyn.consume('orders');
SELECT position = alvyn.last_position() AND position > 100000 AS moved_on FROM alvyn.consumers WHERE name = 'orders';
SELECT count(*) FROM alvyn.consume('some');
SELECT position = alvyn.last_position() AS moved_on FROM alvyn.consumers WHERE name = 'some';
-- The last one it wants is not passed.
SELECT count(alvyn.append(s, NULL, 'B', '"last"')) FROM unnest(ARRAY['bulk-1', 'pay-1', 'bulk-1']) s;
SELECT stream_id, data FROM alvyn.consume('some');
SELECT stream_id, data FROM alvyn.consume('some');

-- Waiting for a consumer's own events.
SELECT alvyn.wait('some', '1 hour'), alvyn.wait('orders', '20 ms'), alvyn.wait('none', '20 ms');

-- Back to any place.
SELECT alvyn.reset_consumer('orders');
SELECT position FROM alvyn.consume('orders', 1);
SELECT alvyn.reset_consumer('orders', '5');
SELECT position FROM alvyn.consume('orders', 1);
SELECT alvyn.reset_consumer('orders', 'now');
SELECT count(*) FROM alvyn.consume('orders');

-- Every name is a name.
SELECT alvyn.create_consumer(n, start => 'now') FROM unnest(ARRAY['%', E'a''b', repeat('é', 256)]) n;
SELECT (SELECT count(*) FROM alvyn.consume('%')), (SELECT count(*) FROM alvyn.consume(E'a''b'));
SELECT alvyn.drop_consumer(n) FROM unnest(ARRAY['%', E'a''b', repeat('é', 256), 'all', 'orders', 'some', 'late']) n;
SELECT count(*) FROM alvyn.consumers;
SELECT count(*) FROM alvyn.consumer_partitions;
DROP TABLE totals;
DROP PROCEDURE project;
