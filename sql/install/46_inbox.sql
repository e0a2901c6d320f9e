-- The inbox: messages of other systems, appended once.
--
-- It is an append whose idempotency key is made of source and message id.
-- receive() runs with the rights of its caller, since an append can run
-- functions that others have defined; only the check of the signature needs
-- the secrets, which the caller may not see.

CREATE TABLE alvyn.inbox_sources (
    source text COLLATE "C" NOT NULL,
    signed boolean NOT NULL,
    format text COLLATE "C" NOT NULL,
    max_bytes int NOT NULL,
    dedup_window interval,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT inbox_sources_pkey PRIMARY KEY (source)
);
COMMENT ON TABLE alvyn.inbox_sources IS
    'Systems that messages are received from';
COMMENT ON COLUMN alvyn.inbox_sources.format IS
    'What the body is: json (the data), cloudevent (a whole CloudEvent), raw (nothing that is looked into)';
COMMENT ON COLUMN alvyn.inbox_sources.dedup_window IS
    'A message older than this is refused, and a younger one known if it came before; null for no limit';

CREATE TABLE alvyn.inbox_secrets (
    source text COLLATE "C" NOT NULL,
    secret_no bigint NOT NULL,
    secret bytea NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_until timestamptz,
    CONSTRAINT inbox_secrets_pkey PRIMARY KEY (source, secret_no)
);
COMMENT ON TABLE alvyn.inbox_secrets IS
    'Secrets that sources sign their messages with';

-- The counters stand first: src/tally.c changes them where they are.
CREATE TABLE alvyn.inbox_counts (
    unsigned bigint NOT NULL DEFAULT 0,
    invalid bigint NOT NULL DEFAULT 0,
    oversized bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    replayed bigint NOT NULL DEFAULT 0,
    duplicates bigint NOT NULL DEFAULT 0,
    source text COLLATE "C" NOT NULL,
    CONSTRAINT inbox_counts_pkey PRIMARY KEY (source)
) USING heap;
COMMENT ON TABLE alvyn.inbox_counts IS
    'How many messages of each source were refused and why; changed in place, never by UPDATE';

SELECT pg_catalog.pg_extension_config_dump('alvyn.inbox_sources', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.inbox_secrets', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.inbox_counts', '');

CREATE FUNCTION alvyn.count_message(
    source text,
    counter int
) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_count_message';
COMMENT ON FUNCTION alvyn.count_message(text, int) IS
    'Add 1 to a counter of a source, counted from 0, and keep it whatever becomes of the transaction';

CREATE FUNCTION alvyn.hmac_matches(
    body bytea,
    secrets bytea[],
    signature bytea
) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'alvyn_hmac_matches';
COMMENT ON FUNCTION alvyn.hmac_matches(bytea, bytea[], bytea) IS
    'Is the signature the HMAC-SHA-256 of the body with one of the secrets?';

CREATE FUNCTION alvyn.check_source(
    source text,
    format text,
    max_bytes int,
    dedup_window interval
) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_argument text;
    v_detail text;
BEGIN
    IF coalesce(check_source.source, '') !~ '^[a-z0-9][a-z0-9._-]{0,62}$' THEN
        v_argument := 'source';
        v_detail := 'It must have 1 to 63 lower-case letters, digits, dots, hyphens and underscores.';
    ELSIF coalesce(check_source.format, '') NOT IN ('json', 'cloudevent', 'raw') THEN
        v_argument := 'format';
        v_detail := 'It must be json, cloudevent or raw.';
    ELSIF coalesce(check_source.max_bytes, 0) < 1 THEN
        v_argument := 'max_bytes';
        v_detail := 'It must be at least 1.';
    ELSIF NOT check_source.dedup_window BETWEEN '1 second' AND '100 years' THEN
        v_argument := 'dedup_window';
        v_detail := 'It must be 1 second to 100 years, or null.';
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'invalid_parameter_value',
        MESSAGE = format('argument "%s" is out of range', v_argument),
        DETAIL = v_detail;
END
$$;
COMMENT ON FUNCTION alvyn.check_source(text, text, int, interval) IS
    'Refuse a definition of a source that makes no sense';

CREATE FUNCTION alvyn.create_source(
    source text,
    signed boolean DEFAULT true,
    format text DEFAULT 'json',
    max_bytes int DEFAULT 1048576,
    dedup_window interval DEFAULT '7 days'
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.check_source(create_source.source, create_source.format, create_source.max_bytes,
                               create_source.dedup_window);
    INSERT INTO alvyn.inbox_sources (source, signed, format, max_bytes, dedup_window)
    VALUES (create_source.source, coalesce(create_source.signed, true), create_source.format,
            create_source.max_bytes, create_source.dedup_window);
    INSERT INTO alvyn.inbox_counts (source) VALUES (create_source.source);
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING
        ERRCODE = 'duplicate_object',
        MESSAGE = format('inbox source "%s" already exists', create_source.source);
END
$$;
COMMENT ON FUNCTION alvyn.create_source(text, boolean, text, int, interval) IS
    'Define a system that messages are received from';

CREATE FUNCTION alvyn.find_source(
    source text
) RETURNS alvyn.inbox_sources
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_source alvyn.inbox_sources;
BEGIN
    SELECT * INTO v_source FROM alvyn.inbox_sources s WHERE s.source = find_source.source;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('inbox source "%s" does not exist', find_source.source);
    END IF;
    RETURN v_source;
END
$$;
COMMENT ON FUNCTION alvyn.find_source(text) IS
    'The definition of a source, or an error';

CREATE FUNCTION alvyn.alter_source(
    source text,
    signed boolean,
    format text,
    max_bytes int,
    dedup_window interval
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.find_source(alter_source.source);
    PERFORM alvyn.check_source(alter_source.source, alter_source.format, alter_source.max_bytes,
                               alter_source.dedup_window);
    UPDATE alvyn.inbox_sources s
       SET signed = coalesce(alter_source.signed, true),
           format = alter_source.format,
           max_bytes = alter_source.max_bytes,
           dedup_window = alter_source.dedup_window
     WHERE s.source = alter_source.source;
END
$$;
COMMENT ON FUNCTION alvyn.alter_source(text, boolean, text, int, interval) IS
    'Define a source anew; its secrets and counts stay';

CREATE FUNCTION alvyn.drop_source(
    source text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.find_source(drop_source.source);
    DELETE FROM alvyn.inbox_secrets s WHERE s.source = drop_source.source;
    DELETE FROM alvyn.inbox_counts c WHERE c.source = drop_source.source;
    DELETE FROM alvyn.inbox_sources s WHERE s.source = drop_source.source;
END
$$;
COMMENT ON FUNCTION alvyn.drop_source(text) IS
    'Forget a source, its secrets and counts; what was received stays';

CREATE FUNCTION alvyn.add_secret(
    source text,
    secret bytea,
    valid_until timestamptz DEFAULT NULL,
    valid_from timestamptz DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_secret_no bigint;
BEGIN
    PERFORM alvyn.find_source(add_secret.source);
    IF coalesce(octet_length(add_secret.secret), 0) NOT BETWEEN 16 AND 1024 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "secret" is out of range',
            DETAIL = 'It must have 16 to 1024 bytes.';
    END IF;
    -- Numbers are given under the lock of the source, and not twice.
    PERFORM 1 FROM alvyn.inbox_sources s WHERE s.source = add_secret.source FOR NO KEY UPDATE;
    INSERT INTO alvyn.inbox_secrets (source, secret_no, secret, valid_from, valid_until)
    SELECT add_secret.source, coalesce(max(s.secret_no), 0) + 1, add_secret.secret,
           coalesce(add_secret.valid_from, clock_timestamp()), add_secret.valid_until
      FROM alvyn.inbox_secrets s
     WHERE s.source = add_secret.source
    RETURNING inbox_secrets.secret_no INTO v_secret_no;
    RETURN v_secret_no;
END
$$;
COMMENT ON FUNCTION alvyn.add_secret(text, bytea, timestamptz, timestamptz) IS
    'Add a secret to those that a source may sign with; returns its number';

CREATE FUNCTION alvyn.expire_secret(
    source text,
    secret_no bigint,
    valid_until timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE alvyn.inbox_secrets s
       SET valid_until = coalesce(expire_secret.valid_until, clock_timestamp())
     WHERE s.source = expire_secret.source
       AND s.secret_no = expire_secret.secret_no;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('inbox source "%s" does not exist or has no secret %s',
                             expire_secret.source, expire_secret.secret_no);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.expire_secret(text, bigint, timestamptz) IS
    'Let a secret be valid until a time, or no longer';

CREATE FUNCTION alvyn.remove_secrets(
    source text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_count bigint;
BEGIN
    PERFORM alvyn.find_source(remove_secrets.source);
    DELETE FROM alvyn.inbox_secrets s
     WHERE s.source = remove_secrets.source
       AND s.valid_until < clock_timestamp();
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.remove_secrets(text) IS
    'Remove the secrets of a source that are no longer valid; returns how many';

CREATE FUNCTION alvyn.decode_signature(
    signature text
) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_signature text := regexp_replace(decode_signature.signature, '^sha256=', '');
BEGIN
    IF v_signature ~ '^[0-9A-Fa-f]{64}$' THEN
        RETURN decode(v_signature, 'hex');
    ELSIF v_signature ~ '^[A-Za-z0-9+/]{43}=$' THEN
        RETURN decode(v_signature, 'base64');
    END IF;
    RETURN '';
END
$$;
COMMENT ON FUNCTION alvyn.decode_signature(text) IS
    'Bytes of a signature in hexadecimal or Base64, with or without sha256= before it; none for anything else';

CREATE FUNCTION alvyn.check_message(
    source text,
    size bigint,
    body bytea,
    signature text
) RETURNS alvyn.inbox_sources
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_source alvyn.inbox_sources := alvyn.find_source(check_message.source);
BEGIN
    IF check_message.size > v_source.max_bytes THEN
        PERFORM alvyn.count_message(v_source.source, 2);
        RAISE EXCEPTION USING
            ERRCODE = 'program_limit_exceeded',
            MESSAGE = format('message from source "%s" is too large', v_source.source),
            DETAIL = format('It has %s bytes, the limit is %s bytes.', check_message.size, v_source.max_bytes),
            CONSTRAINT = 'body_size';
    END IF;
    IF v_source.signed AND (check_message.signature IS NULL OR check_message.body IS NULL) THEN
        PERFORM alvyn.count_message(v_source.source, 0);
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_authorization_specification',
            MESSAGE = format('message from source "%s" is not signed', v_source.source),
            DETAIL = 'Messages of this source need body and signature.',
            CONSTRAINT = 'signature_missing';
    END IF;
    -- A signature that is not asked for must be right as well.
    IF check_message.signature IS NOT NULL
       AND NOT alvyn.hmac_matches(
            coalesce(check_message.body, ''),
            ARRAY(SELECT s.secret
                    FROM alvyn.inbox_secrets s
                   WHERE s.source = v_source.source
                     AND s.valid_from <= clock_timestamp()
                     AND (s.valid_until IS NULL OR s.valid_until > clock_timestamp())),
            alvyn.decode_signature(check_message.signature)) THEN
        PERFORM alvyn.count_message(v_source.source, 1);
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_authorization_specification',
            MESSAGE = format('signature of message from source "%s" is wrong', v_source.source),
            HINT = 'The signature must be the HMAC-SHA-256 of the body, byte by byte as it was sent, with a secret that is valid now.',
            CONSTRAINT = 'signature_invalid';
    END IF;
    RETURN v_source;
END
$$;
COMMENT ON FUNCTION alvyn.check_message(text, bigint, bytea, text) IS
    'Refuse and count a message that is too large, not signed, or wrongly signed';

CREATE FUNCTION alvyn.read_body(
    body bytea
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN convert_from(read_body.body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION USING
        ERRCODE = 'invalid_parameter_value',
        MESSAGE = 'argument "body" is not JSON',
        DETAIL = format('%s.', upper(left(SQLERRM, 1)) || substr(SQLERRM, 2));
END
$$;
COMMENT ON FUNCTION alvyn.read_body(bytea) IS
    'The JSON that a body is';

CREATE FUNCTION alvyn.same_as_body(
    name text,
    given anyelement,
    read anyelement
) RETURNS anyelement
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF same_as_body.given <> same_as_body.read THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('argument "%s" differs from the body', same_as_body.name),
            HINT = 'Leave it out; it is read from the body.';
    END IF;
    RETURN coalesce(same_as_body.read, same_as_body.given);
END
$$;
COMMENT ON FUNCTION alvyn.same_as_body(text, anyelement, anyelement) IS
    'What the body says, and the argument where it says nothing';

CREATE FUNCTION alvyn.receive(
    source text,
    message_id text,
    stream_id text,
    type text,
    data jsonb,
    metadata jsonb DEFAULT NULL,
    id text DEFAULT NULL,
    "time" timestamptz DEFAULT NULL,
    schema_version int DEFAULT 1,
    body bytea DEFAULT NULL,
    signature text DEFAULT NULL
) RETURNS alvyn.append_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_source alvyn.inbox_sources := alvyn.check_message(
        receive.source, coalesce(octet_length(receive.body), octet_length(receive.data::text)), receive.body,
        receive.signature);
    v_cloudevent record;
    v_result alvyn.append_result;
    v_constraint text;
BEGIN
    IF v_source.format = 'json' AND receive.body IS NOT NULL THEN
        data := alvyn.same_as_body('data', receive.data, alvyn.read_body(receive.body));
    ELSIF v_source.format = 'cloudevent' AND receive.body IS NOT NULL THEN
        v_cloudevent := alvyn.from_cloudevent(alvyn.read_body(receive.body));
        message_id := alvyn.same_as_body('message_id', receive.message_id, v_cloudevent.message_id);
        type := alvyn.same_as_body('type', receive.type, v_cloudevent.type);
        data := alvyn.same_as_body('data', receive.data, v_cloudevent.data);
        id := alvyn.same_as_body('id', receive.id, v_cloudevent.id);
        "time" := alvyn.same_as_body('time', receive."time", v_cloudevent."time");
        metadata := coalesce(receive.metadata, '{}') || v_cloudevent.metadata;
    END IF;
    IF octet_length(coalesce(receive.message_id, '')) NOT BETWEEN 1 AND 400 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "message_id" is out of range',
            DETAIL = 'It must have 1 to 400 bytes.';
    END IF;
    IF receive."time" < clock_timestamp() - v_source.dedup_window THEN
        PERFORM alvyn.count_message(v_source.source, 3);
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('message "%s" from source "%s" is too old', receive.message_id, v_source.source),
            DETAIL = format('Its time is %s, the window of the source is %s.', receive."time", v_source.dedup_window),
            CONSTRAINT = 'message_expired';
    END IF;
    BEGIN
        v_result := alvyn.append(receive.stream_id, NULL, receive.type, receive.data, receive.metadata, receive.id,
                                 receive."time", receive.schema_version,
                                 format('inbox:%s:%s', v_source.source, receive.message_id));
    EXCEPTION WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME;
        IF v_constraint = 'idempotency_key' THEN
            PERFORM alvyn.count_message(v_source.source, 4);
        END IF;
        RAISE;
    END;
    IF v_result.duplicate THEN
        PERFORM alvyn.count_message(v_source.source, 5);
    END IF;
    RETURN v_result;
END
$$;
COMMENT ON FUNCTION alvyn.receive(text, text, text, text, jsonb, jsonb, text, timestamptz, int, bytea, text) IS
    'Check the signature of a message and append it once';

CREATE VIEW alvyn.inbox_status AS
SELECT s.source,
       s.signed,
       s.format,
       s.max_bytes,
       s.dedup_window,
       (SELECT pg_catalog.count(*)
          FROM alvyn.inbox_secrets k
         WHERE k.source = s.source
           AND k.valid_from <= pg_catalog.clock_timestamp()
           AND (k.valid_until IS NULL OR k.valid_until > pg_catalog.clock_timestamp())) AS valid_secrets,
       c.unsigned,
       c.invalid,
       c.oversized,
       c.expired,
       c.replayed,
       c.duplicates
  FROM alvyn.inbox_sources s
  JOIN alvyn.inbox_counts c ON c.source = s.source;
COMMENT ON VIEW alvyn.inbox_status IS
    'The sources: what they may send, how many secrets are valid, how many messages were refused and why';
