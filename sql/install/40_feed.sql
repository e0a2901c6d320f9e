-- The feed: all events in the order of their positions.

CREATE FUNCTION alvyn.read_slots(
    after bigint,
    max_count int,
    category text,
    prefix text,
    types text[],
    snapshots boolean,
    key text[],
    first_slot int,
    last_slot int,
    wait boolean
) RETURNS SETOF alvyn.event
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 500
AS 'MODULE_PATHNAME', 'alvyn_read';
COMMENT ON FUNCTION alvyn.read_slots(bigint, int, text, text, text[], boolean, text[], int, int, boolean) IS
    'The feed behind a position, filtered, of the streams in a range of slots';

-- Stable, so that the planner puts its body in place of the call: one copy of
-- the rows less.
CREATE FUNCTION alvyn.read(
    after bigint DEFAULT 0,
    max_count int DEFAULT 500,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    snapshots boolean DEFAULT false,
    wait boolean DEFAULT true
) RETURNS SETOF alvyn.event
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 500
BEGIN ATOMIC
    SELECT * FROM alvyn.read_slots(read.after, read.max_count, read.category, read.prefix,
                                   read.types, read.snapshots, NULL, NULL, NULL, read.wait);
END;
COMMENT ON FUNCTION alvyn.read(bigint, int, text, text, text[], boolean, boolean) IS
    'The feed behind a position: every committed event once, in the order of the positions';

CREATE FUNCTION alvyn.skip(
    after bigint,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    snapshots boolean DEFAULT false,
    key text[] DEFAULT NULL,
    first_slot int DEFAULT NULL,
    last_slot int DEFAULT NULL,
    wait boolean DEFAULT true
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_skip';
COMMENT ON FUNCTION alvyn.skip(bigint, text, text, text[], boolean, text[], int, int, boolean) IS
    'Last position up to which a reader that has come to "after" misses nothing';

CREATE FUNCTION alvyn.resolved_from(
    "position" bigint,
    wait boolean
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_resolved_from';
COMMENT ON FUNCTION alvyn.resolved_from(bigint, boolean) IS
    'Last final position, searched from one that is known to be final';

CREATE FUNCTION alvyn.last_position() RETURNS bigint
LANGUAGE c VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_last_position';
COMMENT ON FUNCTION alvyn.last_position() IS
    'Last position that was handed out, whatever has become of it';

CREATE FUNCTION alvyn.resolved_position(
    wait boolean DEFAULT true
) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT alvyn.resolved_from(0, resolved_position.wait);
END;
COMMENT ON FUNCTION alvyn.resolved_position(boolean) IS
    'Last position up to which the feed is final';

CREATE FUNCTION alvyn.wait_position(
    after bigint,
    timeout interval,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    snapshots boolean DEFAULT false,
    key text[] DEFAULT NULL,
    first_slot int DEFAULT NULL,
    last_slot int DEFAULT NULL
) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_wait';
COMMENT ON FUNCTION alvyn.wait_position(bigint, interval, text, text, text[], boolean, text[], int, int) IS
    'Sleep until the feed has an event behind a position; false when the time is over';

CREATE FUNCTION alvyn.waiters() RETURNS int
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'alvyn_waiters';
COMMENT ON FUNCTION alvyn.waiters() IS
    'Sessions of this database that an append will wake; null unless the library is preloaded';

CREATE FUNCTION alvyn.read_backwards(
    before bigint DEFAULT NULL,
    max_count int DEFAULT 500,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    snapshots boolean DEFAULT false
) RETURNS SETOF alvyn.event
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 500
AS 'MODULE_PATHNAME', 'alvyn_read_backwards';
COMMENT ON FUNCTION alvyn.read_backwards(bigint, int, text, text, text[], boolean) IS
    'The feed before a position, or from its end, the newest event first';

CREATE FUNCTION alvyn.position_at(
    "time" timestamptz
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_position_at';
COMMENT ON FUNCTION alvyn.position_at(timestamptz) IS
    'Last position before all events of a time or later';

-- Pages of a set of streams.  The cursor names the position and the
-- direction and carries digests of the set and of itself, against mistakes.

CREATE FUNCTION alvyn.read_streams(
    stream_ids text[],
    max_count int,
    "position" bigint,
    descending boolean
) RETURNS SETOF alvyn.event
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100
AS 'MODULE_PATHNAME', 'alvyn_read_streams';
COMMENT ON FUNCTION alvyn.read_streams(text[], int, bigint, boolean) IS
    'Events of a set of streams behind or before a position';

CREATE FUNCTION alvyn.page_digest(
    value text,
    digits int
) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.left(
    pg_catalog.encode(
        pg_catalog.sha256(pg_catalog.convert_to(page_digest.value, pg_catalog.getdatabaseencoding())),
        'hex'),
    page_digest.digits);
COMMENT ON FUNCTION alvyn.page_digest(text, int) IS
    'First digits of the SHA-256 of a text';

CREATE FUNCTION alvyn.page_set(
    stream_ids text[],
    descending boolean
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT alvyn.page_digest(coalesce(pg_catalog.json_agg(s.id ORDER BY s.id)::text, ''), 16)
        || CASE WHEN page_set.descending THEN 'd' ELSE 'a' END
      FROM (SELECT DISTINCT u.id COLLATE "C" AS id FROM unnest(page_set.stream_ids) u (id)) s;
END;
COMMENT ON FUNCTION alvyn.page_set(text[], boolean) IS
    'What a cursor belongs to: digest of a set of streams, and the direction';

CREATE FUNCTION alvyn.page_cursor(
    page_set text,
    "position" bigint
) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN page_cursor.page_set || page_cursor."position"
    || '.' || alvyn.page_digest(page_cursor.page_set || page_cursor."position", 8);
COMMENT ON FUNCTION alvyn.page_cursor(text, bigint) IS
    'Cursor of read_page behind a position';

CREATE FUNCTION alvyn.page_position(
    page_set text,
    cursor text
) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_parts text[] := regexp_match(page_position.cursor, '^(([0-9a-f]{16}[ad])([0-9]{1,18}))\.([0-9a-f]{8})$');
BEGIN
    IF page_position.cursor IS NULL THEN
        RETURN NULL;
    END IF;
    IF v_parts IS NULL OR alvyn.page_digest(v_parts[1], 8) <> v_parts[4] THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "cursor" is not a cursor of read_page()',
            HINT = 'Pass the cursor of a row that read_page() has returned, as it is.';
    END IF;
    IF left(v_parts[2], 16) <> left(page_position.page_set, 16) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "cursor" belongs to another set of streams';
    END IF;
    IF v_parts[2] <> page_position.page_set THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "cursor" belongs to another direction';
    END IF;
    RETURN v_parts[3]::bigint;
END
$$;
COMMENT ON FUNCTION alvyn.page_position(text, text) IS
    'Position of a cursor, an error unless it belongs to the set and direction; null for null';

CREATE FUNCTION alvyn.read_page(
    stream_ids text[],
    max_count int DEFAULT 100,
    cursor text DEFAULT NULL,
    descending boolean DEFAULT false
) RETURNS SETOF alvyn.page_event
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_set text := alvyn.page_set(read_page.stream_ids, read_page.descending);
    v_position bigint := alvyn.page_position(v_set, read_page.cursor);
BEGIN
    RETURN QUERY
    SELECT e.*, alvyn.page_cursor(v_set, e."position")
      FROM alvyn.read_streams(read_page.stream_ids, read_page.max_count, v_position, read_page.descending) e;
END
$$;
COMMENT ON FUNCTION alvyn.read_page(text[], int, text, boolean) IS
    'A page of a set of streams, merged by position; each row has the cursor to go on behind it';
