-- CloudEvents 1.0.2, JSON format: events as other systems send and read them.
--
-- Metadata holds, under their own names, the attributes that an event has no
-- column for: source, subject, datacontenttype, dataschema and extensions.
-- What is no valid attribute there travels as the text of a JSON object in
-- the extension "alvynmetadata".  "data_form", which cannot be the name of an
-- attribute, tells of an event that came with binary data or with none.

CREATE FUNCTION alvyn.is_attribute(
    name text,
    value jsonb
) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT is_attribute.name ~ '^[a-z0-9]+$'
           AND CASE pg_catalog.jsonb_typeof(is_attribute.value)
                   WHEN 'boolean' THEN true
                   WHEN 'number' THEN is_attribute.value::text ~ '^-?[0-9]{1,10}$'
                                      AND is_attribute.value::numeric BETWEEN -2147483648 AND 2147483647
                   WHEN 'string' THEN (is_attribute.value #>> '{}') !~ '[\x01-\x1f\x7f]'
                   ELSE false
               END;
END;
COMMENT ON FUNCTION alvyn.is_attribute(text, jsonb) IS
    'Can CloudEvents have an attribute of this name and value?';

CREATE FUNCTION alvyn.is_context_attribute(
    name text,
    value jsonb
) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
    SELECT alvyn.is_attribute(is_context_attribute.name, is_context_attribute.value)
           AND pg_catalog.jsonb_typeof(is_context_attribute.value) = 'string'
           AND (is_context_attribute.value #>> '{}') ~
               CASE is_context_attribute.name
                   WHEN 'specversion' THEN '^1\.0$'
                   WHEN 'source' THEN '^[A-Za-z0-9._~:/?#@!$&''()*+,;=%\[\]-]+$'
                   WHEN 'dataschema' THEN '^[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&''()*+,;=%\[\]-]+$'
                   WHEN 'datacontenttype' THEN '^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+\s*(;.*)?$'
                   WHEN 'time' THEN '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$'
                   ELSE '.'
               END;
END;
COMMENT ON FUNCTION alvyn.is_context_attribute(text, jsonb) IS
    'Is this a valid value of a context attribute that CloudEvents defines?';

CREATE FUNCTION alvyn.cloudevent(
    event alvyn.event,
    source text DEFAULT '/alvyn'
) RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_metadata jsonb := coalesce(event.metadata, '{}');
    v_given jsonb := '{}';
    v_rest jsonb := '{}';
    v_name text;
    v_value jsonb;
    v_form text;
BEGIN
    IF NOT alvyn.is_context_attribute('source', to_jsonb(cloudevent.source)) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "source" is not a URI reference',
            DETAIL = format('It is %L.', cloudevent.source);
    END IF;
    IF jsonb_typeof(v_metadata) <> 'object' THEN
        v_metadata := jsonb_build_object('metadata', v_metadata);
    END IF;
    IF v_metadata -> 'data_form' = '"base64"' AND jsonb_typeof(event.data) = 'string'
       OR v_metadata -> 'data_form' = '"none"' AND event.data = 'null' THEN
        v_form := v_metadata ->> 'data_form';
        v_metadata := v_metadata - 'data_form';
    END IF;
    FOR v_name, v_value IN SELECT m.key, m.value FROM jsonb_each(v_metadata) m LOOP
        IF (CASE
               WHEN v_name IN ('source', 'subject', 'datacontenttype', 'dataschema')
                   THEN alvyn.is_context_attribute(v_name, v_value)
               WHEN v_name IN ('specversion', 'id', 'type', 'time', 'data') THEN false
               ELSE alvyn.is_attribute(v_name, v_value)
           END) THEN
            v_given := v_given || jsonb_build_object(v_name, v_value);
        ELSE
            v_rest := v_rest || jsonb_build_object(v_name, v_value);
        END IF;
    END LOOP;
    -- An event with a source of its own came from elsewhere.
    IF NOT v_given ? 'source' THEN
        v_given := jsonb_build_object('source', cloudevent.source,
                                      'subject', event.stream_id,
                                      'datacontenttype', 'application/json') || v_given;
    END IF;
    IF v_rest <> '{}' THEN
        v_rest := v_rest || jsonb_strip_nulls(jsonb_build_object('alvynmetadata', v_given -> 'alvynmetadata'));
        v_given := v_given || jsonb_build_object('alvynmetadata', v_rest::text);
    END IF;
    IF v_form IS DISTINCT FROM 'none' THEN
        v_given := v_given || jsonb_build_object(CASE v_form WHEN 'base64' THEN 'data_base64' ELSE 'data' END, event.data);
    END IF;
    RETURN v_given || jsonb_build_object(
        'specversion', '1.0',
        'id', event.id,
        'type', event.type,
        'time', regexp_replace(to_char(event."time" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'),
                               '\.?0+$', '') || 'Z');
END
$$;
COMMENT ON FUNCTION alvyn.cloudevent(alvyn.event, text) IS
    'An event as a CloudEvent in JSON format';

CREATE FUNCTION alvyn.check_cloudevent(
    cloudevent jsonb
) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_name text;
    v_value jsonb;
BEGIN
    IF jsonb_typeof(check_cloudevent.cloudevent) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "cloudevent" is not a JSON object';
    END IF;
    FOREACH v_name IN ARRAY ARRAY['specversion', 'id', 'source', 'type'] LOOP
        IF coalesce(check_cloudevent.cloudevent -> v_name, 'null') = 'null' THEN
            RAISE EXCEPTION USING
                ERRCODE = 'invalid_parameter_value',
                MESSAGE = format('attribute "%s" is missing', v_name);
        END IF;
    END LOOP;
    IF check_cloudevent.cloudevent ? 'data' AND check_cloudevent.cloudevent ->> 'data_base64' IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'attributes "data" and "data_base64" exclude each other';
    END IF;
    FOR v_name, v_value IN SELECT c.key, c.value FROM jsonb_each(check_cloudevent.cloudevent) c ORDER BY c.key LOOP
        IF v_name = 'data' OR v_value = 'null' THEN
            CONTINUE;
        END IF;
        IF NOT (CASE
                   WHEN v_name = 'data_base64'
                       THEN jsonb_typeof(v_value) = 'string'
                            AND (v_value #>> '{}') ~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$'
                   WHEN v_name IN ('specversion', 'id', 'source', 'type', 'time', 'subject', 'datacontenttype', 'dataschema')
                       THEN alvyn.is_context_attribute(v_name, v_value)
                   ELSE alvyn.is_attribute(v_name, v_value)
               END) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'invalid_parameter_value',
                MESSAGE = format('attribute "%s" is not valid', v_name),
                DETAIL = format('It is %s.', left(v_value::text, 100)),
                HINT = 'CloudEvents 1.0 says which names and values attributes can have.';
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION alvyn.check_cloudevent(jsonb) IS
    'Refuse what is no CloudEvent in JSON format, with the name of the attribute';

CREATE FUNCTION alvyn.unpack_metadata(
    value jsonb
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_metadata jsonb;
BEGIN
    v_metadata := unpack_metadata.value #>> '{}';
    IF jsonb_typeof(v_metadata) = 'object' THEN
        RETURN v_metadata;
    END IF;
    RETURN jsonb_build_object('alvynmetadata', unpack_metadata.value);
EXCEPTION WHEN data_exception THEN
    RETURN jsonb_build_object('alvynmetadata', unpack_metadata.value);
END
$$;
COMMENT ON FUNCTION alvyn.unpack_metadata(jsonb) IS
    'Metadata that cloudevent has put into the extension "alvynmetadata", or that extension if it is anything else';

CREATE FUNCTION alvyn.from_cloudevent(
    cloudevent jsonb,
    OUT message_id text,
    OUT source text,
    OUT subject text,
    OUT id text,
    OUT type text,
    OUT "time" timestamptz,
    OUT data jsonb,
    OUT metadata jsonb
) RETURNS record
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_event jsonb;
BEGIN
    PERFORM alvyn.check_cloudevent(from_cloudevent.cloudevent);
    v_event := jsonb_strip_nulls(from_cloudevent.cloudevent - 'data');
    source := v_event ->> 'source';
    subject := v_event ->> 'subject';
    id := v_event ->> 'id';
    type := v_event ->> 'type';
    BEGIN
        "time" := v_event ->> 'time';
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'attribute "time" is not valid',
            DETAIL = format('It is %s.', v_event -> 'time');
    END;
    -- No source has a blank, so that no two pairs come to the same text.
    message_id := concat(source, ' ', id);
    data := coalesce(from_cloudevent.cloudevent -> 'data', v_event -> 'data_base64', 'null');
    metadata := v_event - ARRAY['specversion', 'id', 'type', 'time', 'alvynmetadata', 'data_base64']
                || CASE
                       WHEN v_event ? 'data_base64' THEN '{"data_form": "base64"}'
                       WHEN from_cloudevent.cloudevent ? 'data' THEN '{}'
                       ELSE '{"data_form": "none"}'
                   END::jsonb
                || coalesce(alvyn.unpack_metadata(v_event -> 'alvynmetadata'), '{}');
END
$$;
COMMENT ON FUNCTION alvyn.from_cloudevent(jsonb) IS
    'A CloudEvent in JSON format, taken apart for receive or append';
