-- Verification: aggregates, and functions that recompute from the events.

CREATE FUNCTION alvyn.contiguous_add(internal, bigint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_contiguous_add';
COMMENT ON FUNCTION alvyn.contiguous_add(internal, bigint) IS
    'Transition function of contiguous';

CREATE FUNCTION alvyn.contiguous_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_contiguous_combine';
COMMENT ON FUNCTION alvyn.contiguous_combine(internal, internal) IS
    'Combine function of contiguous';

CREATE FUNCTION alvyn.contiguous_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_contiguous_serialize';
COMMENT ON FUNCTION alvyn.contiguous_serialize(internal) IS
    'Serialization function of contiguous';

CREATE FUNCTION alvyn.contiguous_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_contiguous_deserialize';
COMMENT ON FUNCTION alvyn.contiguous_deserialize(bytea, internal) IS
    'Deserialization function of contiguous';

CREATE FUNCTION alvyn.contiguous_final(internal) RETURNS alvyn.version_report
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_contiguous_final';
COMMENT ON FUNCTION alvyn.contiguous_final(internal) IS
    'Final function of contiguous';

CREATE AGGREGATE alvyn.contiguous(version bigint) (
    SFUNC = alvyn.contiguous_add,
    STYPE = internal,
    SSPACE = 32,
    FINALFUNC = alvyn.contiguous_final,
    COMBINEFUNC = alvyn.contiguous_combine,
    SERIALFUNC = alvyn.contiguous_serialize,
    DESERIALFUNC = alvyn.contiguous_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE alvyn.contiguous(bigint) IS
    'Are the versions first, first + 1, ... last, each once, in any order?';

CREATE FUNCTION alvyn.sum_number_add(internal, jsonb, VARIADIC text[]) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_sum_number_add';
COMMENT ON FUNCTION alvyn.sum_number_add(internal, jsonb, text[]) IS
    'Transition function of sum_number';

CREATE AGGREGATE alvyn.sum_number(data jsonb, VARIADIC path text[]) (
    SFUNC = alvyn.sum_number_add,
    STYPE = internal,
    SSPACE = 128,
    FINALFUNC = pg_catalog.numeric_sum,
    COMBINEFUNC = pg_catalog.numeric_avg_combine,
    SERIALFUNC = pg_catalog.numeric_avg_serialize,
    DESERIALFUNC = pg_catalog.numeric_avg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE alvyn.sum_number(jsonb, text[]) IS
    'Sum of the numbers at a path of jsonb values; null when there is none';

CREATE FUNCTION alvyn.digest_add(
    internal, bigint, text, bigint, text, text, timestamptz, jsonb, jsonb, int, boolean
) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_add';
COMMENT ON FUNCTION alvyn.digest_add(internal, bigint, text, bigint, text, text, timestamptz, jsonb, jsonb, int, boolean) IS
    'Transition function of digest over columns';

CREATE FUNCTION alvyn.digest_add(internal, alvyn.event) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_add_event';
COMMENT ON FUNCTION alvyn.digest_add(internal, alvyn.event) IS
    'Transition function of digest over events';

CREATE FUNCTION alvyn.digest_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_combine';
COMMENT ON FUNCTION alvyn.digest_combine(internal, internal) IS
    'Combine function of digest';

CREATE FUNCTION alvyn.digest_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_serialize';
COMMENT ON FUNCTION alvyn.digest_serialize(internal) IS
    'Serialization function of digest';

CREATE FUNCTION alvyn.digest_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_deserialize';
COMMENT ON FUNCTION alvyn.digest_deserialize(bytea, internal) IS
    'Deserialization function of digest';

CREATE FUNCTION alvyn.digest_final(internal) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_final';
COMMENT ON FUNCTION alvyn.digest_final(internal) IS
    'Final function of digest';

CREATE AGGREGATE alvyn.digest(
    "position" bigint,
    stream_id text,
    version bigint,
    id text,
    type text,
    "time" timestamptz,
    data jsonb,
    metadata jsonb,
    schema_version int,
    snapshot boolean
) (
    SFUNC = alvyn.digest_add,
    STYPE = internal,
    SSPACE = 1024,
    FINALFUNC = alvyn.digest_final,
    COMBINEFUNC = alvyn.digest_combine,
    SERIALFUNC = alvyn.digest_serialize,
    DESERIALFUNC = alvyn.digest_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE alvyn.digest(bigint, text, bigint, text, text, timestamptz, jsonb, jsonb, int, boolean) IS
    'Digest of the content of events, equal for equal sets in any order';

CREATE AGGREGATE alvyn.digest(event alvyn.event) (
    SFUNC = alvyn.digest_add,
    STYPE = internal,
    SSPACE = 1024,
    FINALFUNC = alvyn.digest_final,
    COMBINEFUNC = alvyn.digest_combine,
    SERIALFUNC = alvyn.digest_serialize,
    DESERIALFUNC = alvyn.digest_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE alvyn.digest(alvyn.event) IS
    'Digest of the content of events as load returns them';

CREATE FUNCTION alvyn.verify_slice(
    prefix text,
    slice int,
    slices int
) RETURNS alvyn.verification
LANGUAGE c STABLE PARALLEL SAFE COST 10000000
AS 'MODULE_PATHNAME', 'alvyn_verify_slice';
COMMENT ON FUNCTION alvyn.verify_slice(text, int, int) IS
    'One part of what verify checks; the parts can be checked in parallel';

CREATE FUNCTION alvyn.verify_log(
    prefix text DEFAULT NULL
) RETURNS alvyn.verification
LANGUAGE sql STABLE PARALLEL SAFE COST 10000000
BEGIN ATOMIC
    SELECT ROW (
               pg_catalog.sum(v.streams),
               pg_catalog.sum(v.source_events),
               pg_catalog.sum(v.stored_events),
               pg_catalog.sum(v.snapshot_events),
               pg_catalog.min(v.first_position),
               pg_catalog.max(v.last_position),
               pg_catalog.sum(v.broken_streams),
               pg_catalog.bool_and(v.ok)
           )::alvyn.verification
      FROM (SELECT * FROM alvyn.verify_slice(verify_log.prefix, 0, 4)
            UNION ALL
            SELECT * FROM alvyn.verify_slice(verify_log.prefix, 1, 4)
            UNION ALL
            SELECT * FROM alvyn.verify_slice(verify_log.prefix, 2, 4)
            UNION ALL
            SELECT * FROM alvyn.verify_slice(verify_log.prefix, 3, 4)) v;
END;
COMMENT ON FUNCTION alvyn.verify_log(text) IS
    'What verify checks without snapshots';

-- Not for parallel workers, as it runs evolve functions.
CREATE FUNCTION alvyn.verify_refold(
    prefix text DEFAULT NULL
) RETURNS alvyn.verification
LANGUAGE c STABLE PARALLEL RESTRICTED COST 10000000
AS 'MODULE_PATHNAME', 'alvyn_verify_refold';
COMMENT ON FUNCTION alvyn.verify_refold(text) IS
    'What verify checks with snapshots';

CREATE FUNCTION alvyn.verify(
    prefix text DEFAULT NULL,
    check_snapshots boolean DEFAULT false
) RETURNS alvyn.verification
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 10000000
BEGIN ATOMIC
    SELECT CASE
               WHEN verify.check_snapshots THEN alvyn.verify_refold(verify.prefix)
               ELSE alvyn.verify_log(verify.prefix)
           END;
END;
COMMENT ON FUNCTION alvyn.verify(text, boolean) IS
    'Recompute from the events that the streams with a prefix, or all, are complete and in order';

CREATE FUNCTION alvyn.verify_streams(
    prefix text DEFAULT NULL,
    check_snapshots boolean DEFAULT false
) RETURNS SETOF alvyn.problem
LANGUAGE c STABLE PARALLEL RESTRICTED COST 10000000 ROWS 10
AS 'MODULE_PATHNAME', 'alvyn_verify_streams';
COMMENT ON FUNCTION alvyn.verify_streams(text, boolean) IS
    'The faults of the streams with a prefix, or of all, a row each';

CREATE FUNCTION alvyn.digest_add_stored(
    internal, bigint, bigint, bigint, text, text, timestamptz, jsonb, jsonb, int, boolean
) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'alvyn_digest_add_stored';
COMMENT ON FUNCTION alvyn.digest_add_stored(internal, bigint, bigint, bigint, text, text, timestamptz, jsonb, jsonb, int, boolean) IS
    'Transition function of digest_stored';

CREATE AGGREGATE alvyn.digest_stored(
    "position" bigint,
    stream_no bigint,
    version bigint,
    id text,
    type text,
    "time" timestamptz,
    data jsonb,
    metadata jsonb,
    schema_version int,
    snapshot boolean
) (
    SFUNC = alvyn.digest_add_stored,
    STYPE = internal,
    SSPACE = 1024,
    FINALFUNC = alvyn.digest_final,
    COMBINEFUNC = alvyn.digest_combine,
    SERIALFUNC = alvyn.digest_serialize,
    DESERIALFUNC = alvyn.digest_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE alvyn.digest_stored(bigint, bigint, bigint, text, text, timestamptz, jsonb, jsonb, int, boolean) IS
    'Digest of the rows of alvyn.events, which name their stream by number';

-- The events are digested with the numbers of their streams, and the registry
-- that gives the numbers their meaning beside them: a join would take longer
-- than both.
CREATE FUNCTION alvyn.store_digest(
    prefix text DEFAULT NULL
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE COST 10000000
BEGIN ATOMIC
    SELECT (SELECT alvyn.digest_stored(e.position, e.stream_no, e.version, e.id, e.type, e."time",
                                       e.data, e.metadata, e.schema_version, e.snapshot)
              FROM alvyn.events e
             WHERE store_digest.prefix IS NULL
                OR e.stream_no IN (SELECT s.stream_no
                                     FROM alvyn.streams s
                                    WHERE pg_catalog.starts_with(s.stream_id, store_digest.prefix)))
        || '/'
        || (SELECT alvyn.digest(s.stream_no, s.stream_id, s.version_floor, NULL, s.state::text, s.created_at,
                                NULL, NULL, s.slot, false)
              FROM alvyn.streams s
             WHERE store_digest.prefix IS NULL
                OR pg_catalog.starts_with(s.stream_id, store_digest.prefix));
END;
COMMENT ON FUNCTION alvyn.store_digest(text) IS
    'Digest of all events and streams, or of the streams with a prefix and their events';
