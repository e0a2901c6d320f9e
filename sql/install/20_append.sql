-- Appending.  None of the functions is STRICT: null is a meaning of some
-- arguments and an error with a name in others.

CREATE FUNCTION alvyn.stream_slot(
    stream_id text
) RETURNS smallint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_stream_slot';
COMMENT ON FUNCTION alvyn.stream_slot(text) IS
    'Slot of a stream id, 0 to 1023, the same on every version and machine';

CREATE FUNCTION alvyn.append(
    stream_id text,
    expected_version bigint,
    type text,
    data jsonb,
    metadata jsonb DEFAULT NULL,
    id text DEFAULT NULL,
    "time" timestamptz DEFAULT NULL,
    schema_version int DEFAULT 1,
    idempotency_key text DEFAULT NULL
) RETURNS alvyn.append_result
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_append';
COMMENT ON FUNCTION alvyn.append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text) IS
    'Append one event to a stream';

CREATE FUNCTION alvyn.append_batch(
    stream_id text,
    expected_version bigint,
    types text[],
    data jsonb[],
    metadata jsonb[] DEFAULT NULL,
    ids text[] DEFAULT NULL,
    times timestamptz[] DEFAULT NULL,
    schema_versions int[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL
) RETURNS alvyn.append_result
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_append_batch';
COMMENT ON FUNCTION alvyn.append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text) IS
    'Append several events to a stream';

CREATE FUNCTION alvyn.append_streams(
    stream_ids text[],
    types text[],
    data jsonb[],
    metadata jsonb[] DEFAULT NULL,
    check_streams text[] DEFAULT NULL,
    check_versions bigint[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL
) RETURNS SETOF alvyn.append_result
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 2
AS 'MODULE_PATHNAME', 'alvyn_append_streams';
COMMENT ON FUNCTION alvyn.append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text) IS
    'Append events to several streams, to all or to none';

CREATE FUNCTION alvyn.try_append(
    stream_id text,
    expected_version bigint,
    type text,
    data jsonb,
    metadata jsonb DEFAULT NULL,
    id text DEFAULT NULL,
    "time" timestamptz DEFAULT NULL,
    schema_version int DEFAULT 1,
    idempotency_key text DEFAULT NULL
) RETURNS alvyn.append_result
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_try_append';
COMMENT ON FUNCTION alvyn.try_append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text) IS
    'Append one event to a stream; a version conflict is a result, not an error';

CREATE FUNCTION alvyn.try_append_batch(
    stream_id text,
    expected_version bigint,
    types text[],
    data jsonb[],
    metadata jsonb[] DEFAULT NULL,
    ids text[] DEFAULT NULL,
    times timestamptz[] DEFAULT NULL,
    schema_versions int[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL
) RETURNS alvyn.append_result
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_try_append_batch';
COMMENT ON FUNCTION alvyn.try_append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text) IS
    'Append several events to a stream; a version conflict is a result, not an error';

CREATE FUNCTION alvyn.try_append_streams(
    stream_ids text[],
    types text[],
    data jsonb[],
    metadata jsonb[] DEFAULT NULL,
    check_streams text[] DEFAULT NULL,
    check_versions bigint[] DEFAULT NULL,
    idempotency_key text DEFAULT NULL
) RETURNS SETOF alvyn.append_result
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 2
AS 'MODULE_PATHNAME', 'alvyn_try_append_streams';
COMMENT ON FUNCTION alvyn.try_append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text) IS
    'Append events to several streams, to all or to none; a version conflict is a result, not an error';
