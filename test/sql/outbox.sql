-- Outboxes: events are delivered to many workers, each key in order, and a
-- delivery that succeeds writes no row.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
-- Streams a, b and c, two events each: positions 1 to 6.
SELECT count(alvyn.append(s, NULL, t, jsonb_build_object('k', n))) FROM (VALUES
    ('o-a', 'A', 1), ('o-b', 'A', 2), ('p-c', 'A', 1), ('o-a', 'B', 2), ('o-b', 'B', 1), ('p-c', 'B', 2)) v (s, t, n);

-- A claim takes a partition; no other gets its events before the answer.
SELECT alvyn.create_outbox('all', partitions => 1);
SELECT position, stream_id, version, type, data, topic, key, attempt, fence, lease_until > clock_timestamp() AS leased
FROM alvyn.claim('all', 'ada', 4);
SELECT count(*) FROM alvyn.claim('all', 'bob');
SELECT topic, partition, position, lag_positions, in_flight, worker, lease_until > clock_timestamp() AS leased, parked, dead FROM alvyn.outboxes;
SELECT alvyn.complete('all', 1024, ARRAY[1, 2, 3, 4]);
SELECT position, in_flight, worker, lease_until FROM alvyn.outboxes;
SELECT position, fence FROM alvyn.claim('all', 'bob');
-- In any order, and twice; in parts, in order.
SELECT alvyn.complete('all', 2048, ARRAY[5]);
SELECT position, in_flight FROM alvyn.outboxes;
SELECT alvyn.complete('all', 2048, ARRAY[6, 6]);
SELECT position, in_flight FROM alvyn.outboxes;
SELECT count(*) FROM alvyn.claim('all', 'bob');

-- In parts, out of order: what is done is not delivered again, and no row is
-- left.
SELECT alvyn.reset_outbox('all');
SELECT array_agg(position), min(fence) FROM alvyn.claim('all', 'ada');
SELECT alvyn.complete('all', 4096, ARRAY[5, 3]);
SELECT alvyn.complete('all', 4096, ARRAY[1]);
SELECT position, in_flight FROM alvyn.outboxes;
SELECT position, state FROM alvyn.parked_deliveries ORDER BY position;
SELECT alvyn.complete('all', 4096, ARRAY[2]);
SELECT position, in_flight FROM alvyn.outboxes;
SELECT alvyn.complete('all', 4096, ARRAY[4, 6]);
SELECT position, in_flight FROM alvyn.outboxes;
SELECT count(*) FROM alvyn.parked_deliveries;

-- A completion holds with the commit of its transaction, and only then.
SELECT alvyn.reset_outbox('all');
SELECT array_agg(position), min(fence) FROM alvyn.claim('all', 'ada', 3);
BEGIN;
SELECT alvyn.complete('all', 6144, ARRAY[1, 2, 3]);
ROLLBACK;
SELECT position, in_flight FROM alvyn.outboxes;
BEGIN;
SELECT alvyn.complete('all', 6144, ARRAY[1]);
SAVEPOINT a;
SELECT alvyn.complete('all', 6144, ARRAY[2, 3]);
ROLLBACK TO a;
SAVEPOINT b;
SELECT alvyn.complete('all', 6144, ARRAY[2]);
RELEASE b;
SELECT position, in_flight FROM alvyn.outboxes;
COMMIT;
SELECT position, in_flight FROM alvyn.outboxes;
BEGIN;
SELECT alvyn.complete('all', 6144, ARRAY[3]);
COMMIT;
SELECT position, in_flight FROM alvyn.outboxes;
-- A claim is there at once and stays.
BEGIN;
SELECT array_agg(position), min(fence) FROM alvyn.claim('all', 'ada');
ROLLBACK;
SELECT count(*) FROM alvyn.claim('all', 'bob');
SELECT alvyn.complete('all', 7168, ARRAY[4, 5, 6]);
SELECT position, in_flight FROM alvyn.outboxes;
SELECT alvyn.drop_outbox('all');

-- Filters, partitions, starts and keys.
SELECT alvyn.create_outbox('some', category => 'o', types => ARRAY['B'], start => '1');
SELECT position, key FROM alvyn.claim('some', 'ada') UNION ALL SELECT position, key FROM alvyn.claim('some', 'bob') ORDER BY 1;
SELECT count(*) FROM alvyn.claim('some', 'cy');
SELECT count(*) FROM alvyn.outboxes WHERE position = 6;
SELECT alvyn.create_outbox('keyed', partitions => 1, key => 'k');
SELECT position, key FROM alvyn.claim('keyed', 'ada');
SELECT alvyn.create_outbox('late', start => 'now', partitions => 3);
SELECT count(*) FROM alvyn.claim('late', 'ada');

-- A lease that ends frees its events; then they come one by one, as one of
-- them may be what nobody survives.
SELECT alvyn.create_outbox('lost', partitions => 1, lease => '1 ms', max_attempts => 3, on_dead => 'flow');
CREATE FUNCTION later(outbox text, worker text) RETURNS SETOF alvyn.delivery LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM alvyn.outbox_partitions WHERE topic = outbox AND lease_until > clock_timestamp()) LOOP
        PERFORM pg_sleep(0.001);
    END LOOP;
    RETURN QUERY SELECT * FROM alvyn.claim(outbox, worker);
END
$$;
SELECT position, attempt, fence FROM alvyn.claim('lost', 'ada');
SELECT position, attempt, fence FROM later('lost', 'bob');
SELECT alvyn.complete('lost', 2048, ARRAY[1]);
SELECT position, attempt, fence FROM later('lost', 'bob');
SELECT position, attempt, fence FROM later('lost', 'cy');
-- Event 2 has had its attempts.
SELECT position, attempt, fence FROM later('lost', 'cy');
SELECT topic, key, position, stream_id, version, type, attempts, error, since <= clock_timestamp() AS since FROM alvyn.dead_letters;
SELECT alvyn.complete('lost', (SELECT fence FROM alvyn.outbox_partitions WHERE topic = 'lost'), ARRAY[3]);
SELECT alvyn.complete('lost', d.fence, ARRAY[d.position]) FROM later('lost', 'cy') d;
SELECT alvyn.complete('lost', d.fence, ARRAY[d.position]) FROM later('lost', 'cy') d;
SELECT alvyn.complete('lost', d.fence, ARRAY[d.position]) FROM later('lost', 'cy') d;
SELECT count(*) FROM later('lost', 'cy');
SELECT position, in_flight, parked, dead FROM alvyn.outboxes WHERE topic = 'lost';
DROP FUNCTION later;

-- A governor: never more than its tokens, and what is not needed stays.
SELECT alvyn.create_governor('three', 0.001, 3);
SELECT alvyn.create_outbox('slow', partitions => 1, governor => 'three');
SELECT count(*), min(fence) FROM alvyn.claim('slow', 'ada', 2);
SELECT alvyn.complete('slow', 1024, ARRAY[1, 2]);
SELECT count(*), min(fence) FROM alvyn.claim('slow', 'ada', 100);
SELECT alvyn.complete('slow', 2048, ARRAY[3]);
SELECT count(*) FROM alvyn.claim('slow', 'ada', 100);
SELECT alvyn.alter_outbox('slow', governor => '', lease => '1 hour');
SELECT count(*), min(lease_until) > clock_timestamp() + interval '30 minutes' AS long FROM alvyn.claim('slow', 'ada', 100);
SELECT alvyn.create_governor('rich', 0.001, 100);
SELECT alvyn.create_outbox('rich', governor => 'rich', start => 'now');
SELECT count(*) FROM alvyn.claim('rich', 'ada', 100);
SELECT granted FROM alvyn.acquire('rich', 100);

-- One version of each row, whatever was claimed and completed, and no other
-- row at all.
SELECT alvyn.drop_outbox(topic) FROM alvyn.outbox_definitions;
SELECT count(*) FROM alvyn.outbox_partitions;
TRUNCATE alvyn.outbox_partitions, alvyn.parked_deliveries;
SELECT count(alvyn.append_batch('m-' || i % 20, NULL, array_fill('A'::text, ARRAY[100]), array_fill('1'::jsonb, ARRAY[100])))
FROM generate_series(1, 100) i;
SELECT alvyn.create_outbox('many', category => 'm');
DO $$
DECLARE
    v_count int := 0;
    v_more int;
BEGIN
    LOOP
        SELECT count(alvyn.complete('many', fence, positions)), sum(cardinality(positions)) INTO v_more, v_more
          FROM (SELECT fence, array_agg(position) AS positions FROM alvyn.claim('many', 'ada') GROUP BY fence) c;
        EXIT WHEN v_more IS NULL;
        v_count := v_count + v_more;
        COMMIT;
    END LOOP;
    RAISE NOTICE '% events', v_count;
END
$$;
SELECT pg_relation_size('alvyn.outbox_partitions') = current_setting('block_size')::int AS one_page,
       pg_relation_size('alvyn.parked_deliveries') AS parked;
