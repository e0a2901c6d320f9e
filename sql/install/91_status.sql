-- Status: one row for each thing to watch.
--
-- It reads a few pages of each, and numbers that the server keeps anyway, so
-- that it can be asked every second.  It runs with the rights of the owner,
-- since ages of other users' transactions are hidden from most roles.

CREATE FUNCTION alvyn.status(
    OUT concern text,
    OUT value numeric,
    OUT unit text,
    OUT detail jsonb
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_last bigint := alvyn.last_position();
    v_now timestamptz := clock_timestamp();
BEGIN
    -- The rate at which the newest thousand positions came.
    concern := 'appends';
    unit := 'events/s';
    SELECT round((v_last - e.position + 1) / greatest(extract(epoch FROM v_now - e."time"), 0.001), 1)
      INTO value
      FROM alvyn.events e
     WHERE e.position > v_last - 1000
     ORDER BY e.position
     LIMIT 1;
    value := coalesce(value, 0);
    detail := jsonb_build_object('last_position', v_last);
    RETURN NEXT;

    -- Whoever has taken a position holds the lock of the sequence.
    concern := 'in flight';
    unit := 'transactions';
    SELECT count(*),
           jsonb_build_object(
               'prepared', count(*) FILTER (WHERE l.pid IS NULL),
               'oldest_pid', (array_agg(l.pid ORDER BY a.xact_start))[1],
               'oldest_seconds', round(extract(epoch FROM v_now - min(a.xact_start)), 3))
      INTO value, detail
      FROM pg_locks l
      LEFT JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'relation'
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND l.relation = 'alvyn.events_position_seq'::regclass
       AND l.mode = 'RowExclusiveLock';
    RETURN NEXT;

    concern := 'gate';
    SELECT g.in_flight, to_jsonb(g) INTO value, detail FROM alvyn.gate_status() g;
    RETURN NEXT;

    concern := 'slowest consumer';
    unit := 'positions';
    value := 0;
    detail := NULL;
    SELECT v_last - c."position",
           jsonb_build_object('name', c.name, 'partition', c.partition, 'owner', c.owner, 'active_at', c.active_at)
      INTO value, detail
      FROM alvyn.consumer_partitions c
     ORDER BY c."position"
     LIMIT 1;
    value := greatest(coalesce(value, 0), 0);
    RETURN NEXT;

    concern := 'slowest outbox';
    value := 0;
    detail := NULL;
    SELECT v_last - p."position",
           jsonb_build_object('topic', p.topic, 'partition', p.partition, 'worker', p.worker)
      INTO value, detail
      FROM alvyn.outbox_partitions p
     ORDER BY p."position"
     LIMIT 1;
    value := greatest(coalesce(value, 0), 0);
    RETURN NEXT;

    concern := 'dead letters';
    unit := 'events';
    SELECT count(*), jsonb_build_object('oldest', min(d.since), 'topics', count(DISTINCT d.topic))
      INTO value, detail
      FROM alvyn.parked_deliveries d
     WHERE d.state = 'd';
    RETURN NEXT;

    concern := 'parked events';
    SELECT count(*), jsonb_build_object('oldest', min(p.parked_at), 'projections', count(DISTINCT p.name))
      INTO value, detail
      FROM alvyn.parked_events p;
    RETURN NEXT;

    -- What maintain() could remove: keys and streams, each counted to 10,000.
    concern := 'retention debt';
    unit := 'rows';
    SELECT count(*) INTO value
      FROM (SELECT
              FROM alvyn.idempotency_keys k
             WHERE k.created_at < v_now - greatest(
                       make_interval(secs => extract(epoch FROM current_setting('alvyn.idempotency_retention')::interval)),
                       (SELECT max(s.dedup_window) FROM alvyn.inbox_sources s))
             LIMIT 10000) o;
    detail := jsonb_build_object('idempotency_keys', value);
    SELECT value + t.count, detail || jsonb_build_object('tombstoned_streams', t.count)
      INTO value, detail
      FROM (SELECT count(*) AS count FROM (SELECT FROM alvyn.tombstones LIMIT 10000) o) t;
    RETURN NEXT;

    unit := 'bytes';
    FOR concern, value, detail IN
        SELECT 'size of ' || t.name, pg_total_relation_size(t.relid),
               jsonb_build_object('table', pg_table_size(t.relid), 'indexes', pg_indexes_size(t.relid))
          FROM (VALUES ('events', 'alvyn.events'::regclass),
                       ('streams', 'alvyn.streams'::regclass),
                       ('idempotency_keys', 'alvyn.idempotency_keys'::regclass)) AS t (name, relid)
    LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION alvyn.status() IS
    'One row for each thing to watch: appends, gate, consumers, dead letters, retention, sizes';
