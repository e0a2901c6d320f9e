-- Consumers of several partitions: slots, keys, leases and fences.
--
-- I4: each event belongs to exactly one partition, so together they see every
-- event once, and the events of a stream, or of a key, in order.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- For each number of partitions: none is empty, the first begins at slot 0,
-- each ends where the next begins, the last at 1024; sizes differ by one.
SELECT count(*), bool_and(partitions = n) AS none_empty, bool_and(first = 0) AS from_0, bool_and(last = 1024) AS to_1024,
       bool_and(smallest = 1024 / n AND largest <= smallest + 1) AS even
FROM (SELECT n, count(*) FILTER (WHERE b > a) AS partitions, min(a) AS first, max(b) AS last, min(b - a) AS smallest, max(b - a) AS largest
      FROM generate_series(1, 1024) n, generate_series(0, n - 1) p,
           LATERAL (SELECT alvyn.first_slot(p, n) AS a, alvyn.first_slot(p + 1, n) AS b) s
      GROUP BY n) x;
-- Frozen, since checkpoints depend on them.
SELECT alvyn.first_slot(1, 2), alvyn.first_slot(1, 3), alvyn.first_slot(2, 3), alvyn.first_slot(5, 16), alvyn.first_slot(999, 1000);

-- A stream in every slot, two events each.
CREATE TABLE ids AS
SELECT DISTINCT ON (slot) stream_id, slot
FROM (SELECT 's-' || i AS stream_id, alvyn.stream_slot('s-' || i) AS slot, i FROM generate_series(1, 20000) i) x
ORDER BY slot, i;
SELECT count(*) FROM ids;
SELECT count(*) FROM ids, generate_series(1, 2) i, alvyn.append(stream_id, NULL, 'A', to_jsonb(i));

-- Work through a consumer with workers that come and go.
CREATE TABLE handled (n int GENERATED ALWAYS AS IDENTITY, consumer text, partition int, position bigint, stream_id text, version bigint, data jsonb);
CREATE PROCEDURE work(consumer text, max_count int) LANGUAGE plpgsql AS $$
DECLARE
    v_lease record;
    v_last bigint;
    v_idle int := 0;
    v_partitions int := (SELECT partitions FROM alvyn.consumer_definitions d WHERE d.name = work.consumer);
BEGIN
    WHILE v_idle <= v_partitions LOOP
        SELECT * INTO v_lease FROM alvyn.lease(consumer, 'worker', 30);
        INSERT INTO handled (consumer, partition, position, stream_id, version, data)
        SELECT work.consumer, v_lease.partition, e.position, e.stream_id, e.version, e.data
        FROM alvyn.consume(consumer, v_lease.partition, v_lease.fence, max_count) e;
        IF FOUND THEN
            SELECT max(position) INTO v_last FROM handled h WHERE h.consumer = work.consumer AND h.partition = v_lease.partition;
            PERFORM alvyn.checkpoint(consumer, v_lease.partition, v_lease.fence, v_last);
            v_idle := 0;
        ELSE
            v_idle := v_idle + 1;
        END IF;
        PERFORM alvyn.release(consumer, v_lease.partition, v_lease.fence);
    END LOOP;
END
$$;
SELECT alvyn.create_consumer('by-' || n, partitions => n) FROM unnest(ARRAY[1, 3, 16, 1000]) n;
SELECT alvyn.create_consumer('by-key', partitions => 7, key => 'customer.id');
CALL work('by-1', 500);
CALL work('by-3', 100);
CALL work('by-16', 500);
CALL work('by-1000', 500);
SELECT consumer, count(*), count(DISTINCT h.position) AS positions, count(DISTINCT partition) AS partitions,
       bool_and(partition * 1024 / d.partitions <= ids.slot AND ids.slot < (partition + 1) * 1024 / d.partitions + 1) AS own_slots
FROM handled h JOIN ids USING (stream_id) JOIN alvyn.consumer_definitions d ON d.name = consumer
GROUP BY consumer ORDER BY consumer;
SELECT consumer, count(*) FROM (SELECT *, row_number() OVER (PARTITION BY consumer, stream_id ORDER BY n) FROM handled) x
WHERE version <> row_number GROUP BY consumer;

-- By a key in the payload: each value in one partition, those without it
-- together.  Payloads may be compressed or stored apart.
SELECT count(alvyn.append('k-' || i, 0, 'A', jsonb_build_object('customer', jsonb_build_object('id', i % 40), 'pad', repeat(md5(i::text), 1 + i % 10 * 100))))
FROM generate_series(1, 400) i;
SELECT count(alvyn.append('k-' || i, 1, 'A', d)) FROM unnest(ARRAY['{}', '7', 'null', '{"customer": 1}', '{"customer": {"id": null}}', '{"customer": {"id": ""}}']::jsonb[])
     WITH ORDINALITY x (d, i);
CALL work('by-key', 50);
SELECT count(*), count(DISTINCT position), count(DISTINCT partition) AS partitions FROM handled WHERE consumer = 'by-key';
SELECT count(*), count(*) FILTER (WHERE partitions = 1) AS in_one_partition
FROM (SELECT data #> '{customer,id}', count(DISTINCT partition) AS partitions FROM handled
      WHERE consumer = 'by-key' AND jsonb_typeof(data #> '{customer,id}') = 'number' GROUP BY 1) x;
SELECT count(*), count(DISTINCT partition) AS partitions FROM handled WHERE consumer = 'by-key' AND coalesce(data #>> '{customer,id}', '') = '';

-- Leases: the partition furthest behind first, none twice.
SELECT alvyn.create_consumer('group', partitions => 3);
SELECT * FROM alvyn.lease('group', 'ada');
SELECT * FROM alvyn.lease('group', 'bob');
SELECT * FROM alvyn.lease('group', 'cy');
SELECT count(*) FROM alvyn.lease('group', 'dan');
SELECT partition, owner, lease_until > clock_timestamp() AS leased FROM alvyn.consumers WHERE name = 'group' ORDER BY partition;
SELECT alvyn.checkpoint('group', 1, 1, 100), alvyn.checkpoint('group', 0, 1, 200), alvyn.checkpoint('group', 2, 1, 300);
SELECT alvyn.release('group', p, 1) FROM generate_series(0, 2) p;
SELECT * FROM alvyn.lease('group', 'dan', 0.000001);
-- A lease that is over can be taken by anybody; until then its owner works on.
SELECT alvyn.checkpoint('group', 1, 2, 150);
SELECT alvyn.renew('group', 1, 2, 0.000001);
SELECT * FROM alvyn.lease('group', 'eve');
\set VERBOSITY terse
SELECT alvyn.checkpoint('group', 1, 2, 160);
SELECT alvyn.renew('group', 1, 2);
SELECT alvyn.release('group', 1, 2);
SELECT * FROM alvyn.consume('group', 1, 2);
SELECT alvyn.renew('group', 1, 3, 60);
SELECT position >= 150 AS reads_on FROM alvyn.consume('group', 1, 3, 1);
-- A reset takes the partitions from everybody.
SELECT alvyn.reset_consumer('group');
SELECT * FROM alvyn.consume('group', 1, 3);
SELECT * FROM alvyn.lease('group', 'fay');
SELECT partition, position, owner, fence FROM alvyn.consumer_partitions WHERE name = 'group' ORDER BY partition;

-- A consumer of one partition can be leased too, and then takes no call
-- without the fence.
SELECT alvyn.create_consumer('single');
SELECT * FROM alvyn.lease('single', 'ada');
SELECT count(*) FROM alvyn.consume('single', 1);
SELECT alvyn.checkpoint('single', 1);
SELECT count(*) FROM alvyn.consume('single', 0, 1, 1);
SELECT alvyn.release('single', 0, 1);
SELECT count(*) FROM alvyn.consume('single', 1);
DROP TABLE ids, handled;
DROP PROCEDURE work;
