-- Projections: a consumer and a function that handles its events.  The
-- handler and the checkpoint commit together.
--
-- A handler never runs inside a SECURITY DEFINER function, so it has the
-- rights of whoever runs the projection.  That is refused unless whoever
-- defined the projection could act as that role anyway: a definition lends
-- nobody rights.  Functions stand here by signature, as in alvyn.snapshots.
--
-- The generation that serves is read through the consumer NAME, the one that
-- is being built through NAME/rebuild.

CREATE TABLE alvyn.projections (
    name text COLLATE "C" NOT NULL,
    handler text COLLATE "C" NOT NULL,
    on_error text COLLATE "C" NOT NULL,
    on_swap text COLLATE "C",
    owner text COLLATE "C" NOT NULL,
    generation bigint NOT NULL DEFAULT 1,
    building bigint,
    building_handler text COLLATE "C",
    last_building bigint NOT NULL DEFAULT 1,
    enabled boolean NOT NULL DEFAULT false,
    failures int NOT NULL DEFAULT 0,
    error_sqlstate text COLLATE "C",
    error_message text COLLATE "C",
    error_position bigint,
    retry_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT projections_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE alvyn.projections IS
    'Projections: handlers, generations, and how the last run went';
COMMENT ON COLUMN alvyn.projections.handler IS
    'Signature of the function (alvyn.event) or (alvyn.event[]) returns void';
COMMENT ON COLUMN alvyn.projections.building IS
    'Generation that is being built, or null';
COMMENT ON COLUMN alvyn.projections.last_building IS
    'Highest number of a generation so far';
COMMENT ON COLUMN alvyn.projections.enabled IS
    'Does the worker run it?';
COMMENT ON COLUMN alvyn.projections.failures IS
    'Failed runs since the last good one';

CREATE TABLE alvyn.parked_events (
    name text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    "position" bigint NOT NULL,
    stream_id text COLLATE "C" NOT NULL,
    attempts int NOT NULL,
    error_sqlstate text COLLATE "C",
    error_message text COLLATE "C",
    parked_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT parked_events_pkey PRIMARY KEY (name, generation, "position")
);
COMMENT ON TABLE alvyn.parked_events IS
    'Events that a handler failed on, and those of the same streams behind them';
COMMENT ON COLUMN alvyn.parked_events.attempts IS
    'How often the handler failed on it; 0 for an event behind another one';

SELECT pg_catalog.pg_extension_config_dump('alvyn.projections', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.parked_events', '');

CREATE FUNCTION alvyn.handle(
    handler regprocedure,
    events alvyn.event[],
    projection text,
    generation bigint,
    path text
) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_handle';
COMMENT ON FUNCTION alvyn.handle(regprocedure, alvyn.event[], text, bigint, text) IS
    'Call a handler with events, one after the other or all at once, under a search_path';

CREATE FUNCTION alvyn.current_generation() RETURNS bigint
LANGUAGE c STABLE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'alvyn_current_generation';
COMMENT ON FUNCTION alvyn.current_generation() IS
    'Generation that the running handler writes; null outside of handlers';

CREATE FUNCTION alvyn.check_handler(
    argument text,
    function regprocedure
) RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_proc p
                    WHERE p.oid = check_handler.function
                      AND p.prokind = 'f'
                      AND NOT p.proretset
                      AND p.prorettype = 'void'::regtype
                      AND CASE WHEN check_handler.argument = 'on_swap'
                          THEN p.proargtypes::text = format('%s %s %s', 'text'::regtype::oid,
                                                            'bigint'::regtype::oid, 'bigint'::regtype::oid)
                          ELSE p.pronargs = 1
                               AND p.proargtypes[0] IN ('alvyn.event'::regtype, 'alvyn.event[]'::regtype) END) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" is not a function of the right form', check_handler.argument),
            DETAIL = format('It must be a function (%s) that returns void.',
                            CASE WHEN check_handler.argument = 'on_swap' THEN 'text, bigint, bigint'
                            ELSE 'alvyn.event) or (alvyn.event[]' END);
    END IF;
    RETURN check_handler.function::text;
END
$$;
COMMENT ON FUNCTION alvyn.check_handler(text, regprocedure) IS
    'Signature of a handler or of a function for the swap, an error if it is none';

CREATE FUNCTION alvyn.create_projection(
    name text,
    handler regprocedure,
    category text DEFAULT NULL,
    prefix text DEFAULT NULL,
    types text[] DEFAULT NULL,
    snapshots boolean DEFAULT false,
    start text DEFAULT 'beginning',
    on_error text DEFAULT 'stop',
    on_swap regprocedure DEFAULT NULL,
    owner text DEFAULT CURRENT_USER
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(octet_length(create_projection.name), 0) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "name" is out of range',
            DETAIL = 'It must have 1 to 500 bytes.';
    END IF;
    IF create_projection.handler IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "handler" must not be null';
    END IF;
    IF coalesce(create_projection.on_error, '') NOT IN ('stop', 'park') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "on_error" must be ''stop'' or ''park''';
    END IF;
    -- Inside of this function current_user is its owner.
    IF (SELECT pg_has_role(session_user, r.oid, 'MEMBER')
          FROM pg_roles r
         WHERE r.rolname = create_projection.owner) IS NOT TRUE THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('must be a member of role "%s"', create_projection.owner);
    END IF;
    PERFORM FROM alvyn.projections p WHERE p.name = create_projection.name;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_object',
            MESSAGE = format('projection "%s" already exists', create_projection.name);
    END IF;
    PERFORM alvyn.create_consumer(create_projection.name, create_projection.category, create_projection.prefix,
                                  create_projection.types, create_projection.start,
                                  snapshots => create_projection.snapshots);
    INSERT INTO alvyn.projections (name, handler, on_error, on_swap, owner)
    VALUES (create_projection.name, alvyn.check_handler('handler', create_projection.handler),
            create_projection.on_error, alvyn.check_handler('on_swap', create_projection.on_swap),
            create_projection.owner);
END
$$;
COMMENT ON FUNCTION alvyn.create_projection(text, regprocedure, text, text, text[], boolean, text, text, regprocedure, text) IS
    'Define a projection: what it reads, what handles the events, and what happens when that fails';

CREATE FUNCTION alvyn.open_projection(
    name text
) RETURNS alvyn.projections
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_projection alvyn.projections;
BEGIN
    SELECT * INTO v_projection
      FROM alvyn.projections p
     WHERE p.name = open_projection.name
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('projection "%s" does not exist', open_projection.name);
    END IF;
    RETURN v_projection;
END
$$;
COMMENT ON FUNCTION alvyn.open_projection(text) IS
    'Lock a projection to the end of the transaction';

CREATE FUNCTION alvyn.drop_projection(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.open_projection(drop_projection.name);
    DELETE FROM alvyn.parked_events e WHERE e.name = drop_projection.name;
    DELETE FROM alvyn.consumer_partitions c WHERE c.name IN (drop_projection.name, drop_projection.name || '/rebuild');
    DELETE FROM alvyn.consumer_definitions d WHERE d.name IN (drop_projection.name, drop_projection.name || '/rebuild');
    DELETE FROM alvyn.projections p WHERE p.name = drop_projection.name;
END
$$;
COMMENT ON FUNCTION alvyn.drop_projection(text) IS
    'Forget a projection, its checkpoint and its parked events; what the handler wrote stays';

CREATE FUNCTION alvyn.handler_function(
    projection text,
    signature text
) RETURNS regprocedure
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_function regprocedure := to_regprocedure(handler_function.signature);
BEGIN
    IF v_function IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_function',
            MESSAGE = format('function "%s" of projection "%s" does not exist',
                             handler_function.signature, handler_function.projection),
            HINT = 'Create the function, or drop the projection with drop_projection().';
    END IF;
    RETURN v_function;
END
$$;
COMMENT ON FUNCTION alvyn.handler_function(text, text) IS
    'Function that a signature names, whatever schemas the caller may use';

-- Not SECURITY DEFINER, as it must see who runs the projection.
CREATE FUNCTION alvyn.check_owner(
    projection alvyn.projections
) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT pg_has_role(r.oid, current_user, 'MEMBER')
          FROM pg_roles r
         WHERE r.rolname = (check_owner.projection).owner) IS NOT TRUE THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('projection "%s" must not run as role "%s"', (check_owner.projection).name, current_user),
            DETAIL = format('Its owner "%s" is not a member of that role.', (check_owner.projection).owner),
            HINT = 'Run it as its owner, or grant the role to the owner.';
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.check_owner(alvyn.projections) IS
    'Raise an error if a projection would lend its owner the rights of the caller';

CREATE FUNCTION alvyn.note_projection(
    name text,
    error_sqlstate text DEFAULT NULL,
    error_message text DEFAULT NULL,
    error_position bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- The pauses are 1, 2, 4 seconds and so on, up to a minute.
    UPDATE alvyn.projections p
       SET failures = CASE WHEN note_projection.error_sqlstate IS NULL THEN 0 ELSE p.failures + 1 END,
           error_sqlstate = note_projection.error_sqlstate,
           error_message = note_projection.error_message,
           error_position = note_projection.error_position,
           retry_at = CASE WHEN note_projection.error_sqlstate IS NOT NULL
                      THEN clock_timestamp() + make_interval(secs => least(power(2, least(p.failures, 6)), 60)) END
     WHERE p.name = note_projection.name;
END
$$;
COMMENT ON FUNCTION alvyn.note_projection(text, text, text, bigint) IS
    'Record that a run of a projection failed, or was good, and when the worker tries again';

CREATE FUNCTION alvyn.park_event(
    name text,
    generation bigint,
    event alvyn.event,
    error_sqlstate text DEFAULT NULL,
    error_message text DEFAULT NULL
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO alvyn.parked_events AS p (name, generation, "position", stream_id, attempts, error_sqlstate, error_message)
    VALUES (park_event.name, park_event.generation, (park_event.event)."position", (park_event.event).stream_id,
            CASE WHEN park_event.error_sqlstate IS NULL THEN 0 ELSE 1 END,
            park_event.error_sqlstate, park_event.error_message)
    ON CONFLICT (name, generation, "position") DO UPDATE
       SET attempts = p.attempts + 1,
           error_sqlstate = excluded.error_sqlstate,
           error_message = excluded.error_message;
END;
COMMENT ON FUNCTION alvyn.park_event(text, bigint, alvyn.event, text, text) IS
    'Put an event aside that a handler failed on, or that lies behind such an event';

CREATE FUNCTION alvyn.skip_parked(
    name text,
    "position" bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.open_projection(skip_parked.name);
    DELETE FROM alvyn.parked_events p
     WHERE p.name = skip_parked.name
       AND p."position" = skip_parked."position";
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('projection "%s" has no parked event at position %s',
                             skip_parked.name, skip_parked."position");
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.skip_parked(text, bigint) IS
    'Give a parked event up';

CREATE FUNCTION alvyn.unpark_event(
    name text,
    generation bigint,
    "position" bigint
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    DELETE FROM alvyn.parked_events p
     WHERE p.name = unpark_event.name
       AND p.generation = unpark_event.generation
       AND p."position" = unpark_event."position";
END;
COMMENT ON FUNCTION alvyn.unpark_event(text, bigint, bigint) IS
    'Record that a parked event was handled';

CREATE FUNCTION alvyn.is_transient(
    sqlstate text
) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN is_transient.sqlstate ~ '^(40|53|57|58|XX)' OR is_transient.sqlstate = '55P03';
COMMENT ON FUNCTION alvyn.is_transient(text) IS
    'Is it an error of the moment, such as a deadlock or a full disk, and not of the event?';

CREATE FUNCTION alvyn.handle_or_park(
    handler regprocedure,
    events alvyn.event[],
    projection text,
    generation bigint,
    path text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_parked text[] := ARRAY(SELECT DISTINCT p.stream_id
                               FROM alvyn.parked_events p
                              WHERE p.name = handle_or_park.projection
                                AND p.generation = handle_or_park.generation);
    v_rest alvyn.event[];
    v_event alvyn.event;
BEGIN
    PERFORM alvyn.park_event(handle_or_park.projection, handle_or_park.generation, e)
       FROM unnest(handle_or_park.events) e
      WHERE e.stream_id = ANY (v_parked);
    v_rest := ARRAY(SELECT e FROM unnest(handle_or_park.events) e WHERE e.stream_id <> ALL (v_parked));
    -- All of them at once: one subtransaction, unless there is an error.
    BEGIN
        PERFORM alvyn.handle(handle_or_park.handler, v_rest, handle_or_park.projection, handle_or_park.generation,
                             handle_or_park.path);
        RETURN;
    EXCEPTION WHEN OTHERS THEN
        IF alvyn.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
    END;
    FOREACH v_event IN ARRAY v_rest LOOP
        IF v_event.stream_id = ANY (v_parked) THEN
            PERFORM alvyn.park_event(handle_or_park.projection, handle_or_park.generation, v_event);
            CONTINUE;
        END IF;
        BEGIN
            PERFORM alvyn.handle(handle_or_park.handler, ARRAY[v_event], handle_or_park.projection,
                                 handle_or_park.generation, handle_or_park.path);
        EXCEPTION WHEN OTHERS THEN
            IF alvyn.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM alvyn.park_event(handle_or_park.projection, handle_or_park.generation, v_event, SQLSTATE, SQLERRM);
            v_parked := v_parked || v_event.stream_id;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION alvyn.handle_or_park(regprocedure, alvyn.event[], text, bigint, text) IS
    'Call a handler with events, and put those aside that it fails on, with all later ones of their streams';

CREATE FUNCTION alvyn.run_generation(
    projection alvyn.projections,
    consumer text,
    generation bigint,
    signature text,
    max_count int,
    path text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name text := (run_generation.projection).name;
    v_handler regprocedure := alvyn.handler_function(v_name, run_generation.signature);
    v_events alvyn.event[] := ARRAY(SELECT e FROM alvyn.consume(run_generation.consumer, run_generation.max_count) e);
    v_count int := cardinality(v_events);
BEGIN
    IF v_count = 0 THEN
        RETURN 0;
    END IF;
    IF (run_generation.projection).on_error = 'park' THEN
        PERFORM alvyn.handle_or_park(v_handler, v_events, v_name, run_generation.generation, run_generation.path);
    ELSE
        PERFORM alvyn.handle(v_handler, v_events, v_name, run_generation.generation, run_generation.path);
    END IF;
    PERFORM alvyn.checkpoint(run_generation.consumer, (v_events[v_count])."position");
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.run_generation(alvyn.projections, text, bigint, text, int, text) IS
    'Handle the next events of one generation of a projection';

CREATE FUNCTION alvyn.swap_generation(
    name text
) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_building bigint;
BEGIN
    -- The generation that is built may even be ahead, when events came between.
    UPDATE alvyn.consumer_partitions c
       SET "position" = b."position",
           removal_no = b.removal_no
      FROM alvyn.consumer_partitions b
     WHERE c.name = swap_generation.name
       AND b.name = swap_generation.name || '/rebuild'
       AND b."position" >= c."position";
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE alvyn.projections p
       SET generation = p.building,
           handler = coalesce(p.building_handler, p.handler),
           building = NULL,
           building_handler = NULL
     WHERE p.name = swap_generation.name
    RETURNING p.generation INTO v_building;
    DELETE FROM alvyn.parked_events e WHERE e.name = swap_generation.name AND e.generation <> v_building;
    DELETE FROM alvyn.consumer_partitions c WHERE c.name = swap_generation.name || '/rebuild';
    DELETE FROM alvyn.consumer_definitions d WHERE d.name = swap_generation.name || '/rebuild';
    RETURN true;
END
$$;
COMMENT ON FUNCTION alvyn.swap_generation(text) IS
    'Let the generation that is being built serve, if it has caught up';

CREATE FUNCTION alvyn.build_generation(
    projection alvyn.projections,
    max_count int,
    path text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_old alvyn.projections := build_generation.projection;
    v_count bigint;
    v_function text;
BEGIN
    v_count := alvyn.run_generation(v_old, v_old.name || '/rebuild', v_old.building,
                                    coalesce(v_old.building_handler, v_old.handler),
                                    build_generation.max_count, build_generation.path);
    IF alvyn.swap_generation(v_old.name) AND v_old.on_swap IS NOT NULL THEN
        SELECT format('%I.%I', n.nspname, p.proname) INTO v_function
          FROM pg_proc p
          JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE p.oid = alvyn.handler_function(v_old.name, v_old.on_swap);
        PERFORM set_config('search_path', build_generation.path, true);
        EXECUTE format('SELECT %s($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int8)', v_function)
          USING v_old.name, v_old.generation, v_old.building;
    END IF;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.build_generation(alvyn.projections, int, text) IS
    'Handle the next events of the generation that is being built, and let it serve when it has caught up';

CREATE FUNCTION alvyn.run_projection_under(
    name text,
    max_count int,
    path text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_projection alvyn.projections;
    v_count bigint := 0;
    v_failed boolean := false;
BEGIN
    IF coalesce(run_projection_under.max_count, 0) < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "max_count" must be at least 1',
            DETAIL = format('It is %s.', coalesce(run_projection_under.max_count::text, 'null'));
    END IF;
    v_projection := alvyn.open_projection(run_projection_under.name);
    PERFORM alvyn.check_owner(v_projection);
    IF v_projection.building IS NULL THEN
        v_count := alvyn.run_generation(v_projection, v_projection.name, v_projection.generation,
                                        v_projection.handler, run_projection_under.max_count,
                                        run_projection_under.path);
    ELSE
        -- A generation that has stopped must not stop the one that replaces it.
        BEGIN
            v_count := alvyn.run_generation(v_projection, v_projection.name, v_projection.generation,
                                            v_projection.handler, run_projection_under.max_count,
                                            run_projection_under.path);
        EXCEPTION WHEN OTHERS THEN
            IF alvyn.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM alvyn.note_projection(v_projection.name, SQLSTATE, SQLERRM);
            v_failed := true;
        END;
        v_count := v_count + alvyn.build_generation(v_projection, run_projection_under.max_count,
                                                    run_projection_under.path);
    END IF;
    IF v_projection.failures > 0 AND NOT v_failed THEN
        PERFORM alvyn.note_projection(v_projection.name);
    END IF;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.run_projection_under(text, int, text) IS
    'Handle the next events of a projection, with the search_path that its handler is called under';

CREATE FUNCTION alvyn.run_projection(
    name text,
    max_count int DEFAULT 500
) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT alvyn.run_projection_under(run_projection.name, run_projection.max_count,
                                      pg_catalog.current_setting('search_path'));
END;
COMMENT ON FUNCTION alvyn.run_projection(text, int) IS
    'Handle the next events of a projection and move its checkpoint; returns how many there were';

CREATE FUNCTION alvyn.retry_parked_under(
    name text,
    stream_id text,
    path text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_projection alvyn.projections := alvyn.open_projection(retry_parked_under.name);
    v_parked alvyn.parked_events;
    v_event alvyn.event;
    v_failed text[] := '{}';
    v_count bigint := 0;
BEGIN
    PERFORM alvyn.check_owner(v_projection);
    FOR v_parked IN
        SELECT p.*
          FROM alvyn.parked_events p
         WHERE p.name = v_projection.name
           AND p.stream_id = coalesce(retry_parked_under.stream_id, p.stream_id)
         ORDER BY p.generation, p."position"
    LOOP
        CONTINUE WHEN v_parked.generation || '/' || v_parked.stream_id = ANY (v_failed);
        SELECT * INTO v_event FROM alvyn.read(v_parked."position" - 1, 1, snapshots => true, wait => false);
        BEGIN
            IF v_event."position" IS DISTINCT FROM v_parked."position" THEN
                v_event."position" := v_parked."position";
                v_event.stream_id := v_parked.stream_id;
                RAISE EXCEPTION USING
                    ERRCODE = 'object_not_in_prerequisite_state',
                    MESSAGE = format('event at position %s was removed', v_parked."position");
            END IF;
            PERFORM alvyn.handle(alvyn.handler_function(v_projection.name,
                                                        CASE v_parked.generation WHEN v_projection.building
                                                        THEN coalesce(v_projection.building_handler, v_projection.handler)
                                                        ELSE v_projection.handler END),
                                 ARRAY[v_event], v_projection.name, v_parked.generation, retry_parked_under.path);
            v_count := v_count + 1;
            PERFORM alvyn.unpark_event(v_parked.name, v_parked.generation, v_parked."position");
        EXCEPTION WHEN OTHERS THEN
            IF alvyn.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM alvyn.park_event(v_parked.name, v_parked.generation, v_event, SQLSTATE, SQLERRM);
            v_failed := v_failed || (v_parked.generation || '/' || v_parked.stream_id);
        END;
    END LOOP;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.retry_parked_under(text, text, text) IS
    'Handle parked events, with the search_path that the handler is called under';

CREATE FUNCTION alvyn.retry_parked(
    name text,
    stream_id text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT alvyn.retry_parked_under(retry_parked.name, retry_parked.stream_id,
                                    pg_catalog.current_setting('search_path'));
END;
COMMENT ON FUNCTION alvyn.retry_parked(text, text) IS
    'Handle the parked events of all streams or of one, in order, up to the first of each stream that fails again; returns how many were handled';

CREATE FUNCTION alvyn.rebuild_projection(
    name text,
    handler regprocedure DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_projection alvyn.projections := alvyn.open_projection(rebuild_projection.name);
BEGIN
    IF v_projection.building IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('projection "%s" is being rebuilt', rebuild_projection.name),
            DETAIL = format('Generation %s is being built.', v_projection.building),
            HINT = 'Wait for its end, or use cancel_rebuild().',
            CONSTRAINT = 'rebuild';
    END IF;
    IF (SELECT pg_has_role(session_user, r.oid, 'MEMBER')
          FROM pg_roles r
         WHERE r.rolname = v_projection.owner) IS NOT TRUE AND rebuild_projection.handler IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('must be a member of role "%s"', v_projection.owner);
    END IF;
    INSERT INTO alvyn.consumer_definitions (name, category, prefix, types, snapshots, partitions, key)
    SELECT d.name || '/rebuild', d.category, d.prefix, d.types, d.snapshots, d.partitions, d.key
      FROM alvyn.consumer_definitions d
     WHERE d.name = rebuild_projection.name;
    INSERT INTO alvyn.consumer_partitions (name, partition, "position")
    VALUES (rebuild_projection.name || '/rebuild', 0, 0);
    -- A number is never used again, not even after a rebuild that was cancelled.
    UPDATE alvyn.projections p
       SET building = p.last_building + 1,
           last_building = p.last_building + 1,
           building_handler = alvyn.check_handler('handler', rebuild_projection.handler)
     WHERE p.name = rebuild_projection.name
    RETURNING p.building INTO v_projection.building;
    RETURN v_projection.building;
END
$$;
COMMENT ON FUNCTION alvyn.rebuild_projection(text, regprocedure) IS
    'Begin a new generation of a projection, which serves when it has caught up; returns its number';

CREATE FUNCTION alvyn.cancel_rebuild(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_projection alvyn.projections := alvyn.open_projection(cancel_rebuild.name);
BEGIN
    IF v_projection.building IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('projection "%s" is not being rebuilt', cancel_rebuild.name);
    END IF;
    UPDATE alvyn.projections p
       SET building = NULL,
           building_handler = NULL
     WHERE p.name = cancel_rebuild.name;
    DELETE FROM alvyn.parked_events e WHERE e.name = cancel_rebuild.name AND e.generation = v_projection.building;
    DELETE FROM alvyn.consumer_partitions c WHERE c.name = cancel_rebuild.name || '/rebuild';
    DELETE FROM alvyn.consumer_definitions d WHERE d.name = cancel_rebuild.name || '/rebuild';
END
$$;
COMMENT ON FUNCTION alvyn.cancel_rebuild(text) IS
    'Give up the generation that is being built; what its handler wrote stays';

CREATE FUNCTION alvyn.enable_projection(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.open_projection(enable_projection.name);
    UPDATE alvyn.projections p
       SET enabled = true,
           retry_at = NULL
     WHERE p.name = enable_projection.name;
END
$$;
COMMENT ON FUNCTION alvyn.enable_projection(text) IS
    'Let the worker run a projection, from now on and at once';

CREATE FUNCTION alvyn.disable_projection(
    name text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.open_projection(disable_projection.name);
    UPDATE alvyn.projections p
       SET enabled = false
     WHERE p.name = disable_projection.name;
END
$$;
COMMENT ON FUNCTION alvyn.disable_projection(text) IS
    'Take a projection from the worker';

CREATE VIEW alvyn.projection_status AS
SELECT p.name,
       p.generation,
       p.building,
       c."position",
       greatest(alvyn.last_position() - c."position", 0) AS lag_positions,
       b."position" AS building_position,
       p.enabled,
       CASE WHEN p.failures = 0 THEN 'active' ELSE 'stopped' END COLLATE "C" AS state,
       p.failures,
       p.error_sqlstate,
       p.error_message,
       p.error_position,
       p.retry_at,
       (SELECT pg_catalog.count(*) FROM alvyn.parked_events e WHERE e.name = p.name) AS parked
  FROM alvyn.projections p
  LEFT JOIN alvyn.consumer_partitions c ON c.name = p.name
  LEFT JOIN alvyn.consumer_partitions b ON b.name = p.name || '/rebuild';
COMMENT ON VIEW alvyn.projection_status IS
    'The projections: generations, checkpoints, how far behind, the last error, parked events';
