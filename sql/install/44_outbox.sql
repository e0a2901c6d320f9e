-- Outboxes: a filter over the feed that many workers deliver from.
--
-- The row of a partition says how far everything is settled ("position"), and
-- which events a worker has in hand: those behind it up to run_last that have
-- no row in alvyn.parked_deliveries, or one parked event (run_retry).  It
-- changes in place: src/outbox.c, which knows its columns by number.  A
-- delivery that succeeds only moves the position.  Trouble has rows of its
-- own, written by UPDATE like others: whoever writes them locks the row of
-- the partition first, and so do claims where there is trouble.
--
-- States of parked events: w waits for its retry and is the first of its key,
-- h is held behind another, d is a dead letter, x was answered for and lies
-- behind the position.
--
-- No foreign key connects the tables: pg_restore -j loads them at the same
-- time.

CREATE TABLE alvyn.outbox_definitions (
    topic text COLLATE "C" NOT NULL,
    category text COLLATE "C",
    prefix text COLLATE "C",
    types text[] COLLATE "C",
    partitions int NOT NULL,
    key text[] COLLATE "C",
    max_attempts int NOT NULL,
    backoff interval NOT NULL,
    lease interval NOT NULL,
    on_dead text COLLATE "C" NOT NULL,
    governor text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT outbox_definitions_pkey PRIMARY KEY (topic)
);
COMMENT ON TABLE alvyn.outbox_definitions IS
    'Outboxes: what they deliver, and what becomes of failures';
COMMENT ON COLUMN alvyn.outbox_definitions.key IS
    'Payload path whose value is the key; null for the stream';

CREATE TABLE alvyn.outbox_partitions (
    partition int NOT NULL,
    lost int NOT NULL DEFAULT 0,
    "position" bigint NOT NULL,
    run_last bigint NOT NULL DEFAULT 0,
    run_count bigint NOT NULL DEFAULT 0,
    run_hash bigint NOT NULL DEFAULT 0,
    fence bigint NOT NULL,
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    suspect_until bigint NOT NULL DEFAULT 0,
    run_rows bigint NOT NULL DEFAULT 0,
    removal_no bigint NOT NULL DEFAULT alvyn.max_removal(),
    run_retry boolean NOT NULL DEFAULT false,
    worker name COLLATE "C" NOT NULL DEFAULT '',
    topic text COLLATE "C" NOT NULL,
    CONSTRAINT outbox_partitions_pkey PRIMARY KEY (topic, partition)
) USING heap;
COMMENT ON TABLE alvyn.outbox_partitions IS
    'How far the partitions of outboxes are; changed in place, never by UPDATE';
COMMENT ON COLUMN alvyn.outbox_partitions.lost IS
    'How often in a row the single event of the run was claimed without an answer';
COMMENT ON COLUMN alvyn.outbox_partitions."position" IS
    'Every event up to here is delivered, parked, or not wanted';
COMMENT ON COLUMN alvyn.outbox_partitions.run_count IS
    'Number of events that a worker still has to answer for; 0 when there is no run';
COMMENT ON COLUMN alvyn.outbox_partitions.run_hash IS
    'What tells the positions of these events from others';
COMMENT ON COLUMN alvyn.outbox_partitions.fence IS
    'Number of the last claim times 1024, and the partition';
COMMENT ON COLUMN alvyn.outbox_partitions.suspect_until IS
    'A run that ended here got no answer: its events are delivered one by one';
COMMENT ON COLUMN alvyn.outbox_partitions.run_rows IS
    'Number of events of the run that have rows in parked_deliveries';
COMMENT ON COLUMN alvyn.outbox_partitions.removal_no IS
    'A removal of history up to which the partition misses nothing, or has accepted it';

CREATE TABLE alvyn.parked_deliveries (
    topic text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    "position" bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    state "char" NOT NULL,
    attempts int NOT NULL,
    fence bigint,
    retry_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    since timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    error text COLLATE "C",
    CONSTRAINT parked_deliveries_pkey PRIMARY KEY (topic, partition, "position")
);
CREATE INDEX parked_deliveries_key_idx ON alvyn.parked_deliveries (topic, partition, key, "position");
CREATE INDEX parked_deliveries_retry_at_idx ON alvyn.parked_deliveries (topic, partition, retry_at) WHERE state = 'w';
COMMENT ON TABLE alvyn.parked_deliveries IS
    'Events of outboxes that failed, and those of the same key behind them';
COMMENT ON COLUMN alvyn.parked_deliveries.state IS
    'w = waits for its retry, h = held, d = dead letter, x = answered for';
COMMENT ON COLUMN alvyn.parked_deliveries.fence IS
    'Claim that delivered the event before it was held; null if none did';

SELECT pg_catalog.pg_extension_config_dump('alvyn.outbox_definitions', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.outbox_partitions', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.parked_deliveries', '');

CREATE TYPE alvyn.delivery AS (
    position bigint,
    stream_id text COLLATE "C",
    version bigint,
    id text COLLATE "C",
    type text COLLATE "C",
    "time" timestamptz,
    data jsonb,
    metadata jsonb,
    schema_version int,
    snapshot boolean,
    topic text COLLATE "C",
    key text COLLATE "C",
    attempt int,
    fence bigint,
    lease_until timestamptz
);
COMMENT ON TYPE alvyn.delivery IS
    'An event that a claim returns: to be answered for by its fence and position';

CREATE FUNCTION alvyn.partition_state(
    topic text,
    partition int,
    pending boolean
) RETURNS alvyn.outbox_partitions
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_partition_state';
COMMENT ON FUNCTION alvyn.partition_state(text, int, boolean) IS
    'The row of a partition as of one moment, with or without what this transaction will change';

CREATE FUNCTION alvyn.change_partition(
    before alvyn.outbox_partitions,
    after alvyn.outbox_partitions
) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_change_partition';
COMMENT ON FUNCTION alvyn.change_partition(alvyn.outbox_partitions, alvyn.outbox_partitions) IS
    'Change the row of a partition in place if nobody else has';

CREATE FUNCTION alvyn.change_at_commit(
    before alvyn.outbox_partitions,
    after alvyn.outbox_partitions
) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_change_at_commit';
COMMENT ON FUNCTION alvyn.change_at_commit(alvyn.outbox_partitions, alvyn.outbox_partitions) IS
    'Change the row of a partition in place once this transaction is committed';

CREATE FUNCTION alvyn.find_outbox(
    topic text
) RETURNS alvyn.outbox_definitions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions;
BEGIN
    SELECT * INTO v_outbox FROM alvyn.outbox_definitions d WHERE d.topic = find_outbox.topic;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('outbox "%s" does not exist', find_outbox.topic);
    END IF;
    RETURN v_outbox;
END
$$;
COMMENT ON FUNCTION alvyn.find_outbox(text) IS
    'The definition of an outbox';

CREATE FUNCTION alvyn.check_outbox(
    outbox alvyn.outbox_definitions
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name text;
    v_detail text;
BEGIN
    IF coalesce(octet_length(outbox.topic), 0) NOT BETWEEN 1 AND 512 THEN
        v_name := 'topic';
        v_detail := 'It must have 1 to 512 bytes.';
    ELSIF coalesce(outbox.partitions, 0) NOT BETWEEN 1 AND 1024 THEN
        v_name := 'partitions';
        v_detail := 'It must be 1 to 1024.';
    ELSIF array_position(outbox.types, NULL) IS NOT NULL THEN
        v_name := 'types';
        v_detail := 'It must not contain nulls.';
    ELSIF coalesce(outbox.max_attempts, 0) NOT BETWEEN 1 AND 1000 THEN
        v_name := 'max_attempts';
        v_detail := 'It must be 1 to 1000.';
    ELSIF coalesce(outbox.backoff, '-1 s') NOT BETWEEN '0' AND '1 day' THEN
        v_name := 'backoff';
        v_detail := 'It must be 0 to 1 day.';
    ELSIF coalesce(outbox.lease, '0') NOT BETWEEN '1 ms' AND '1 year' THEN
        v_name := 'lease';
        v_detail := 'It must be 1 ms to 1 year.';
    ELSIF coalesce(outbox.on_dead, '') NOT IN ('hold', 'flow') THEN
        v_name := 'on_dead';
        v_detail := 'It must be ''hold'' or ''flow''.';
    ELSIF outbox.governor IS NOT NULL
          AND NOT EXISTS (SELECT FROM alvyn.governor_definitions d WHERE d.key = outbox.governor) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('governor "%s" does not exist', outbox.governor);
    END IF;
    IF v_name IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" is out of range', v_name),
            DETAIL = v_detail;
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.check_outbox(alvyn.outbox_definitions) IS
    'Refuse the definition of an outbox that is out of range';

CREATE FUNCTION alvyn.create_outbox(
    topic text,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    start text DEFAULT 'beginning',
    partitions int DEFAULT 16,
    key text DEFAULT 'stream',
    max_attempts int DEFAULT 5,
    backoff interval DEFAULT '1 second',
    lease interval DEFAULT '30 seconds',
    on_dead text DEFAULT 'hold',
    governor text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions;
BEGIN
    v_outbox := ROW(create_outbox.topic, create_outbox.category, create_outbox.prefix, create_outbox.types,
                    create_outbox.partitions,
                    CASE WHEN create_outbox.key <> 'stream' THEN string_to_array(create_outbox.key, '.') END,
                    create_outbox.max_attempts, create_outbox.backoff, create_outbox.lease, create_outbox.on_dead,
                    create_outbox.governor, clock_timestamp());
    PERFORM alvyn.check_outbox(v_outbox);
    IF coalesce(create_outbox.key, '') = '' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "key" must be ''stream'' or a payload path';
    END IF;
    INSERT INTO alvyn.outbox_definitions SELECT v_outbox.*;
    INSERT INTO alvyn.outbox_partitions (topic, partition, "position", fence)
    SELECT create_outbox.topic, p, s, p
      FROM alvyn.consumer_start(create_outbox.start) s,
           generate_series(0, create_outbox.partitions - 1) p;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING
        ERRCODE = 'duplicate_object',
        MESSAGE = format('outbox "%s" already exists', create_outbox.topic);
END
$$;
COMMENT ON FUNCTION alvyn.create_outbox(text, text, text, text[], text, int, text, int, interval, interval, text, text) IS
    'Define an outbox: what it delivers, how it is divided, and what becomes of failures';

CREATE FUNCTION alvyn.drop_outbox(
    topic text
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.find_outbox(drop_outbox.topic);
    DELETE FROM alvyn.outbox_partitions p WHERE p.topic = drop_outbox.topic;
    DELETE FROM alvyn.parked_deliveries d WHERE d.topic = drop_outbox.topic;
    DELETE FROM alvyn.outbox_definitions d WHERE d.topic = drop_outbox.topic;
END
$$;
COMMENT ON FUNCTION alvyn.drop_outbox(text) IS
    'Forget an outbox, its positions and its parked events';

CREATE FUNCTION alvyn.reset_outbox(
    topic text,
    start text DEFAULT 'beginning'
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_position bigint := alvyn.consumer_start(reset_outbox.start);
    v_old alvyn.outbox_partitions;
BEGIN
    PERFORM alvyn.find_outbox(reset_outbox.topic);
    -- New rows with new fences, so that what workers have in hand is void.
    FOR v_old IN
        DELETE FROM alvyn.outbox_partitions p WHERE p.topic = reset_outbox.topic RETURNING p.*
    LOOP
        INSERT INTO alvyn.outbox_partitions (topic, partition, "position", fence)
        VALUES (v_old.topic, v_old.partition, v_position, v_old.fence + 1024);
    END LOOP;
    DELETE FROM alvyn.parked_deliveries d WHERE d.topic = reset_outbox.topic;
END
$$;
COMMENT ON FUNCTION alvyn.reset_outbox(text, text) IS
    'Set all positions of an outbox back, or forward, and forget its parked events';

CREATE FUNCTION alvyn.alter_outbox(
    topic text,
    max_attempts int DEFAULT NULL,
    backoff interval DEFAULT NULL,
    lease interval DEFAULT NULL,
    governor text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions := alvyn.find_outbox(alter_outbox.topic);
BEGIN
    v_outbox.max_attempts := coalesce(alter_outbox.max_attempts, v_outbox.max_attempts);
    v_outbox.backoff := coalesce(alter_outbox.backoff, v_outbox.backoff);
    v_outbox.lease := coalesce(alter_outbox.lease, v_outbox.lease);
    v_outbox.governor := nullif(coalesce(alter_outbox.governor, v_outbox.governor), '');
    PERFORM alvyn.check_outbox(v_outbox);
    UPDATE alvyn.outbox_definitions d
       SET max_attempts = v_outbox.max_attempts,
           backoff = v_outbox.backoff,
           lease = v_outbox.lease,
           governor = v_outbox.governor
     WHERE d.topic = alter_outbox.topic;
END
$$;
COMMENT ON FUNCTION alvyn.alter_outbox(text, int, interval, interval, text) IS
    'Change an outbox from the next claim on; null keeps a value, an empty governor takes it away';

CREATE FUNCTION alvyn.outbox_events(
    outbox alvyn.outbox_definitions,
    partition int,
    after bigint,
    max_count int
) RETURNS SETOF alvyn.event
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    SELECT *
      FROM alvyn.read_slots(outbox_events.after, outbox_events.max_count, (outbox_events.outbox).category,
                            (outbox_events.outbox).prefix, (outbox_events.outbox).types, false,
                            (outbox_events.outbox).key,
                            alvyn.first_slot(outbox_events.partition, (outbox_events.outbox).partitions),
                            alvyn.first_slot(outbox_events.partition + 1, (outbox_events.outbox).partitions) - 1, true);
END;
COMMENT ON FUNCTION alvyn.outbox_events(alvyn.outbox_definitions, int, bigint, int) IS
    'Events behind a position that a partition of an outbox wants';

CREATE FUNCTION alvyn.outbox_key(
    stream_id text,
    data jsonb,
    path text[]
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- A value that does not fit into an index is known by its hash.
    SELECT CASE
               WHEN outbox_key.path IS NULL THEN outbox_key.stream_id
               WHEN octet_length(outbox_key.data #>> outbox_key.path) > 512
                   THEN md5(outbox_key.data #>> outbox_key.path)
               ELSE coalesce(outbox_key.data #>> outbox_key.path, '')
           END;
END;
COMMENT ON FUNCTION alvyn.outbox_key(text, jsonb, text[]) IS
    'Key of an event in an outbox';

CREATE FUNCTION alvyn.is_blocked(
    outbox alvyn.outbox_definitions,
    partition int,
    key text,
    "position" bigint
) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT EXISTS (SELECT
                     FROM alvyn.parked_deliveries d
                    WHERE d.topic = (is_blocked.outbox).topic
                      AND d.partition = is_blocked.partition
                      AND d.key = is_blocked.key
                      AND d."position" < is_blocked."position"
                      AND (d.state IN ('w', 'h') OR d.state = 'd' AND (is_blocked.outbox).on_dead = 'hold'));
END;
COMMENT ON FUNCTION alvyn.is_blocked(alvyn.outbox_definitions, int, text, bigint) IS
    'Does an earlier event of its key keep an event back?';

CREATE FUNCTION alvyn.promote(
    outbox alvyn.outbox_definitions,
    partition int,
    key text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE alvyn.parked_deliveries d
       SET state = 'w',
           retry_at = clock_timestamp()
     WHERE d.topic = outbox.topic
       AND d.partition = promote.partition
       AND d."position" = (SELECT min(h."position")
                             FROM alvyn.parked_deliveries h
                            WHERE h.topic = outbox.topic
                              AND h.partition = promote.partition
                              AND h.key = promote.key
                              AND h.state = 'h')
       AND NOT alvyn.is_blocked(outbox, d.partition, d.key, d."position");
END
$$;
COMMENT ON FUNCTION alvyn.promote(alvyn.outbox_definitions, int, text) IS
    'Let the first held event of a key be delivered if nothing is before it';

-- To be called after reading, as a removal can commit before it.
CREATE FUNCTION alvyn.check_outbox_removals(
    outbox alvyn.outbox_definitions,
    state alvyn.outbox_partitions
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_missed record;
BEGIN
    SELECT * INTO v_missed
      FROM alvyn.missed_removal(state."position", state.removal_no, outbox.category, outbox.prefix, outbox.key,
                                alvyn.first_slot(state.partition, outbox.partitions),
                                alvyn.first_slot(state.partition + 1, outbox.partitions) - 1);
    IF v_missed."position" IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('history that outbox "%s" has not delivered was removed', outbox.topic),
            DETAIL = format('Partition %s is at position %s; events of stream "%s" were removed up to position %s.',
                            state.partition, state."position", v_missed.stream_id, v_missed."position"),
            HINT = 'To go on with what is left, use reset_outbox() with a start.',
            CONSTRAINT = 'history_removed';
    END IF;
    RETURN greatest(v_missed.last, state.removal_no);
END
$$;
COMMENT ON FUNCTION alvyn.check_outbox_removals(alvyn.outbox_definitions, alvyn.outbox_partitions) IS
    'Raise an error when events behind the position of a partition that it may want were removed; returns the last removal';

CREATE FUNCTION alvyn.begin_run(
    outbox alvyn.outbox_definitions,
    state alvyn.outbox_partitions,
    worker text
) RETURNS alvyn.outbox_partitions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    state.fence := state.fence + 1024;
    state.lease_until := clock_timestamp() + outbox.lease;
    state.worker := begin_run.worker;
    RETURN state;
END
$$;
COMMENT ON FUNCTION alvyn.begin_run(alvyn.outbox_definitions, alvyn.outbox_partitions, text) IS
    'The row of a partition with a new fence and lease';

CREATE FUNCTION alvyn.end_run(
    state alvyn.outbox_partitions
) RETURNS alvyn.outbox_partitions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    state.lost := 0;
    state.run_count := 0;
    state.run_hash := 0;
    state.run_rows := 0;
    state.lease_until := '-infinity';
    state.worker := '';
    RETURN state;
END
$$;
COMMENT ON FUNCTION alvyn.end_run(alvyn.outbox_partitions) IS
    'The row of a partition that nobody works on';

CREATE FUNCTION alvyn.claim_retry(
    outbox alvyn.outbox_definitions,
    partition int,
    worker text
) RETURNS SETOF alvyn.delivery
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_old alvyn.outbox_partitions := alvyn.partition_state(outbox.topic, claim_retry.partition, false);
    v_new alvyn.outbox_partitions;
    v_parked alvyn.parked_deliveries;
    v_event alvyn.event;
BEGIN
    IF v_old.lease_until > clock_timestamp() THEN
        RETURN;
    END IF;
    -- What got no answer comes first.  What lies behind the position waits
    -- for the events before it.
    SELECT * INTO v_parked
      FROM alvyn.parked_deliveries d
     WHERE d.topic = outbox.topic
       AND d.partition = claim_retry.partition
       AND d.state = 'w'
       AND d.retry_at <= clock_timestamp()
       AND d."position" <= v_old."position"
     ORDER BY v_old.run_retry AND v_old.run_count > 0 AND d."position" = v_old.run_last DESC, d.retry_at, d."position"
     LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_new := alvyn.begin_run(outbox, v_old, claim_retry.worker);
    v_new.lost := CASE WHEN v_old.run_retry AND v_old.run_count > 0 AND v_old.run_last = v_parked."position"
                       THEN v_old.lost + 1 ELSE 0 END;
    v_new.run_retry := true;
    v_new.run_last := v_parked."position";
    v_new.run_count := 1;
    v_new.run_hash := hashint8extended(v_parked."position", 0);
    v_new.run_rows := 0;
    SELECT * INTO v_event
      FROM alvyn.outbox_events(outbox, claim_retry.partition, v_parked."position" - 1, 1) e
     WHERE e.position = v_parked."position";
    IF NOT FOUND OR v_parked.attempts + v_new.lost >= outbox.max_attempts THEN
        -- The event is gone, or all that have tried it gave no answer.
        IF alvyn.change_partition(v_old, alvyn.end_run(v_new)) THEN
            UPDATE alvyn.parked_deliveries d
               SET state = 'd',
                   attempts = v_parked.attempts + v_new.lost,
                   error = CASE WHEN v_event.position IS NULL THEN 'the event was removed'
                                WHEN v_new.lost = 0 THEN d.error
                                ELSE 'no answer before the end of the lease' END,
                   since = clock_timestamp()
             WHERE d.topic = outbox.topic
               AND d.partition = claim_retry.partition
               AND d."position" = v_parked."position";
            PERFORM alvyn.promote(outbox, claim_retry.partition, v_parked.key);
        END IF;
        RETURN;
    END IF;
    IF alvyn.change_partition(v_old, v_new) THEN
        RETURN QUERY
        SELECT v_event.*, outbox.topic, v_parked.key, v_parked.attempts + v_new.lost + 1, v_new.fence,
               v_new.lease_until;
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.claim_retry(alvyn.outbox_definitions, int, text) IS
    'Take a partition with the parked event that is due';

CREATE FUNCTION alvyn.claim_new(
    outbox alvyn.outbox_definitions,
    partition int,
    worker text,
    max_count int,
    trouble boolean
) RETURNS SETOF alvyn.delivery
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_old alvyn.outbox_partitions := alvyn.partition_state(outbox.topic, claim_new.partition, false);
    v_new alvyn.outbox_partitions;
    v_single boolean;
    v_after bigint := v_old."position";
    v_end bigint;
    v_free alvyn.event[];
    v_held alvyn.event[] := '{}';
    v_page_held alvyn.event[];
    v_first int;
BEGIN
    IF v_old.lease_until > clock_timestamp() THEN
        RETURN;
    END IF;
    v_new := alvyn.begin_run(outbox, v_old, claim_new.worker);
    v_new.lost := CASE WHEN NOT v_old.run_retry AND v_old.run_count = 1 THEN v_old.lost + 1 ELSE 0 END;
    IF NOT v_old.run_retry AND v_old.run_count > 1 THEN
        v_new.suspect_until := v_old.run_last;
    END IF;
    v_single := v_new.lost > 0 OR v_old."position" < v_new.suspect_until;

    -- Events whose keys are blocked are parked; pages of nothing else are
    -- passed, some at a time.
    FOR v_page IN 1 .. 10 LOOP
        SELECT array_agg(e.event ORDER BY (e.event).position) FILTER (WHERE NOT e.known AND NOT e.blocked),
               array_agg(e.event ORDER BY (e.event).position) FILTER (WHERE NOT e.known AND e.blocked),
               max((e.event).position)
          INTO v_free, v_page_held, v_end
          FROM (SELECT r AS event,
                       trouble AND EXISTS (SELECT
                                             FROM alvyn.parked_deliveries d
                                            WHERE d.topic = outbox.topic
                                              AND d.partition = claim_new.partition
                                              AND d."position" = r.position) AS known,
                       trouble AND alvyn.is_blocked(outbox, claim_new.partition,
                                                    alvyn.outbox_key(r.stream_id, r.data, outbox.key),
                                                    r.position) AS blocked
                  FROM alvyn.outbox_events(outbox, claim_new.partition, v_after, claim_new.max_count) r) e;
        EXIT WHEN v_end IS NULL;
        v_after := v_end;
        v_held := v_held || coalesce(v_page_held, '{}');
        EXIT WHEN v_free IS NOT NULL;
    END LOOP;

    IF v_free IS NULL THEN
        -- Nothing to deliver: go on to where the filter may want something.
        IF v_end IS NULL THEN
            v_after := alvyn.skip(v_after, outbox.category, outbox.prefix, outbox.types, false, outbox.key,
                                  alvyn.first_slot(claim_new.partition, outbox.partitions),
                                  alvyn.first_slot(claim_new.partition + 1, outbox.partitions) - 1, true);
        END IF;
        v_new := alvyn.end_run(v_old);
        v_new.removal_no := alvyn.check_outbox_removals(outbox, v_old);
        v_new."position" := greatest(v_after, v_old."position");
        v_new.run_retry := false;
        IF NOT trouble THEN
            PERFORM alvyn.change_partition(v_old, v_new) WHERE v_new <> v_old;
            RETURN;
        END IF;
        PERFORM alvyn.park(outbox, claim_new.partition, v_held, 0, NULL);
        PERFORM alvyn.change_at_commit(v_old, v_new);
        RETURN;
    END IF;

    v_new.removal_no := alvyn.check_outbox_removals(outbox, v_old);
    IF v_single THEN
        v_free := v_free[1:1];
        v_after := v_free[1].position;
        v_held := ARRAY(SELECT h FROM unnest(v_held) h WHERE h.position < v_after ORDER BY h.position);
    END IF;
    v_first := v_new.lost + 1 + (v_free[1].position <= v_new.suspect_until)::int;
    v_new.run_retry := false;
    v_new.run_last := v_after;
    v_new.run_count := cardinality(v_free);
    v_new.run_hash := (SELECT bit_xor(hashint8extended(f.position, 0)) FROM unnest(v_free) f);
    v_new.run_rows := cardinality(v_held)
                      + CASE WHEN trouble THEN (SELECT count(*)
                                                  FROM alvyn.parked_deliveries d
                                                 WHERE d.topic = outbox.topic
                                                   AND d.partition = claim_new.partition
                                                   AND d."position" BETWEEN v_old."position" + 1 AND v_after) ELSE 0 END;
    IF v_first > outbox.max_attempts THEN
        -- All that have tried it gave no answer.  The position stays until
        -- somebody gets past it.
        v_new := alvyn.end_run(v_new);
        IF alvyn.change_partition(v_old, v_new) THEN
            PERFORM FROM alvyn.outbox_partitions p
              WHERE p.topic = outbox.topic AND p.partition = claim_new.partition
                FOR NO KEY UPDATE;
            INSERT INTO alvyn.parked_deliveries (topic, partition, "position", key, state, attempts, error)
            SELECT outbox.topic, claim_new.partition, v_free[1].position,
                   alvyn.outbox_key(v_free[1].stream_id, v_free[1].data, outbox.key), 'd', v_first - 1,
                   'no answer before the end of the lease';
            RETURN QUERY
            SELECT * FROM alvyn.claim_new(outbox, claim_new.partition, claim_new.worker, claim_new.max_count, true);
        END IF;
        RETURN;
    END IF;
    IF alvyn.change_partition(v_old, v_new) THEN
        PERFORM alvyn.park(outbox, claim_new.partition, v_held, 0, NULL);
        RETURN QUERY
        SELECT f.*, outbox.topic, alvyn.outbox_key(f.stream_id, f.data, outbox.key),
               v_new.lost + 1 + (f.position <= v_new.suspect_until)::int, v_new.fence, v_new.lease_until
          FROM unnest(v_free) f
         ORDER BY f.position;
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.claim_new(alvyn.outbox_definitions, int, text, int, boolean) IS
    'Take a partition with the events behind its position';

CREATE FUNCTION alvyn.park(
    outbox alvyn.outbox_definitions,
    partition int,
    events alvyn.event[],
    attempts int,
    fence bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO alvyn.parked_deliveries (topic, partition, "position", key, state, attempts, fence)
    SELECT outbox.topic, park.partition, e.position, alvyn.outbox_key(e.stream_id, e.data, outbox.key), 'h',
           park.attempts, park.fence
      FROM unnest(park.events) e;
END
$$;
COMMENT ON FUNCTION alvyn.park(alvyn.outbox_definitions, int, alvyn.event[], int, bigint) IS
    'Hold events behind others of their keys';

CREATE FUNCTION alvyn.claim(
    outbox text,
    worker text,
    max_count int DEFAULT 100
) RETURNS SETOF alvyn.delivery
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions := alvyn.find_outbox(claim.outbox);
    v_furthest bigint;
    v_last bigint;
    v_most int := claim.max_count;
    v_partition alvyn.outbox_partitions;
    v_trouble boolean;
    v_retry_first boolean;
    v_count int := 0;
BEGIN
    IF coalesce(octet_length(claim.worker), 0) NOT BETWEEN 1 AND 63 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "worker" is out of range',
            DETAIL = 'It must have 1 to 63 bytes.';
    END IF;
    IF coalesce(claim.max_count, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "max_count" is out of range',
            DETAIL = 'It must be 1 to 1000.';
    END IF;
    -- In this order: positions do not pass the last one.
    SELECT max(p."position") INTO v_furthest FROM alvyn.outbox_partitions p WHERE p.topic = claim.outbox;
    v_last := alvyn.last_position();
    IF v_furthest > v_last THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('position of outbox "%s" is ahead of the feed', claim.outbox),
            DETAIL = format('It is %s, the last position is %s.', v_furthest, v_last),
            HINT = 'The store was restored to an earlier time. Check what was delivered, then use reset_outbox().',
            CONSTRAINT = 'checkpoint';
    END IF;
    IF v_outbox.governor IS NOT NULL THEN
        v_most := alvyn.take_tokens(v_outbox.governor, v_most);
    END IF;
    FOR v_partition IN
        SELECT p.*
          FROM alvyn.outbox_partitions p
         WHERE p.topic = claim.outbox
           AND p.lease_until <= clock_timestamp()
           AND v_most > 0
           AND (p."position" < v_last
                OR p.run_count > 0
                OR EXISTS (SELECT
                             FROM alvyn.parked_deliveries d
                            WHERE d.topic = p.topic
                              AND d.partition = p.partition
                              AND d.state = 'w'
                              AND d.retry_at <= clock_timestamp()))
         ORDER BY random()
    LOOP
        v_trouble := EXISTS (SELECT
                               FROM alvyn.parked_deliveries d
                              WHERE d.topic = claim.outbox
                                AND d.partition = v_partition.partition);
        IF v_trouble THEN
            PERFORM FROM alvyn.outbox_partitions p
              WHERE p.topic = claim.outbox AND p.partition = v_partition.partition
                FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND;
            DELETE FROM alvyn.parked_deliveries d
             WHERE d.topic = claim.outbox
               AND d.partition = v_partition.partition
               AND d."position" <= v_partition."position"
               AND d.state = 'x';
        END IF;
        -- What got no answer comes first; otherwise retries and new events
        -- take turns.
        v_retry_first := v_trouble AND v_partition.run_retry = (v_partition.run_count > 0);
        IF v_retry_first THEN
            RETURN QUERY SELECT * FROM alvyn.claim_retry(v_outbox, v_partition.partition, claim.worker);
            GET DIAGNOSTICS v_count = ROW_COUNT;
            EXIT WHEN v_count > 0;
        END IF;
        RETURN QUERY
        SELECT * FROM alvyn.claim_new(v_outbox, v_partition.partition, claim.worker, v_most, v_trouble);
        GET DIAGNOSTICS v_count = ROW_COUNT;
        EXIT WHEN v_count > 0;
        IF v_trouble AND NOT v_retry_first AND v_partition.run_retry THEN
            RETURN QUERY SELECT * FROM alvyn.claim_retry(v_outbox, v_partition.partition, claim.worker);
            GET DIAGNOSTICS v_count = ROW_COUNT;
            EXIT WHEN v_count > 0;
        END IF;
    END LOOP;
    IF v_outbox.governor IS NOT NULL AND v_most > v_count THEN
        PERFORM alvyn.return_tokens(v_outbox.governor, v_most - v_count);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.claim(text, text, int) IS
    'Take events to deliver; nobody else gets them or later ones of their keys before the answer or the end of the lease';

CREATE FUNCTION alvyn.find_run(
    outbox alvyn.outbox_definitions,
    fence bigint
) RETURNS alvyn.outbox_partitions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_partition int := coalesce(find_run.fence, 0) & 1023;
    v_state alvyn.outbox_partitions;
BEGIN
    IF v_partition < outbox.partitions THEN
        v_state := alvyn.partition_state(outbox.topic, v_partition, true);
    END IF;
    IF v_state.fence IS DISTINCT FROM find_run.fence OR v_state.run_count = 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('claim %s of outbox "%s" is over', coalesce(find_run.fence::text, 'null'), outbox.topic),
            DETAIL = 'Every event of it was answered for, or another worker has claimed them.',
            CONSTRAINT = 'fence';
    END IF;
    RETURN v_state;
END
$$;
COMMENT ON FUNCTION alvyn.find_run(alvyn.outbox_definitions, bigint) IS
    'The row of the partition that a fence belongs to, refused when the fence is not the last one';

CREATE FUNCTION alvyn.lock_run(
    outbox alvyn.outbox_definitions,
    fence bigint
) RETURNS alvyn.outbox_partitions
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_state alvyn.outbox_partitions;
BEGIN
    PERFORM FROM alvyn.outbox_partitions p
      WHERE p.topic = outbox.topic AND p.partition = lock_run.fence & 1023
        FOR NO KEY UPDATE;
    v_state := alvyn.find_run(outbox, lock_run.fence);
    -- Rows of the run are missing when the transaction of the claim rolled
    -- back: to go on would lose their events.
    IF NOT v_state.run_retry
       AND v_state.run_rows <> (SELECT count(*)
                                  FROM alvyn.parked_deliveries d
                                 WHERE d.topic = outbox.topic
                                   AND d.partition = v_state.partition
                                   AND d."position" BETWEEN v_state."position" + 1 AND v_state.run_last) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('claim %s of outbox "%s" was rolled back', lock_run.fence, outbox.topic),
            DETAIL = 'Its events are delivered again when the lease is over.',
            CONSTRAINT = 'fence';
    END IF;
    RETURN v_state;
END
$$;
COMMENT ON FUNCTION alvyn.lock_run(alvyn.outbox_definitions, bigint) IS
    'find_run, with the row locked to the end of the transaction';

CREATE FUNCTION alvyn.refuse_position(
    outbox alvyn.outbox_definitions,
    fence bigint,
    "position" bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'invalid_parameter_value',
        MESSAGE = format('position %s is not of claim %s of outbox "%s"',
                         coalesce(refuse_position."position"::text, 'null'), refuse_position.fence, outbox.topic),
        DETAIL = 'The claim did not return it, or it was answered for.';
END
$$;
COMMENT ON FUNCTION alvyn.refuse_position(alvyn.outbox_definitions, bigint, bigint) IS
    'Raise the error for a position that a claim did not return';

CREATE FUNCTION alvyn.settle_retry(
    outbox alvyn.outbox_definitions,
    state alvyn.outbox_partitions
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_key text;
BEGIN
    DELETE FROM alvyn.parked_deliveries d
     WHERE d.topic = outbox.topic
       AND d.partition = state.partition
       AND d."position" = state.run_last
    RETURNING d.key INTO v_key;
    PERFORM alvyn.promote(outbox, state.partition, v_key);
    PERFORM alvyn.change_at_commit(state, alvyn.end_run(state));
END
$$;
COMMENT ON FUNCTION alvyn.settle_retry(alvyn.outbox_definitions, alvyn.outbox_partitions) IS
    'A parked event is delivered';

CREATE FUNCTION alvyn.settle(
    outbox alvyn.outbox_definitions,
    state alvyn.outbox_partitions,
    done bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_size int;
    v_bare bigint[];
    v_parked bigint[];
    v_open bigint[];
    v_new alvyn.outbox_partitions := state;
BEGIN
    v_size := state.run_count + (SELECT count(*)
                                   FROM alvyn.parked_deliveries d
                                  WHERE d.topic = outbox.topic
                                    AND d.partition = state.partition
                                    AND d."position" BETWEEN state."position" + 1 AND state.run_last);
    -- Delivered, and then held behind one that failed.
    v_parked := ARRAY(SELECT d."position"
                        FROM alvyn.parked_deliveries d
                       WHERE d.topic = outbox.topic
                         AND d.partition = state.partition
                         AND d."position" = ANY (settle.done)
                         AND d.state = 'h'
                         AND d.fence = state.fence);
    v_bare := ARRAY(SELECT e.position
                      FROM alvyn.outbox_events(outbox, state.partition, state."position", v_size) e
                     WHERE e.position <= state.run_last
                       AND NOT EXISTS (SELECT
                                         FROM alvyn.parked_deliveries d
                                        WHERE d.topic = outbox.topic
                                          AND d.partition = state.partition
                                          AND d."position" = e.position)
                     ORDER BY e.position);
    PERFORM alvyn.check_outbox_removals(outbox, state);
    PERFORM alvyn.refuse_position(outbox, state.fence, p)
       FROM unnest(settle.done) p
      WHERE p IS NULL OR NOT p = ANY (v_bare || v_parked);

    v_open := ARRAY(SELECT b FROM unnest(v_bare) b WHERE NOT b = ANY (settle.done) ORDER BY b);
    v_new."position" := coalesce(v_open[1] - 1, state.run_last);
    DELETE FROM alvyn.parked_deliveries d
     WHERE d.topic = outbox.topic
       AND d.partition = state.partition
       AND d."position" <= v_new."position"
       AND (d.state = 'x' OR d."position" = ANY (v_parked));
    UPDATE alvyn.parked_deliveries d
       SET state = 'x'
     WHERE d.topic = outbox.topic
       AND d.partition = state.partition
       AND d."position" = ANY (v_parked);
    INSERT INTO alvyn.parked_deliveries (topic, partition, "position", key, state, attempts)
    SELECT outbox.topic, state.partition, b, '', 'x', 0
      FROM unnest(v_bare) b
     WHERE b = ANY (settle.done)
       AND b > v_new."position";

    IF v_open = '{}' THEN
        v_new := alvyn.end_run(v_new);
    ELSE
        v_new.run_count := cardinality(v_open);
        v_new.run_hash := (SELECT bit_xor(hashint8extended(o, 0)) FROM unnest(v_open) o);
        v_new.run_rows := (SELECT count(*)
                             FROM alvyn.parked_deliveries d
                            WHERE d.topic = outbox.topic
                              AND d.partition = state.partition
                              AND d."position" BETWEEN v_new."position" + 1 AND state.run_last);
    END IF;
    PERFORM alvyn.change_at_commit(state, v_new);
END
$$;
COMMENT ON FUNCTION alvyn.settle(alvyn.outbox_definitions, alvyn.outbox_partitions, bigint[]) IS
    'Move the position of a partition over what is delivered or parked';

CREATE FUNCTION alvyn.complete(
    outbox text,
    fence bigint,
    positions bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions := alvyn.find_outbox(complete.outbox);
    v_state alvyn.outbox_partitions := alvyn.find_run(v_outbox, complete.fence);
    v_new alvyn.outbox_partitions;
    v_count bigint;
    v_hash bigint;
BEGIN
    SELECT count(*), bit_xor(hashint8extended(p, 0)) INTO v_count, v_hash
      FROM (SELECT DISTINCT p FROM unnest(complete.positions) p) p;
    IF v_count = 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "positions" must not be empty';
    END IF;
    IF v_count = v_state.run_count AND v_hash = v_state.run_hash AND v_state.run_rows = 0
       AND NOT v_state.run_retry AND array_position(complete.positions, NULL) IS NULL THEN
        -- The whole run, and no trouble: nothing but the position changes.
        v_new := alvyn.end_run(v_state);
        v_new."position" := v_state.run_last;
        PERFORM alvyn.change_at_commit(v_state, v_new);
        RETURN;
    END IF;
    v_state := alvyn.lock_run(v_outbox, complete.fence);
    IF v_state.run_retry THEN
        PERFORM alvyn.refuse_position(v_outbox, complete.fence, p)
           FROM unnest(complete.positions) p
          WHERE p IS DISTINCT FROM v_state.run_last;
        PERFORM alvyn.settle_retry(v_outbox, v_state);
    ELSE
        PERFORM alvyn.settle(v_outbox, v_state, complete.positions);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.complete(text, bigint, bigint[]) IS
    'Events of a claim are delivered; holds once this transaction is committed';

CREATE FUNCTION alvyn.retry_time(
    outbox alvyn.outbox_definitions,
    attempts int,
    retry_in interval
) RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT clock_timestamp()
           + coalesce(retry_time.retry_in,
                      least((retry_time.outbox).backoff * 2 ^ least(retry_time.attempts - 1, 30),
                            greatest('1 hour'::interval, (retry_time.outbox).backoff)));
END;
COMMENT ON FUNCTION alvyn.retry_time(alvyn.outbox_definitions, int, interval) IS
    'When an event is tried again that has failed so often';

CREATE FUNCTION alvyn.fail_retry(
    outbox alvyn.outbox_definitions,
    state alvyn.outbox_partitions,
    error text,
    retry_in interval
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_key text;
BEGIN
    UPDATE alvyn.parked_deliveries d
       SET state = CASE WHEN d.attempts + state.lost + 1 >= outbox.max_attempts THEN 'd'
                        WHEN alvyn.is_blocked(outbox, d.partition, d.key, d."position") THEN 'h'
                        ELSE 'w' END,
           attempts = d.attempts + state.lost + 1,
           retry_at = alvyn.retry_time(outbox, d.attempts + state.lost + 1, fail_retry.retry_in),
           since = CASE WHEN d.attempts + state.lost + 1 >= outbox.max_attempts THEN clock_timestamp() ELSE d.since END,
           error = fail_retry.error
     WHERE d.topic = outbox.topic
       AND d.partition = state.partition
       AND d."position" = state.run_last
    RETURNING d.key INTO v_key;
    PERFORM alvyn.promote(outbox, state.partition, v_key);
    PERFORM alvyn.change_at_commit(state, alvyn.end_run(state));
END
$$;
COMMENT ON FUNCTION alvyn.fail_retry(alvyn.outbox_definitions, alvyn.outbox_partitions, text, interval) IS
    'A parked event failed again';

CREATE FUNCTION alvyn.fail_new(
    outbox alvyn.outbox_definitions,
    state alvyn.outbox_partitions,
    "position" bigint,
    error text,
    retry_in interval
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_event alvyn.event;
    v_key text;
    v_attempts int := state.lost + 1 + (fail_new."position" <= state.suspect_until)::int;
    v_dead boolean := v_attempts >= outbox.max_attempts;
    v_size int := state.run_count + state.run_rows;
BEGIN
    -- One that another failure holds already stays behind it.
    UPDATE alvyn.parked_deliveries d
       SET error = fail_new.error
     WHERE d.topic = outbox.topic
       AND d.partition = state.partition
       AND d."position" = fail_new."position"
       AND d.state = 'h'
       AND d.fence = state.fence;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT e.* INTO v_event
      FROM alvyn.outbox_events(outbox, state.partition, fail_new."position" - 1, 1) e
     WHERE e.position = fail_new."position"
       AND e.position > state."position"
       AND e.position <= state.run_last
       AND NOT EXISTS (SELECT
                         FROM alvyn.parked_deliveries d
                        WHERE d.topic = outbox.topic
                          AND d.partition = state.partition
                          AND d."position" = e.position);
    IF NOT FOUND THEN
        PERFORM alvyn.check_outbox_removals(outbox, state);
        PERFORM alvyn.refuse_position(outbox, state.fence, fail_new."position");
    END IF;
    v_key := alvyn.outbox_key(v_event.stream_id, v_event.data, outbox.key);
    INSERT INTO alvyn.parked_deliveries (topic, partition, "position", key, state, attempts, retry_at, error)
    VALUES (outbox.topic, state.partition, fail_new."position", v_key, CASE WHEN v_dead THEN 'd' ELSE 'w' END,
            v_attempts, alvyn.retry_time(outbox, v_attempts, fail_new.retry_in), fail_new.error);
    IF NOT v_dead OR outbox.on_dead = 'hold' THEN
        -- This attempt was not theirs.
        PERFORM alvyn.park(outbox, state.partition, ARRAY(
            SELECT e
              FROM alvyn.outbox_events(outbox, state.partition, state."position", v_size) e
             WHERE e.position > fail_new."position"
               AND e.position <= state.run_last
               AND alvyn.outbox_key(e.stream_id, e.data, outbox.key) = v_key
               AND NOT EXISTS (SELECT
                                 FROM alvyn.parked_deliveries d
                                WHERE d.topic = outbox.topic
                                  AND d.partition = state.partition
                                  AND d."position" = e.position)), v_attempts - 1, state.fence);
        UPDATE alvyn.parked_deliveries d
           SET state = 'h'
         WHERE d.topic = outbox.topic
           AND d.partition = state.partition
           AND d.key = v_key
           AND d."position" > fail_new."position"
           AND d.state = 'w';
    END IF;
    PERFORM alvyn.settle(outbox, state, '{}');
END
$$;
COMMENT ON FUNCTION alvyn.fail_new(alvyn.outbox_definitions, alvyn.outbox_partitions, bigint, text, interval) IS
    'An event failed: park it and those of its key behind it';

CREATE FUNCTION alvyn.fail(
    outbox text,
    fence bigint,
    "position" bigint,
    error text,
    retry_in interval DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions := alvyn.find_outbox(fail.outbox);
    v_state alvyn.outbox_partitions;
BEGIN
    IF fail.retry_in NOT BETWEEN '0' AND '1 year' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "retry_in" is out of range',
            DETAIL = 'It must be 0 to 1 year.';
    END IF;
    v_state := alvyn.lock_run(v_outbox, fail.fence);
    IF fail."position" IS NULL OR v_state.run_retry AND fail."position" <> v_state.run_last THEN
        PERFORM alvyn.refuse_position(v_outbox, fail.fence, fail."position");
    ELSIF v_state.run_retry THEN
        PERFORM alvyn.fail_retry(v_outbox, v_state, fail.error, fail.retry_in);
    ELSE
        PERFORM alvyn.fail_new(v_outbox, v_state, fail."position", fail.error, fail.retry_in);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.fail(text, bigint, bigint, text, interval) IS
    'An event of a claim could not be delivered: try it again later, or give it up as a dead letter';

CREATE FUNCTION alvyn.lock_dead_letter(
    outbox alvyn.outbox_definitions,
    "position" bigint
) RETURNS alvyn.parked_deliveries
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_parked alvyn.parked_deliveries;
BEGIN
    PERFORM FROM alvyn.outbox_partitions p
      WHERE p.topic = outbox.topic
        AND p.partition IN (SELECT d.partition
                              FROM alvyn.parked_deliveries d
                             WHERE d.topic = outbox.topic AND d."position" = lock_dead_letter."position")
        FOR NO KEY UPDATE;
    SELECT * INTO v_parked
      FROM alvyn.parked_deliveries d
     WHERE d.topic = outbox.topic
       AND d."position" = lock_dead_letter."position"
       AND d.state = 'd';
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('outbox "%s" has no dead letter at position %s', outbox.topic,
                             coalesce(lock_dead_letter."position"::text, 'null'));
    END IF;
    RETURN v_parked;
END
$$;
COMMENT ON FUNCTION alvyn.lock_dead_letter(alvyn.outbox_definitions, bigint) IS
    'A dead letter, with its partition locked to the end of the transaction';

CREATE FUNCTION alvyn.replay_dead_letter(
    outbox text,
    "position" bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions := alvyn.find_outbox(replay_dead_letter.outbox);
    v_parked alvyn.parked_deliveries := alvyn.lock_dead_letter(v_outbox, replay_dead_letter."position");
BEGIN
    -- Behind an earlier one of its key, before later ones.
    UPDATE alvyn.parked_deliveries d
       SET state = CASE WHEN alvyn.is_blocked(v_outbox, d.partition, d.key, d."position") THEN 'h' ELSE 'w' END,
           attempts = 0,
           retry_at = clock_timestamp()
     WHERE d.topic = v_parked.topic
       AND d.partition = v_parked.partition
       AND d."position" = v_parked."position";
    UPDATE alvyn.parked_deliveries d
       SET state = 'h'
     WHERE d.topic = v_parked.topic
       AND d.partition = v_parked.partition
       AND d.key = v_parked.key
       AND d."position" > v_parked."position"
       AND d.state = 'w';
END
$$;
COMMENT ON FUNCTION alvyn.replay_dead_letter(text, bigint) IS
    'Deliver a dead letter again, before later events of its key that have not gone out';

CREATE FUNCTION alvyn.skip_dead_letter(
    outbox text,
    "position" bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_outbox alvyn.outbox_definitions := alvyn.find_outbox(skip_dead_letter.outbox);
    v_parked alvyn.parked_deliveries := alvyn.lock_dead_letter(v_outbox, skip_dead_letter."position");
BEGIN
    -- Before the position of the partition the row is all that tells that
    -- the event is done with.
    UPDATE alvyn.parked_deliveries d
       SET state = 'x'
     WHERE d.topic = v_parked.topic
       AND d.partition = v_parked.partition
       AND d."position" = v_parked."position";
    DELETE FROM alvyn.parked_deliveries d
     WHERE d.topic = v_parked.topic
       AND d.partition = v_parked.partition
       AND d."position" = v_parked."position"
       AND d."position" <= (alvyn.partition_state(v_parked.topic, v_parked.partition, true))."position";
    PERFORM alvyn.promote(v_outbox, v_parked.partition, v_parked.key);
END
$$;
COMMENT ON FUNCTION alvyn.skip_dead_letter(text, bigint) IS
    'Give a dead letter up for good and let the events behind it go';

CREATE VIEW alvyn.outboxes AS
SELECT p.topic,
       p.partition,
       p."position",
       greatest(alvyn.last_position() - p."position", 0) AS lag_positions,
       CASE WHEN p.lease_until > pg_catalog.clock_timestamp() THEN p.run_count ELSE 0 END AS in_flight,
       nullif(p.worker::text, '') COLLATE "C" AS worker,
       nullif(p.lease_until, '-infinity') AS lease_until,
       d.parked,
       d.dead
  FROM alvyn.outbox_partitions p
 CROSS JOIN LATERAL (SELECT pg_catalog.count(*) FILTER (WHERE d.state IN ('w', 'h')) AS parked,
                            pg_catalog.count(*) FILTER (WHERE d.state = 'd') AS dead
                       FROM alvyn.parked_deliveries d
                      WHERE d.topic = p.topic
                        AND d.partition = p.partition) d;
COMMENT ON VIEW alvyn.outboxes IS
    'The partitions of all outboxes: position, what is in hand and with whom, what is parked';

CREATE VIEW alvyn.dead_letters AS
SELECT d.topic,
       d.key,
       d."position",
       s.stream_id,
       e.version,
       e.type,
       d.attempts,
       d.error,
       d.since
  FROM alvyn.parked_deliveries d
  LEFT JOIN alvyn.events e ON e.position = d."position"
  LEFT JOIN alvyn.streams s ON s.stream_no = e.stream_no
 WHERE d.state = 'd';
COMMENT ON VIEW alvyn.dead_letters IS
    'Events that outboxes have given up';
