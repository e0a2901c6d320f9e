-- Snapshots and deciders.  The definitions are data: they are dumped, and
-- C code reads them by column number (src/definition.c).  Functions stand in
-- them by signature, because pg_upgrade refuses columns of type regprocedure.

CREATE TYPE alvyn.stream_state AS (
    state jsonb,
    version bigint,
    snapshot_version bigint,
    replayed_events bigint
);
COMMENT ON TYPE alvyn.stream_state IS
    'A state, the version of the stream it belongs to, and how it was computed';

CREATE TYPE alvyn.execute_result AS (
    stream_id text COLLATE "C",
    first_version bigint,
    last_version bigint,
    first_position bigint,
    last_position bigint,
    version bigint,
    duplicate boolean,
    conflict boolean,
    state jsonb
);
COMMENT ON TYPE alvyn.execute_result IS
    'What a command did to a stream, and the state of the stream after it';

CREATE SEQUENCE alvyn.snapshots_snapshot_no_seq AS bigint;
COMMENT ON SEQUENCE alvyn.snapshots_snapshot_no_seq IS
    'Numbers of snapshot definitions, never used again';

CREATE TABLE alvyn.snapshots (
    snapshot_no bigint NOT NULL DEFAULT pg_catalog.nextval('alvyn.snapshots_snapshot_no_seq'),
    name text COLLATE "C" NOT NULL,
    stream_prefix text COLLATE "C" NOT NULL,
    every int NOT NULL,
    schema_version int NOT NULL,
    initial_state jsonb NOT NULL,
    evolve text COLLATE "C",
    rules jsonb,
    CONSTRAINT snapshots_pkey PRIMARY KEY (name),
    CONSTRAINT snapshots_snapshot_no_key UNIQUE (snapshot_no)
);
COMMENT ON TABLE alvyn.snapshots IS
    'Definitions of snapshots';
COMMENT ON COLUMN alvyn.snapshots.snapshot_no IS
    'Number that the marks in alvyn.streams name';
COMMENT ON COLUMN alvyn.snapshots.evolve IS
    'Signature of the function (state jsonb, event alvyn.event) returns jsonb';

CREATE TABLE alvyn.deciders (
    name text COLLATE "C" NOT NULL,
    stream_prefix text COLLATE "C" NOT NULL,
    snapshot_name text COLLATE "C" NOT NULL,
    decide text COLLATE "C" NOT NULL,
    CONSTRAINT deciders_pkey PRIMARY KEY (name),
    CONSTRAINT deciders_stream_prefix_key UNIQUE (stream_prefix)
);
COMMENT ON TABLE alvyn.deciders IS
    'Definitions of deciders';
COMMENT ON COLUMN alvyn.deciders.decide IS
    'Signature of the function (state jsonb, command jsonb) returns setof alvyn.new_event';

SELECT pg_catalog.pg_extension_config_dump('alvyn.snapshots_snapshot_no_seq', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.snapshots', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.deciders', '');

CREATE FUNCTION alvyn.definition_changed() RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_definition_changed';
COMMENT ON FUNCTION alvyn.definition_changed() IS
    'Trigger that tells all sessions of a changed definition';

CREATE TRIGGER snapshots_changed
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON alvyn.snapshots
    FOR EACH STATEMENT EXECUTE FUNCTION alvyn.definition_changed();
CREATE TRIGGER deciders_changed
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON alvyn.deciders
    FOR EACH STATEMENT EXECUTE FUNCTION alvyn.definition_changed();

CREATE FUNCTION alvyn.check_rules(
    rules jsonb
) RETURNS void
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_check_rules';
COMMENT ON FUNCTION alvyn.check_rules(jsonb) IS
    'Raise an error unless the argument is a set of rules';

CREATE FUNCTION alvyn.check_function(
    argument text,
    function regprocedure,
    parameter regtype,
    result regtype,
    is_set boolean
) RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_proc pg_proc;
BEGIN
    SELECT * INTO v_proc FROM pg_proc p WHERE p.oid = check_function.function;
    IF NOT FOUND
       OR v_proc.prokind <> 'f'
       OR v_proc.pronargs <> 2
       OR v_proc.proargtypes[0] <> 'jsonb'::regtype
       OR v_proc.proargtypes[1] <> check_function.parameter
       OR v_proc.prorettype <> check_function.result
       OR v_proc.proretset <> check_function.is_set THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" is not a function of the right form', check_function.argument),
            DETAIL = format('It must be a function (jsonb, %s) that returns %s%s.',
                            check_function.parameter,
                            CASE WHEN check_function.is_set THEN 'setof ' ELSE '' END,
                            check_function.result);
    END IF;
    IF v_proc.provolatile = 'v' AND NOT check_function.is_set THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" is a volatile function', check_function.argument),
            DETAIL = 'The same events must always fold to the same state.',
            HINT = 'Declare the function IMMUTABLE, or STABLE.';
    END IF;
    RETURN check_function.function::text;
END
$$;
COMMENT ON FUNCTION alvyn.check_function(text, regprocedure, regtype, regtype, boolean) IS
    'Signature of an evolve or decide function, an error if it is none';

CREATE FUNCTION alvyn.check_definition(
    name text,
    stream_prefix text,
    every int,
    initial_state jsonb,
    evolve regprocedure,
    rules jsonb,
    schema_version int
) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_argument text;
    v_detail text;
BEGIN
    IF coalesce(octet_length(check_definition.name), 0) NOT BETWEEN 1 AND 504 THEN
        v_argument := 'name';
        v_detail := 'It must have 1 to 504 bytes.';
    ELSIF coalesce(octet_length(check_definition.stream_prefix), 0) NOT BETWEEN 1 AND 511 THEN
        v_argument := 'stream_prefix';
        v_detail := 'It must have 1 to 511 bytes.';
    ELSIF coalesce(check_definition.every, 0) < 1 THEN
        v_argument := 'every';
        v_detail := 'It must be at least 1.';
    ELSIF check_definition.initial_state IS NULL THEN
        v_argument := 'initial_state';
        v_detail := 'It must not be null.';
    ELSIF num_nonnulls(check_definition.evolve, check_definition.rules) <> 1 THEN
        v_argument := 'rules';
        v_detail := 'Either an evolve function or rules must be given.';
    ELSIF check_definition.rules IS NOT NULL AND jsonb_typeof(check_definition.initial_state) <> 'object' THEN
        v_argument := 'initial_state';
        v_detail := 'Rules need a state that is an object.';
    ELSIF coalesce(check_definition.schema_version, 0) < 1 THEN
        v_argument := 'schema_version';
        v_detail := 'It must be at least 1.';
    END IF;
    IF v_argument IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" is out of range', v_argument),
            DETAIL = v_detail;
    END IF;
    PERFORM alvyn.check_rules(check_definition.rules);
END
$$;
COMMENT ON FUNCTION alvyn.check_definition(text, text, int, jsonb, regprocedure, jsonb, int) IS
    'Raise an error unless the arguments define a snapshot';

CREATE FUNCTION alvyn.create_snapshot(
    name text,
    stream_prefix text,
    every int,
    initial_state jsonb,
    evolve regprocedure DEFAULT NULL,
    rules jsonb DEFAULT NULL,
    schema_version int DEFAULT 1
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.check_definition(create_snapshot.name, create_snapshot.stream_prefix, create_snapshot.every,
                                   create_snapshot.initial_state, create_snapshot.evolve, create_snapshot.rules,
                                   create_snapshot.schema_version);
    INSERT INTO alvyn.snapshots (name, stream_prefix, every, schema_version, initial_state, evolve, rules)
    VALUES (create_snapshot.name, create_snapshot.stream_prefix, create_snapshot.every,
            create_snapshot.schema_version, create_snapshot.initial_state,
            alvyn.check_function('evolve', create_snapshot.evolve, 'alvyn.event', 'jsonb', false),
            create_snapshot.rules);
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING
        ERRCODE = 'duplicate_object',
        MESSAGE = format('snapshot "%s" already exists', create_snapshot.name),
        HINT = 'Change it with alter_snapshot(), or drop it with drop_snapshot() first.';
END
$$;
COMMENT ON FUNCTION alvyn.create_snapshot(text, text, int, jsonb, regprocedure, jsonb, int) IS
    'Define a snapshot that appends keep for the streams stream_prefix-...';

CREATE FUNCTION alvyn.alter_snapshot(
    name text,
    every int DEFAULT NULL,
    initial_state jsonb DEFAULT NULL,
    evolve regprocedure DEFAULT NULL,
    rules jsonb DEFAULT NULL,
    schema_version int DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_old alvyn.snapshots;
    v_changed boolean := num_nonnulls(alter_snapshot.initial_state, alter_snapshot.evolve, alter_snapshot.rules) > 0;
BEGIN
    SELECT * INTO v_old FROM alvyn.snapshots s WHERE s.name = alter_snapshot.name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('snapshot "%s" does not exist', alter_snapshot.name);
    END IF;
    v_old.every := coalesce(alter_snapshot.every, v_old.every);
    v_old.initial_state := coalesce(alter_snapshot.initial_state, v_old.initial_state);
    IF num_nonnulls(alter_snapshot.evolve, alter_snapshot.rules) > 0 THEN
        v_old.evolve := alvyn.check_function('evolve', alter_snapshot.evolve, 'alvyn.event', 'jsonb', false);
        v_old.rules := alter_snapshot.rules;
    END IF;
    -- Snapshots of another fold must not be used: they get another version.
    v_old.schema_version := coalesce(alter_snapshot.schema_version, v_old.schema_version + v_changed::int);
    PERFORM alvyn.check_definition(v_old.name, v_old.stream_prefix, v_old.every, v_old.initial_state,
                                   v_old.evolve::regprocedure, v_old.rules, v_old.schema_version);
    UPDATE alvyn.snapshots s
       SET every = v_old.every,
           schema_version = v_old.schema_version,
           initial_state = v_old.initial_state,
           evolve = v_old.evolve,
           rules = v_old.rules
     WHERE s.name = alter_snapshot.name;
END
$$;
COMMENT ON FUNCTION alvyn.alter_snapshot(text, int, jsonb, regprocedure, jsonb, int) IS
    'Change a snapshot; another fold or initial state raises its schema version unless one is given';

CREATE FUNCTION alvyn.drop_snapshot(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_decider text;
BEGIN
    -- Whoever is just creating a decider for it holds the row.
    PERFORM FROM alvyn.snapshots s WHERE s.name = drop_snapshot.name FOR UPDATE;
    SELECT d.name INTO v_decider
      FROM alvyn.deciders d
     WHERE d.snapshot_name = drop_snapshot.name
     ORDER BY d.name
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'dependent_objects_still_exist',
            MESSAGE = format('snapshot "%s" is used by decider "%s"', drop_snapshot.name, v_decider),
            HINT = 'Drop the decider first, with drop_decider().';
    END IF;
    DELETE FROM alvyn.snapshots s WHERE s.name = drop_snapshot.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('snapshot "%s" does not exist', drop_snapshot.name);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.drop_snapshot(text) IS
    'Drop the definition of a snapshot; the snapshot events stay in their streams';

CREATE FUNCTION alvyn.snapshot_version(
    stream_id text,
    snapshot_name text
) RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_snapshot_version';
COMMENT ON FUNCTION alvyn.snapshot_version(text, text) IS
    'Version of the newest usable snapshot of a stream, 1 when there is none';

CREATE FUNCTION alvyn.load_latest(
    stream_id text,
    snapshot_name text
) RETURNS SETOF alvyn.event
LANGUAGE sql STABLE PARALLEL SAFE ROWS 50
BEGIN ATOMIC
    SELECT e.position,
           load_latest.stream_id,
           e.version,
           alvyn.event_id(e.id, load_latest.stream_id, e.version),
           e.type,
           e."time",
           e.data,
           e.metadata,
           e.schema_version,
           e.snapshot
      FROM alvyn.events e
     WHERE e.stream_no = (SELECT alvyn.load_stream(load_latest.stream_id, 1))
       AND e.version >= (SELECT alvyn.snapshot_version(load_latest.stream_id, load_latest.snapshot_name))
     ORDER BY e.version;
END;
COMMENT ON FUNCTION alvyn.load_latest(text, text) IS
    'The newest usable snapshot of a stream and the events that follow it';

CREATE FUNCTION alvyn.state(
    stream_id text,
    snapshot_name text,
    at_version bigint DEFAULT NULL
) RETURNS alvyn.stream_state
LANGUAGE c STABLE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'alvyn_state';
COMMENT ON FUNCTION alvyn.state(text, text, bigint) IS
    'State of a stream, now or as of a version';

CREATE FUNCTION alvyn.take_snapshot(
    stream_id text,
    snapshot_name text
) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_take_snapshot';
COMMENT ON FUNCTION alvyn.take_snapshot(text, text) IS
    'Take a snapshot of a stream now if it is due; returns whether it was';

CREATE VIEW alvyn.snapshot_marks AS
SELECT d.name AS snapshot_name,
       s.stream_id,
       s.snapshots[m.first + 2] AS version,
       s.snapshots[m.first + 1] = d.schema_version
       AND s.snapshots[m.first + 2] <= alvyn.stream_version(s.stream_id) AS usable
  FROM alvyn.streams s
 CROSS JOIN LATERAL pg_catalog.generate_series(1, pg_catalog.cardinality(s.snapshots), 5) AS m (first)
  JOIN alvyn.snapshots d ON d.snapshot_no = s.snapshots[m.first];
COMMENT ON VIEW alvyn.snapshot_marks IS
    'Where the newest snapshots of each stream stand; version 0 means none yet, not usable means of another schema version or beyond the head';

CREATE VIEW alvyn.snapshot_status AS
SELECT d.name,
       d.stream_prefix,
       d.every,
       d.schema_version,
       d.evolve,
       d.rules,
       c.streams,
       c.ignored
  FROM alvyn.snapshots d
 CROSS JOIN LATERAL (
     SELECT pg_catalog.count(*) FILTER (WHERE m.usable AND m.version > 0) AS streams,
            pg_catalog.count(*) FILTER (WHERE NOT m.usable AND m.version > 0) AS ignored
       FROM alvyn.snapshot_marks m
      WHERE m.snapshot_name = d.name
 ) c;
COMMENT ON VIEW alvyn.snapshot_status IS
    'The snapshots, with the number of streams that have one and of those whose newest is ignored';

-- Not SECURITY DEFINER: it runs evolve functions, and these must get no more
-- rights here than in an append.
CREATE FUNCTION alvyn.rebuild_snapshots(
    name text,
    max_streams int DEFAULT 1000
) RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_snapshot alvyn.snapshots;
    v_stream text;
    v_count bigint := 0;
BEGIN
    SELECT * INTO v_snapshot FROM alvyn.snapshots s WHERE s.name = rebuild_snapshots.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('snapshot "%s" does not exist', rebuild_snapshots.name);
    END IF;
    IF rebuild_snapshots.max_streams < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "max_streams" must be at least 1',
            DETAIL = format('It is %s.', rebuild_snapshots.max_streams);
    END IF;
    FOR v_stream IN
        SELECT s.stream_id
          FROM alvyn.streams s
         WHERE s.stream_id >= v_snapshot.stream_prefix || '-'
           AND s.stream_id < alvyn.prefix_end(v_snapshot.stream_prefix || '-')
           AND s.state = 'a'
           AND NOT EXISTS (SELECT FROM generate_series(1, cardinality(s.snapshots), 5) AS m (first)
                            WHERE s.snapshots[m.first] = v_snapshot.snapshot_no
                              AND s.snapshots[m.first + 1] = v_snapshot.schema_version)
           AND s.version_floor = 0
           AND alvyn.stream_version(s.stream_id) >= v_snapshot.every
         ORDER BY s.stream_id
         LIMIT rebuild_snapshots.max_streams
    LOOP
        PERFORM alvyn.take_snapshot(v_stream, v_snapshot.name);
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.rebuild_snapshots(text, int) IS
    'Look at up to max_streams streams that have no usable snapshot and take those that are due; returns how many were looked at, 0 when all is done';

CREATE FUNCTION alvyn.create_decider(
    name text,
    stream_prefix text,
    snapshot_name text,
    decide regprocedure
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_constraint text;
BEGIN
    PERFORM FROM alvyn.snapshots s
      WHERE s.name = create_decider.snapshot_name
        AND starts_with(create_decider.stream_prefix || '-', s.stream_prefix || '-')
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('snapshot "%s" does not exist or does not cover the streams of the decider',
                             create_decider.snapshot_name);
    END IF;
    IF octet_length(create_decider.name) NOT BETWEEN 1 AND 512 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "name" is out of range',
            DETAIL = 'It must have 1 to 512 bytes.';
    END IF;
    INSERT INTO alvyn.deciders (name, stream_prefix, snapshot_name, decide)
    VALUES (create_decider.name, create_decider.stream_prefix, create_decider.snapshot_name,
            alvyn.check_function('decide', create_decider.decide, 'jsonb', 'alvyn.new_event', true));
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME;
    RAISE EXCEPTION USING
        ERRCODE = 'duplicate_object',
        MESSAGE = CASE v_constraint
            WHEN 'deciders_pkey' THEN format('decider "%s" already exists', create_decider.name)
            ELSE format('a decider for prefix "%s" already exists', create_decider.stream_prefix)
        END;
END
$$;
COMMENT ON FUNCTION alvyn.create_decider(text, text, text, regprocedure) IS
    'Define what decides commands on the streams stream_prefix-...';

CREATE FUNCTION alvyn.drop_decider(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM alvyn.deciders d WHERE d.name = drop_decider.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('decider "%s" does not exist', drop_decider.name);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.drop_decider(text) IS
    'Drop the definition of a decider';

CREATE FUNCTION alvyn.execute(
    stream_id text,
    command jsonb,
    expected_version bigint DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    max_retries int DEFAULT 3
) RETURNS alvyn.execute_result
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_execute';
COMMENT ON FUNCTION alvyn.execute(text, jsonb, bigint, text, int) IS
    'Load the state of a stream, let its decider decide on a command, append what it decided';

CREATE FUNCTION alvyn.execute_streams(
    stream_ids text[],
    commands jsonb[],
    idempotency_key text DEFAULT NULL,
    max_retries int DEFAULT 3
) RETURNS SETOF alvyn.execute_result
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 2
AS 'MODULE_PATHNAME', 'alvyn_execute_streams';
COMMENT ON FUNCTION alvyn.execute_streams(text[], jsonb[], text, int) IS
    'Execute a command on each of several streams, on all or on none';
