-- Consumers: a name, a filter, and a checkpoint for each partition.  A plain
-- consumer is a group of one partition that needs no lease.
--
-- No foreign key connects the two tables: pg_restore -j loads them at the
-- same time.

CREATE TABLE alvyn.consumer_definitions (
    name text COLLATE "C" NOT NULL,
    category text COLLATE "C",
    prefix text COLLATE "C",
    types text[] COLLATE "C",
    snapshots boolean NOT NULL,
    partitions int NOT NULL,
    key text[] COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT consumer_definitions_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE alvyn.consumer_definitions IS
    'Consumers and what they want to read';
COMMENT ON COLUMN alvyn.consumer_definitions.key IS
    'Payload path whose value decides the partition; null for the stream';

CREATE TABLE alvyn.consumer_partitions (
    name text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    "position" bigint NOT NULL,
    owner text COLLATE "C",
    fence bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    active_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    removal_no bigint NOT NULL DEFAULT alvyn.max_removal(),
    CONSTRAINT consumer_partitions_pkey PRIMARY KEY (name, partition)
);
COMMENT ON TABLE alvyn.consumer_partitions IS
    'Checkpoints and leases of consumers';
COMMENT ON COLUMN alvyn.consumer_partitions."position" IS
    'Everything up to here was processed or is not wanted';
COMMENT ON COLUMN alvyn.consumer_partitions.fence IS
    'Number of the lease; an older one is refused';
COMMENT ON COLUMN alvyn.consumer_partitions.removal_no IS
    'A removal of history up to which the consumer misses nothing, or has accepted it';

SELECT pg_catalog.pg_extension_config_dump('alvyn.consumer_definitions', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.consumer_partitions', '');

CREATE FUNCTION alvyn.consumer_start(
    start text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF consumer_start.start = 'beginning' THEN
        RETURN 0;
    ELSIF consumer_start.start = 'now' THEN
        RETURN alvyn.resolved_position();
    ELSIF consumer_start.start ~ '^[0-9]{1,18}$' AND consumer_start.start::bigint <= alvyn.last_position() THEN
        RETURN consumer_start.start::bigint;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'invalid_parameter_value',
        MESSAGE = 'argument "start" is not a position of the feed',
        DETAIL = format('It is %s.', coalesce(quote_literal(consumer_start.start), 'null')),
        HINT = 'Use ''beginning'', ''now'', or a position that was handed out.';
END
$$;
COMMENT ON FUNCTION alvyn.consumer_start(text) IS
    'Position that a start of a consumer names';

CREATE FUNCTION alvyn.create_consumer(
    name text,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    start text DEFAULT 'beginning',
    partitions int DEFAULT 1,
    key text DEFAULT 'stream',
    snapshots boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(octet_length(create_consumer.name), 0) NOT BETWEEN 1 AND 512 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "name" is out of range',
            DETAIL = 'It must have 1 to 512 bytes.';
    END IF;
    IF coalesce(create_consumer.partitions, 0) NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "partitions" is out of range',
            DETAIL = 'It must be 1 to 1024.';
    END IF;
    IF coalesce(create_consumer.key, '') = '' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "key" must be ''stream'' or a payload path';
    END IF;
    IF array_position(create_consumer.types, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "types" must not contain nulls';
    END IF;
    INSERT INTO alvyn.consumer_definitions (name, category, prefix, types, snapshots, partitions, key)
    VALUES (create_consumer.name, create_consumer.category, create_consumer.prefix, create_consumer.types,
            coalesce(create_consumer.snapshots, false), create_consumer.partitions,
            CASE WHEN create_consumer.key <> 'stream' THEN string_to_array(create_consumer.key, '.') END);
    INSERT INTO alvyn.consumer_partitions (name, partition, "position")
    SELECT create_consumer.name, p, s
      FROM alvyn.consumer_start(create_consumer.start) s,
           generate_series(0, create_consumer.partitions - 1) p;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING
        ERRCODE = 'duplicate_object',
        MESSAGE = format('consumer "%s" already exists', create_consumer.name);
END
$$;
COMMENT ON FUNCTION alvyn.create_consumer(text, text, text, text[], text, int, text, boolean) IS
    'Define a consumer: what it reads, from where, and how it is divided';

CREATE FUNCTION alvyn.drop_consumer(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM alvyn.consumer_partitions c WHERE c.name = drop_consumer.name;
    DELETE FROM alvyn.consumer_definitions d WHERE d.name = drop_consumer.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('consumer "%s" does not exist', drop_consumer.name);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.drop_consumer(text) IS
    'Forget a consumer and its checkpoints';

CREATE FUNCTION alvyn.reset_consumer(
    name text,
    start text DEFAULT 'beginning'
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_position bigint := alvyn.consumer_start(reset_consumer.start);
BEGIN
    -- A new fence takes the partitions from whoever works on them.
    UPDATE alvyn.consumer_partitions c
       SET "position" = v_position,
           removal_no = alvyn.max_removal(),
           owner = NULL,
           fence = c.fence + 1,
           lease_until = NULL,
           active_at = clock_timestamp()
     WHERE c.name = reset_consumer.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('consumer "%s" does not exist', reset_consumer.name);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.reset_consumer(text, text) IS
    'Set all checkpoints of a consumer back, or forward';

CREATE FUNCTION alvyn.lock_partition(
    name text,
    partition int,
    fence bigint
) RETURNS alvyn.consumer_partitions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_partition alvyn.consumer_partitions;
BEGIN
    SELECT * INTO v_partition
      FROM alvyn.consumer_partitions c
     WHERE c.name = lock_partition.name
       AND c.partition = lock_partition.partition
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('consumer "%s" does not exist or has no partition %s',
                             lock_partition.name, lock_partition.partition);
    END IF;
    IF lock_partition.fence IS NULL
       AND (SELECT d.partitions FROM alvyn.consumer_definitions d WHERE d.name = lock_partition.name) > 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('consumer "%s" has several partitions', lock_partition.name),
            HINT = 'Lease a partition, and pass its number and fence.';
    END IF;
    IF lock_partition.fence IS NULL AND v_partition.lease_until > clock_timestamp() THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('consumer "%s" is leased', lock_partition.name),
            DETAIL = format('The owner is "%s".', v_partition.owner),
            HINT = 'Lease it, and pass partition 0 and the fence.',
            CONSTRAINT = 'fence';
    END IF;
    IF lock_partition.fence <> v_partition.fence OR lock_partition.fence IS NOT NULL AND v_partition.owner IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('lease of partition %s of consumer "%s" is over',
                             lock_partition.partition, lock_partition.name),
            DETAIL = format('Fence %s was given, the partition is at %s.', lock_partition.fence, v_partition.fence),
            HINT = 'Lease a partition again and read on from its position.',
            CONSTRAINT = 'fence';
    END IF;
    IF v_partition."position" > alvyn.last_position() THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('checkpoint of consumer "%s" is ahead of the feed', lock_partition.name),
            DETAIL = format('The checkpoint is %s, the last position is %s.',
                            v_partition."position", alvyn.last_position()),
            HINT = 'The store was restored to an earlier time. Check what the consumer has processed, then use reset_consumer().',
            CONSTRAINT = 'checkpoint';
    END IF;
    RETURN v_partition;
END
$$;
COMMENT ON FUNCTION alvyn.lock_partition(text, int, bigint) IS
    'Lock a partition for this transaction and check who may work on it';

CREATE FUNCTION alvyn.first_slot(
    partition int,
    partitions int
) RETURNS int
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (first_slot.partition * 1024 + first_slot.partitions - 1) / first_slot.partitions;
COMMENT ON FUNCTION alvyn.first_slot(int, int) IS
    'First slot of a partition; it ends before the first slot of the next';

-- To be called after reading, as a removal can commit before it.
CREATE FUNCTION alvyn.missed_removal(
    after bigint,
    accepted bigint,
    category text,
    prefix text,
    key text[],
    first_slot int,
    last_slot int,
    OUT last bigint,
    OUT stream_id text,
    OUT "position" bigint
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    last := alvyn.max_removal();
    IF last <= missed_removal.accepted THEN
        RETURN;
    END IF;
    IF last > (SELECT max(r.removal_no) FROM alvyn.removals r) IS NOT FALSE THEN
        RAISE EXCEPTION USING
            ERRCODE = 'serialization_failure',
            MESSAGE = 'could not serialize access due to a removal of history',
            HINT = 'Repeat the transaction.';
    END IF;
    SELECT s.stream_id, r."position" INTO missed_removal.stream_id, missed_removal."position"
      FROM alvyn.removals r
      JOIN alvyn.streams s ON s.stream_no = r.stream_no
     WHERE r."position" > missed_removal.after
       AND r.removal_no > missed_removal.accepted
       AND (missed_removal.category IS NULL OR split_part(s.stream_id, '-', 1) = missed_removal.category)
       AND (missed_removal.prefix IS NULL OR starts_with(s.stream_id, missed_removal.prefix))
       AND (missed_removal.key IS NOT NULL
            OR s.slot BETWEEN missed_removal.first_slot AND missed_removal.last_slot)
     ORDER BY r."position"
     LIMIT 1;
END
$$;
COMMENT ON FUNCTION alvyn.missed_removal(bigint, bigint, text, text, text[], int, int) IS
    'Number of the last removal of history, and the first one behind a position that a filter may want and that is not accepted';

CREATE FUNCTION alvyn.check_removals(
    name text,
    partition int
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_consumer record;
    v_missed record;
BEGIN
    SELECT c."position", c.removal_no, d.category, d.prefix, d.key, d.partitions INTO v_consumer
      FROM alvyn.consumer_partitions c
      JOIN alvyn.consumer_definitions d ON d.name = c.name
     WHERE c.name = check_removals.name
       AND c.partition = check_removals.partition;
    SELECT * INTO v_missed
      FROM alvyn.missed_removal(v_consumer."position", v_consumer.removal_no, v_consumer.category, v_consumer.prefix,
                                v_consumer.key, alvyn.first_slot(check_removals.partition, v_consumer.partitions),
                                alvyn.first_slot(check_removals.partition + 1, v_consumer.partitions) - 1);
    IF v_missed."position" IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('history that consumer "%s" has not read was removed', check_removals.name),
            DETAIL = format('The checkpoint is %s; events of stream "%s" were removed up to position %s.',
                            v_consumer."position", v_missed.stream_id, v_missed."position"),
            HINT = 'To go on with what is left, use reset_consumer() with a start.',
            CONSTRAINT = 'history_removed';
    END IF;
    -- None so far: they need not be looked at again.
    UPDATE alvyn.consumer_partitions c
       SET removal_no = v_missed.last
     WHERE c.name = check_removals.name
       AND c.partition = check_removals.partition
       AND c.removal_no < v_missed.last;
END
$$;
COMMENT ON FUNCTION alvyn.check_removals(text, int) IS
    'Raise an error when events behind a checkpoint that the consumer may want were removed since it was created or reset';

CREATE FUNCTION alvyn.consume(
    name text,
    partition int,
    fence bigint,
    max_count int DEFAULT 500
) RETURNS SETOF alvyn.event
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 500
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_partition alvyn.consumer_partitions := alvyn.lock_partition(consume.name, consume.partition, consume.fence);
    v_consumer alvyn.consumer_definitions;
    v_first int;
    v_last int;
    v_bound bigint;
BEGIN
    SELECT * INTO v_consumer FROM alvyn.consumer_definitions d WHERE d.name = consume.name;
    v_first := alvyn.first_slot(consume.partition, v_consumer.partitions);
    v_last := alvyn.first_slot(consume.partition + 1, v_consumer.partitions) - 1;
    RETURN QUERY
    SELECT *
      FROM alvyn.read_slots(v_partition."position", consume.max_count, v_consumer.category, v_consumer.prefix,
                            v_consumer.types, v_consumer.snapshots, v_consumer.key, v_first, v_last, true);
    IF NOT FOUND AND consume.max_count > 0 THEN
        -- Nothing wanted: the next call need not look at all that again.
        v_bound := alvyn.skip(v_partition."position", v_consumer.category, v_consumer.prefix, v_consumer.types,
                              v_consumer.snapshots, v_consumer.key, v_first, v_last, true);
        PERFORM alvyn.check_removals(consume.name, consume.partition);
        IF v_bound > v_partition."position" THEN
            UPDATE alvyn.consumer_partitions c
               SET "position" = v_bound
             WHERE c.name = consume.name
               AND c.partition = consume.partition;
        END IF;
    ELSE
        PERFORM alvyn.check_removals(consume.name, consume.partition);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.consume(text, int, bigint, int) IS
    'Events behind the checkpoint of a leased partition; the partition stays locked to the end of the transaction';

CREATE FUNCTION alvyn.consume(
    name text,
    max_count int DEFAULT 500
) RETURNS SETOF alvyn.event
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 500
BEGIN ATOMIC
    SELECT * FROM alvyn.consume(consume.name, 0, NULL::bigint, consume.max_count);
END;
COMMENT ON FUNCTION alvyn.consume(text, int) IS
    'Events behind the checkpoint of a consumer; it stays locked to the end of the transaction';

CREATE FUNCTION alvyn.checkpoint(
    name text,
    partition int,
    fence bigint,
    "position" bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_partition alvyn.consumer_partitions := alvyn.lock_partition(checkpoint.name, checkpoint.partition, checkpoint.fence);
BEGIN
    IF checkpoint."position" IS NULL
       OR checkpoint."position" < v_partition."position"
       OR checkpoint."position" > alvyn.last_position() THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "position" is out of range',
            DETAIL = format('It is %s, the checkpoint is %s, the last position is %s.',
                            coalesce(checkpoint."position"::text, 'null'), v_partition."position",
                            alvyn.last_position()),
            HINT = 'To go back, use reset_consumer().';
    END IF;
    UPDATE alvyn.consumer_partitions c
       SET "position" = checkpoint."position",
           active_at = clock_timestamp()
     WHERE c.name = checkpoint.name
       AND c.partition = checkpoint.partition;
END
$$;
COMMENT ON FUNCTION alvyn.checkpoint(text, int, bigint, bigint) IS
    'Record that a leased partition was processed up to a position';

CREATE FUNCTION alvyn.checkpoint(
    name text,
    "position" bigint
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT alvyn.checkpoint(checkpoint.name, 0, NULL::bigint, checkpoint."position");
END;
COMMENT ON FUNCTION alvyn.checkpoint(text, bigint) IS
    'Record that a consumer has processed everything up to a position';

CREATE FUNCTION alvyn.lease_end(
    seconds double precision
) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT lease_end.seconds > 0 OR lease_end.seconds > 86400 * 365.0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "seconds" is out of range',
            DETAIL = 'A lease lasts more than 0 seconds and at most a year.';
    END IF;
    RETURN clock_timestamp() + make_interval(secs => lease_end.seconds);
END
$$;
COMMENT ON FUNCTION alvyn.lease_end(double precision) IS
    'When a lease of some seconds ends that is taken now';

CREATE FUNCTION alvyn.lease(
    name text,
    worker text,
    seconds double precision DEFAULT 30,
    OUT partition int,
    OUT fence bigint,
    OUT "position" bigint
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_until timestamptz := alvyn.lease_end(lease.seconds);
BEGIN
    IF NOT EXISTS (SELECT FROM alvyn.consumer_definitions d WHERE d.name = lease.name) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('consumer "%s" does not exist', lease.name);
    END IF;
    RETURN QUERY
    UPDATE alvyn.consumer_partitions c
       SET owner = lease.worker,
           fence = c.fence + 1,
           lease_until = v_until,
           active_at = clock_timestamp()
     WHERE c.name = lease.name
       AND c.partition = (SELECT f.partition
                            FROM alvyn.consumer_partitions f
                           WHERE f.name = lease.name
                             AND (f.lease_until IS NULL OR f.lease_until < clock_timestamp())
                           ORDER BY f."position", f.partition
                           LIMIT 1
                             FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING c.partition, c.fence, c."position";
END
$$;
COMMENT ON FUNCTION alvyn.lease(text, text, double precision) IS
    'Take a partition that nobody owns for some seconds, the one furthest behind; no row when all are taken';

CREATE FUNCTION alvyn.renew(
    name text,
    partition int,
    fence bigint,
    seconds double precision DEFAULT 30
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.lock_partition(renew.name, renew.partition, renew.fence);
    UPDATE alvyn.consumer_partitions c
       SET lease_until = alvyn.lease_end(renew.seconds),
           active_at = clock_timestamp()
     WHERE c.name = renew.name
       AND c.partition = renew.partition;
END
$$;
COMMENT ON FUNCTION alvyn.renew(text, int, bigint, double precision) IS
    'Keep a lease for some more seconds';

CREATE FUNCTION alvyn.release(
    name text,
    partition int,
    fence bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.lock_partition(release.name, release.partition, release.fence);
    UPDATE alvyn.consumer_partitions c
       SET owner = NULL,
           lease_until = NULL,
           active_at = clock_timestamp()
     WHERE c.name = release.name
       AND c.partition = release.partition;
END
$$;
COMMENT ON FUNCTION alvyn.release(text, int, bigint) IS
    'Give a leased partition back';

CREATE FUNCTION alvyn.wait(
    name text,
    timeout interval
) RETURNS boolean
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT alvyn.wait_position(pg_catalog.min(c."position"), wait.timeout, d.category, d.prefix, d.types, d.snapshots)
      FROM alvyn.consumer_definitions d
      JOIN alvyn.consumer_partitions c ON c.name = d.name
     WHERE d.name = wait.name
     GROUP BY d.name;
END;
COMMENT ON FUNCTION alvyn.wait(text, interval) IS
    'Sleep until a consumer has something to read; false when the time is over, null when there is no such consumer';

-- Not strict, so that the planner puts its body in place of the call: it is
-- called once for every page.
CREATE FUNCTION alvyn.wait(
    after bigint,
    timeout interval
) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT CASE WHEN wait.after IS NOT NULL AND wait.timeout IS NOT NULL
                THEN alvyn.wait_position(wait.after, wait.timeout) END;
END;
COMMENT ON FUNCTION alvyn.wait(bigint, interval) IS
    'Sleep until the feed has something behind a position; false when the time is over';

CREATE VIEW alvyn.consumers AS
SELECT d.name,
       d.category,
       d.prefix,
       d.types,
       d.partitions,
       c.partition,
       c."position",
       greatest(alvyn.last_position() - c."position", 0) AS lag_positions,
       pg_catalog.clock_timestamp() - n."time" AS lag_time,
       c.owner,
       c.lease_until,
       c.active_at
  FROM alvyn.consumer_definitions d
  JOIN alvyn.consumer_partitions c ON c.name = d.name
  LEFT JOIN LATERAL (SELECT e."time"
                       FROM alvyn.events e
                      WHERE e.position > c."position"
                      ORDER BY e.position
                      LIMIT 1) n ON true;
COMMENT ON VIEW alvyn.consumers IS
    'The partitions of all consumers: checkpoint, positions and time behind the feed, owner';
