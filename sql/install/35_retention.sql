-- Removing history: the beginning of streams, by hand or by retention.
--
-- A removal locks the stream as an append does, raises its version floor,
-- notes the highest position that goes, and then deletes, all in one
-- transaction.  Numbers of removals rise in the order of their commits, since
-- one transaction removes at a time, so that a consumer can accept all
-- removals up to a number.

CREATE TABLE alvyn.removals (
    removal_no bigint NOT NULL,
    stream_no bigint NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT removals_pkey PRIMARY KEY (removal_no),
    CONSTRAINT removals_stream_no_key UNIQUE (stream_no)
);
CREATE INDEX removals_position_idx ON alvyn.removals ("position");
COMMENT ON TABLE alvyn.removals IS
    'For each stream that lost events: its last removal and the highest position that was removed';

CREATE TABLE alvyn.retentions (
    prefix text COLLATE "C" NOT NULL,
    max_age interval,
    max_count bigint,
    next_stream text COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT retentions_pkey PRIMARY KEY (prefix)
);
COMMENT ON TABLE alvyn.retentions IS
    'How long the events of the streams with a prefix are kept';
COMMENT ON COLUMN alvyn.retentions.next_stream IS
    'Where the next call of maintain() goes on';

CREATE TABLE alvyn.tombstones (
    stream_id text COLLATE "C" NOT NULL,
    CONSTRAINT tombstones_pkey PRIMARY KEY (stream_id)
);
COMMENT ON TABLE alvyn.tombstones IS
    'Tombstoned streams whose events are still to be removed';

SELECT pg_catalog.pg_extension_config_dump('alvyn.removals', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.retentions', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.tombstones', '');

CREATE FUNCTION alvyn.lock_stream(
    stream_id text,
    wait boolean
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_lock_stream';
COMMENT ON FUNCTION alvyn.lock_stream(text, boolean) IS
    'Lock a stream as an append does; its version, or null when there is none or, without waiting, somebody has it';

CREATE FUNCTION alvyn.max_removal() RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_max_removal';
COMMENT ON FUNCTION alvyn.max_removal() IS
    'Number of the last removal, whatever the snapshot of the transaction';

CREATE FUNCTION alvyn.lock_existing(
    stream_id text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_head bigint := alvyn.lock_stream(lock_existing.stream_id, true);
BEGIN
    IF v_head IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('stream "%s" does not exist', lock_existing.stream_id);
    END IF;
    RETURN v_head;
END
$$;
COMMENT ON FUNCTION alvyn.lock_existing(text) IS
    'Lock a stream and return its version, an error when there is none';

CREATE FUNCTION alvyn.snapshot_limit(
    stream_id text
) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pg_catalog.min(coalesce(m.version, 0))
      FROM alvyn.snapshots d
      LEFT JOIN alvyn.snapshot_marks m ON m.snapshot_name = d.name
                                      AND m.stream_id = snapshot_limit.stream_id
                                      AND m.usable
     WHERE pg_catalog.starts_with(snapshot_limit.stream_id, d.stream_prefix || '-');
END;
COMMENT ON FUNCTION alvyn.snapshot_limit(text) IS
    'Version before which a stream can be truncated without losing a state: the oldest of its newest snapshots; null when none is defined';

-- The stream is locked by the caller.
CREATE FUNCTION alvyn.raise_floor(
    stream_id text,
    version bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_stream_no bigint;
    v_floor bigint;
    v_position bigint;
    v_count bigint;
BEGIN
    SELECT s.stream_no, s.version_floor INTO v_stream_no, v_floor
      FROM alvyn.streams s
     WHERE s.stream_id = raise_floor.stream_id
       FOR NO KEY UPDATE;
    IF coalesce(raise_floor.version, 0) <= v_floor THEN
        RETURN 0;
    END IF;
    LOCK TABLE alvyn.removals IN SHARE ROW EXCLUSIVE MODE;
    UPDATE alvyn.streams s
       SET version_floor = raise_floor.version
     WHERE s.stream_no = v_stream_no;
    SELECT e.position INTO v_position
      FROM alvyn.events e
     WHERE e.stream_no = v_stream_no
       AND e.version <= raise_floor.version
     ORDER BY e.version DESC
     LIMIT 1;
    INSERT INTO alvyn.removals AS r (removal_no, stream_no, "position")
    VALUES (alvyn.max_removal() + 1, v_stream_no, v_position)
    ON CONFLICT (stream_no) DO UPDATE
       SET removal_no = excluded.removal_no,
           "position" = excluded."position";
    DELETE FROM alvyn.events e
     WHERE e.stream_no = v_stream_no
       AND e.version <= raise_floor.version;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.raise_floor(text, bigint) IS
    'Remove the events of a locked stream up to a version; returns how many';

CREATE FUNCTION alvyn.truncate_stream(
    stream_id text,
    before_version bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_head bigint := alvyn.lock_existing(truncate_stream.stream_id);
    v_limit bigint := alvyn.snapshot_limit(truncate_stream.stream_id);
BEGIN
    IF coalesce(truncate_stream.before_version, 0) NOT BETWEEN 1 AND v_head + 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "before_version" is out of range',
            DETAIL = format('It is %s, the stream is at version %s.',
                            coalesce(truncate_stream.before_version::text, 'null'), v_head);
    END IF;
    IF truncate_stream.before_version > 1 AND truncate_stream.before_version > v_limit THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('stream "%s" has no snapshot at version %s or later',
                             truncate_stream.stream_id, truncate_stream.before_version),
            DETAIL = 'Without it the state of the stream would be lost.',
            HINT = 'Truncate before an earlier version, or take the snapshot first, with take_snapshot() or by further appends.';
    END IF;
    RETURN alvyn.raise_floor(truncate_stream.stream_id, truncate_stream.before_version - 1);
END
$$;
COMMENT ON FUNCTION alvyn.truncate_stream(text, bigint) IS
    'Remove the events of a stream before a version; returns how many';

CREATE FUNCTION alvyn.set_stream_state(
    stream_id text,
    state text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.lock_existing(set_stream_state.stream_id);
    UPDATE alvyn.streams s
       SET state = set_stream_state.state::"char"
     WHERE s.stream_id = set_stream_state.stream_id
       AND s.state IN ('a', 'z');
    IF NOT FOUND AND set_stream_state.state <> 't' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('stream "%s" is tombstoned', set_stream_state.stream_id),
            DETAIL = 'It stays so for ever.';
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.set_stream_state(text, text) IS
    'Lock a stream and set its state, an error when it is tombstoned';

CREATE FUNCTION alvyn.archive_stream(
    stream_id text
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT alvyn.set_stream_state(archive_stream.stream_id, 'z');
END;
COMMENT ON FUNCTION alvyn.archive_stream(text) IS
    'Close a stream: it takes no more events and can be loaded';

CREATE FUNCTION alvyn.unarchive_stream(
    stream_id text
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT alvyn.set_stream_state(unarchive_stream.stream_id, 'a');
END;
COMMENT ON FUNCTION alvyn.unarchive_stream(text) IS
    'Open an archived stream again';

CREATE FUNCTION alvyn.tombstone_stream(
    stream_id text
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT alvyn.set_stream_state(tombstone_stream.stream_id, 't');
    INSERT INTO alvyn.tombstones (stream_id) VALUES (tombstone_stream.stream_id) ON CONFLICT DO NOTHING;
END;
COMMENT ON FUNCTION alvyn.tombstone_stream(text) IS
    'Close a stream for ever; maintain() removes its events';

CREATE FUNCTION alvyn.set_retention(
    prefix text,
    max_age interval,
    max_count bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_argument text;
BEGIN
    IF octet_length(set_retention.prefix) <= 512 IS NOT TRUE THEN
        v_argument := 'prefix';
    ELSIF set_retention.max_age < '0' THEN
        v_argument := 'max_age';
    ELSIF set_retention.max_count < 0 THEN
        v_argument := 'max_count';
    END IF;
    IF v_argument IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" is out of range', v_argument),
            DETAIL = 'A prefix has up to 512 bytes, an age or a count is not negative.';
    END IF;
    IF num_nonnulls(set_retention.max_age, set_retention.max_count) = 0 THEN
        DELETE FROM alvyn.retentions r WHERE r.prefix = set_retention.prefix;
        RETURN;
    END IF;
    INSERT INTO alvyn.retentions AS r (prefix, max_age, max_count)
    VALUES (set_retention.prefix, set_retention.max_age, set_retention.max_count)
    ON CONFLICT ON CONSTRAINT retentions_pkey DO UPDATE
       SET max_age = excluded.max_age,
           max_count = excluded.max_count,
           next_stream = '';
END
$$;
COMMENT ON FUNCTION alvyn.set_retention(text, interval, bigint) IS
    'How long maintain() keeps the events of the streams with a prefix; two nulls end it';

-- Up to which version a policy lets go, looking at up to max_rows events.
CREATE FUNCTION alvyn.retained_from(
    stream_no bigint,
    floor bigint,
    head bigint,
    max_age interval,
    max_count bigint,
    max_rows bigint
) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT least(retained_from.floor + retained_from.max_rows,
                 retained_from.head,
                 greatest(retained_from.head - retained_from.max_count,
                          CASE WHEN retained_from.max_age IS NOT NULL
                               THEN coalesce(young.version - 1, retained_from.head)
                          END))
      FROM (SELECT) one
      LEFT JOIN (SELECT e.version
                   FROM alvyn.events e
                  WHERE e.stream_no = retained_from.stream_no
                    AND e.version <= retained_from.floor + retained_from.max_rows
                    AND e."time" >= pg_catalog.clock_timestamp() - retained_from.max_age
                  ORDER BY e.version
                  LIMIT 1) young ON true;
END;
COMMENT ON FUNCTION alvyn.retained_from(bigint, bigint, bigint, interval, bigint, bigint) IS
    'Last version of a stream that a policy lets go';

-- A stream that somebody is appending to is left for the next time.
CREATE FUNCTION alvyn.retain_stream(
    stream_id text,
    max_age interval,
    max_count bigint,
    max_rows bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10ms'
AS $$
DECLARE
    v_stream alvyn.streams;
    v_version bigint;
BEGIN
    SELECT * INTO v_stream FROM alvyn.streams s WHERE s.stream_id = retain_stream.stream_id;
    v_version := alvyn.retained_from(v_stream.stream_no, v_stream.version_floor,
                                     alvyn.stream_version(retain_stream.stream_id), retain_stream.max_age,
                                     retain_stream.max_count, retain_stream.max_rows);
    IF v_stream.state <> 't' THEN
        v_version := least(v_version, alvyn.snapshot_limit(retain_stream.stream_id) - 1);
    END IF;
    IF v_version <= v_stream.version_floor THEN
        RETURN 0;
    END IF;
    IF alvyn.lock_stream(retain_stream.stream_id, false) IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN alvyn.raise_floor(retain_stream.stream_id, v_version);
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION alvyn.retain_stream(text, interval, bigint, bigint) IS
    'Apply a policy to a stream; returns how many events went, null when the stream is busy';

CREATE FUNCTION alvyn.maintain_retentions(
    max_rows bigint,
    OUT rows bigint,
    OUT more boolean
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_left bigint := maintain_retentions.max_rows;
    v_looks bigint := maintain_retentions.max_rows;
    v_policy alvyn.retentions;
    v_stream text;
    v_next text;
    v_count bigint;
BEGIN
    more := false;
    FOR v_policy IN SELECT * FROM alvyn.retentions r ORDER BY r.next_stream = '', r.prefix FOR UPDATE SKIP LOCKED LOOP
        v_next := '';
        FOR v_stream IN
            SELECT s.stream_id
              FROM alvyn.streams s
             WHERE s.stream_id >= greatest(v_policy.prefix, v_policy.next_stream)
               AND s.stream_id < alvyn.prefix_end(v_policy.prefix)
             ORDER BY s.stream_id
        LOOP
            IF v_looks <= 0 THEN
                v_next := v_stream;
                more := true;
                EXIT;
            END IF;
            v_looks := v_looks - 1;
            CONTINUE WHEN EXISTS (SELECT FROM alvyn.retentions l
                                   WHERE starts_with(v_stream, l.prefix)
                                     AND length(l.prefix) > length(v_policy.prefix));
            v_count := alvyn.retain_stream(v_stream, v_policy.max_age, v_policy.max_count, v_left);
            v_left := v_left - coalesce(v_count, 0);
            IF v_left <= 0 THEN
                -- There may be more of this stream.
                v_next := v_stream;
                more := true;
                EXIT;
            END IF;
        END LOOP;
        UPDATE alvyn.retentions r SET next_stream = v_next WHERE r.prefix = v_policy.prefix AND r.next_stream <> v_next;
        EXIT WHEN more;
    END LOOP;
    rows := maintain_retentions.max_rows - v_left;
END
$$;
COMMENT ON FUNCTION alvyn.maintain_retentions(bigint) IS
    'One batch of retention; how many events went, and whether there is more to look at';

CREATE FUNCTION alvyn.maintain_tombstones(
    max_rows bigint,
    OUT rows bigint,
    OUT more boolean
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_left bigint := maintain_tombstones.max_rows;
    v_stream text;
    v_count bigint;
BEGIN
    FOR v_stream IN SELECT t.stream_id FROM alvyn.tombstones t ORDER BY t.stream_id FOR UPDATE SKIP LOCKED LOOP
        EXIT WHEN v_left <= 0;
        v_count := alvyn.retain_stream(v_stream, NULL, 0, v_left);
        v_left := v_left - coalesce(v_count, 0);
        DELETE FROM alvyn.tombstones t WHERE t.stream_id = v_stream AND v_left > 0 AND v_count IS NOT NULL;
    END LOOP;
    rows := maintain_tombstones.max_rows - v_left;
    more := EXISTS (SELECT FROM alvyn.tombstones);
END
$$;
COMMENT ON FUNCTION alvyn.maintain_tombstones(bigint) IS
    'One batch of events of tombstoned streams; how many went, and whether there are more';
