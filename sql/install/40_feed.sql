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
