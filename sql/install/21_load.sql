-- Loading.  load() is one SELECT without a SET clause, so the planner puts it
-- in place of the call: rows are streamed and LIMIT stops the work.  What
-- begins where is decided in C, in a subselect: otherwise the planner would
-- look the stream up to estimate its length, and plan every call anew where
-- streams differ much.

CREATE FUNCTION alvyn.stream_version(
    stream_id text
) RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE COST 100
AS 'MODULE_PATHNAME', 'alvyn_stream_version';
COMMENT ON FUNCTION alvyn.stream_version(text) IS
    'Version of the last event of a stream, 0 when there is no such stream';

CREATE FUNCTION alvyn.load_stream(
    stream_id text,
    from_version bigint
) RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_load_stream';
COMMENT ON FUNCTION alvyn.load_stream(text, bigint) IS
    'Number of the stream that load reads; checks the arguments of load';

CREATE FUNCTION alvyn.event_id(
    id text,
    stream_id text,
    version bigint
) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_event_id';
COMMENT ON FUNCTION alvyn.event_id(text, text, bigint) IS
    'Id of an event: the one stored, or stream_id/version';

CREATE FUNCTION alvyn.load(
    stream_id text,
    from_version bigint DEFAULT 1,
    max_count bigint DEFAULT NULL,
    backwards boolean DEFAULT false
) RETURNS SETOF alvyn.event
LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    (SELECT e.position,
            load.stream_id,
            e.version,
            alvyn.event_id(e.id, load.stream_id, e.version),
            e.type,
            e."time",
            e.data,
            e.metadata,
            e.schema_version,
            e.snapshot
       FROM alvyn.events e
      WHERE load.backwards IS NOT TRUE
        AND e.stream_no = (SELECT alvyn.load_stream(load.stream_id, coalesce(load.from_version, 1)))
        AND e.version >= coalesce(load.from_version, 1)
      ORDER BY e.version
      LIMIT load.max_count)
    UNION ALL
    (SELECT e.position,
            load.stream_id,
            e.version,
            alvyn.event_id(e.id, load.stream_id, e.version),
            e.type,
            e."time",
            e.data,
            e.metadata,
            e.schema_version,
            e.snapshot
       FROM alvyn.events e
      WHERE load.backwards
        AND e.stream_no = (SELECT alvyn.load_stream(load.stream_id, coalesce(load.from_version, 1)))
        AND e.version >= coalesce(load.from_version, 1)
      ORDER BY e.version DESC
      LIMIT load.max_count);
END;
COMMENT ON FUNCTION alvyn.load(text, bigint, bigint, boolean) IS
    'Events of a stream in the order of their versions, or in the reverse order';

-- Stable and not immutable: the planner would put the value, which is no valid
-- text, into the plan, and EXPLAIN could not send it to every client.
CREATE FUNCTION alvyn.prefix_end(
    prefix text
) RETURNS text
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_prefix_end';
COMMENT ON FUNCTION alvyn.prefix_end(text) IS
    'Upper bound of the names with a prefix, only to be compared with';

CREATE FUNCTION alvyn.list_streams(
    prefix text DEFAULT NULL,
    after text DEFAULT NULL,
    max_count int DEFAULT 100
) RETURNS TABLE (
    stream_id text,
    version bigint,
    state text,
    created_at timestamptz
)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT s.stream_id,
           alvyn.stream_version(s.stream_id),
           CASE s.state WHEN 'a' THEN 'active' WHEN 'z' THEN 'archived' ELSE 'tombstoned' END,
           s.created_at
      FROM alvyn.streams s
     WHERE s.stream_id >= coalesce(list_streams.prefix, '')
       AND s.stream_id < alvyn.prefix_end(coalesce(list_streams.prefix, ''))
       AND s.stream_id > coalesce(list_streams.after, '')
     ORDER BY s.stream_id
     LIMIT list_streams.max_count;
END;
COMMENT ON FUNCTION alvyn.list_streams(text, text, int) IS
    'Streams whose ids begin with a prefix, in byte order, after a given one';
