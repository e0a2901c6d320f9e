-- status() has one row for each thing to watch, whatever the state of the
-- store, and its numbers follow what happens.
SELECT concern, unit, coalesce(value, 0) >= 0 AS counted FROM alvyn.status();

-- An append that is under way is seen, with its process.
BEGIN;
SELECT version FROM alvyn.append('status-1', 0, 'A', '{}');
SELECT value, (detail ->> 'oldest_pid')::int = pg_backend_pid() AS own, (detail ->> 'oldest_seconds')::numeric >= 0 AS aged
  FROM alvyn.status() WHERE concern = 'in flight';
COMMIT;
SELECT value, detail FROM alvyn.status() WHERE concern = 'in flight';
SELECT value > 0 AS appended, (detail ->> 'last_position')::bigint = alvyn.last_position() AS last
  FROM alvyn.status() WHERE concern = 'appends';

-- The consumer that is furthest behind, by its name.
SELECT alvyn.create_consumer('ahead', start => 'now'), alvyn.create_consumer('behind');
SELECT value = alvyn.last_position() AS lag, detail ->> 'name' AS name FROM alvyn.status() WHERE concern = 'slowest consumer';

-- Keys that can go.
SELECT version FROM alvyn.append('status-1', 1, 'A', '{}', idempotency_key => 'status');
SELECT value FROM alvyn.status() WHERE concern = 'retention debt';
UPDATE alvyn.idempotency_keys SET created_at = 'epoch' WHERE key = 'status';
SELECT value FROM alvyn.status() WHERE concern = 'retention debt';
-- And tombstoned streams until they are empty.
SELECT alvyn.tombstone_stream('status-1');
SELECT value, detail FROM alvyn.status() WHERE concern = 'retention debt';
SELECT count(*) FROM alvyn.maintain();
SELECT value, detail FROM alvyn.status() WHERE concern = 'retention debt';

-- Sizes are those of the server.
SELECT value = pg_total_relation_size('alvyn.events') AS right FROM alvyn.status() WHERE concern = 'size of events';
SELECT alvyn.drop_consumer('ahead'), alvyn.drop_consumer('behind');
