-- Tenants: who appends, how much, and how much they may.
--
-- A tenant is a name in the metadata of events (src/tenant.c).  Usage is added
-- up by a consumer of the feed, so that appends write no common row.

CREATE TABLE alvyn.api_keys (
    prefix text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (prefix),
    CONSTRAINT api_keys_hash_key UNIQUE (hash)
);
COMMENT ON TABLE alvyn.api_keys IS
    'API keys of tenants, of which only the hashes are kept';
COMMENT ON COLUMN alvyn.api_keys.prefix IS
    'How the key begins, to tell keys apart';
COMMENT ON COLUMN alvyn.api_keys.hash IS
    'SHA-256 of the key';

CREATE TABLE alvyn.tenant_quotas (
    tenant text COLLATE "C" NOT NULL,
    period text COLLATE "C" NOT NULL,
    events bigint,
    bytes bigint,
    commands bigint,
    CONSTRAINT tenant_quotas_pkey PRIMARY KEY (tenant, period)
);
COMMENT ON TABLE alvyn.tenant_quotas IS
    'What tenants may append in an hour, a day or a month; null for any number';

CREATE TABLE alvyn.usage_hours (
    tenant text COLLATE "C" NOT NULL,
    hour timestamptz NOT NULL,
    events bigint NOT NULL,
    bytes bigint NOT NULL,
    commands bigint NOT NULL,
    CONSTRAINT usage_hours_pkey PRIMARY KEY (tenant, hour)
);
COMMENT ON TABLE alvyn.usage_hours IS
    'What tenants have appended, by the hour, as far as it was added up';

SELECT pg_catalog.pg_extension_config_dump('alvyn.api_keys', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.tenant_quotas', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.usage_hours', '');

-- Backends remember what is left of quotas.
CREATE TRIGGER tenant_quotas_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON alvyn.tenant_quotas
FOR EACH STATEMENT EXECUTE FUNCTION alvyn.definition_changed();
CREATE TRIGGER usage_hours_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON alvyn.usage_hours
FOR EACH STATEMENT EXECUTE FUNCTION alvyn.definition_changed();

CREATE FUNCTION alvyn.check_tenant(
    tenant text
) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(check_tenant.tenant, '') !~ '^[A-Za-z0-9._-]{1,63}$' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "tenant" is out of range',
            DETAIL = 'It must have 1 to 63 letters, digits, dots, hyphens and underscores.';
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.check_tenant(text) IS
    'Refuse what cannot be the name of a tenant';

CREATE FUNCTION alvyn.create_api_key(
    tenant text,
    expires_at timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Two random UUIDs have 244 random bits.
    v_key text := 'alv_' || replace(concat(gen_random_uuid(), gen_random_uuid()), '-', '');
BEGIN
    PERFORM alvyn.check_tenant(create_api_key.tenant);
    INSERT INTO alvyn.api_keys (prefix, tenant, hash, expires_at)
    VALUES (left(v_key, 16), create_api_key.tenant, sha256(convert_to(v_key, 'UTF8')), create_api_key.expires_at);
    RETURN v_key;
END
$$;
COMMENT ON FUNCTION alvyn.create_api_key(text, timestamptz) IS
    'Make an API key for a tenant; it is shown this once';

CREATE FUNCTION alvyn.revoke_api_key(
    prefix text
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE alvyn.api_keys k
       SET revoked_at = coalesce(k.revoked_at, clock_timestamp())
     WHERE k.prefix = left(revoke_api_key.prefix, 16);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('API key "%s" does not exist', left(revoke_api_key.prefix, 16));
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.revoke_api_key(text) IS
    'Let an API key open nothing any more; the key or its first 16 characters';

CREATE FUNCTION alvyn.authenticate(
    key text,
    session boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_tenant text;
BEGIN
    SELECT k.tenant INTO v_tenant
      FROM alvyn.api_keys k
     WHERE k.hash = sha256(convert_to(authenticate.key, 'UTF8'))
       AND k.revoked_at IS NULL
       AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_authorization_specification',
            MESSAGE = 'API key is not valid',
            DETAIL = 'It is unknown, expired or revoked.',
            CONSTRAINT = 'api_key';
    END IF;
    -- The setting exists once the library is loaded.
    PERFORM alvyn.stream_slot('');
    PERFORM set_config('alvyn.tenant', v_tenant, authenticate.session IS NOT TRUE);
    RETURN v_tenant;
END
$$;
COMMENT ON FUNCTION alvyn.authenticate(text, boolean) IS
    'Set the tenant that an API key belongs to, for the transaction or the session';

CREATE FUNCTION alvyn.set_quota(
    tenant text,
    period text,
    events bigint DEFAULT NULL,
    bytes bigint DEFAULT NULL,
    commands bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.check_tenant(set_quota.tenant);
    IF coalesce(set_quota.period, '') NOT IN ('hour', 'day', 'month') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "period" is out of range',
            DETAIL = 'It must be hour, day or month.';
    END IF;
    IF least(set_quota.events, set_quota.bytes, set_quota.commands) < 0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'arguments "events", "bytes" and "commands" must be at least 0';
    END IF;
    IF coalesce(set_quota.events, set_quota.bytes, set_quota.commands) IS NULL THEN
        DELETE FROM alvyn.tenant_quotas q
         WHERE q.tenant = set_quota.tenant
           AND q.period = set_quota.period;
        RETURN;
    END IF;
    INSERT INTO alvyn.tenant_quotas AS q (tenant, period, events, bytes, commands)
    VALUES (set_quota.tenant, set_quota.period, set_quota.events, set_quota.bytes, set_quota.commands)
    ON CONFLICT ON CONSTRAINT tenant_quotas_pkey DO UPDATE
       SET events = excluded.events,
           bytes = excluded.bytes,
           commands = excluded.commands;
END
$$;
COMMENT ON FUNCTION alvyn.set_quota(text, text, bigint, bigint, bigint) IS
    'Limit what a tenant may append in an hour, a day or a month; without numbers, lift the limit';

CREATE FUNCTION alvyn.account_usage(
    max_count int DEFAULT 100000
) RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_partition alvyn.consumer_partitions;
    v_since timestamptz;
    v_last bigint;
BEGIN
    IF account_usage.max_count < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "max_count" must be at least 1',
            DETAIL = format('It is %s.', account_usage.max_count);
    END IF;
    -- What is final has to be visible to the statement that adds it up.
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'cannot account usage in a transaction that keeps its snapshot',
            HINT = 'Call account_usage() at READ COMMITTED.';
    END IF;
    IF NOT EXISTS (SELECT FROM alvyn.consumer_definitions d WHERE d.name = 'alvyn.usage') THEN
        PERFORM alvyn.create_consumer('alvyn.usage');
    END IF;
    v_partition := alvyn.lock_partition('alvyn.usage', 0, NULL);
    v_since := CASE WHEN v_partition."position" > 0 THEN v_partition.active_at END;
    v_last := least(alvyn.resolved_from(v_partition."position", false), v_partition."position" + account_usage.max_count);

    -- A call advances the command counter, so that (xmin, cmin) tells calls
    -- apart.  An event belongs to the hour of its time, but to none before the
    -- last run and to none to come: whoever gives a time cannot choose.
    INSERT INTO alvyn.usage_hours AS u (tenant, hour, events, bytes, commands)
    SELECT c.tenant, c.hour, sum(c.events), sum(c.bytes), count(*)
      FROM (SELECT e.metadata ->> 'tenant' AS tenant,
                   date_bin('1 hour', greatest(least(e."time", now()), v_since), '2000-01-01 00:00:00+00') AS hour,
                   count(*) AS events,
                   sum(pg_column_size(e.data) + pg_column_size(e.metadata)) AS bytes
              FROM alvyn.events e
             WHERE e."position" > v_partition."position"
               AND e."position" <= v_last
               AND e.metadata ? 'tenant'
             GROUP BY 1, 2, e.xmin, e.cmin) c
     WHERE c.tenant IS NOT NULL
     GROUP BY c.tenant, c.hour
     ORDER BY c.tenant, c.hour
    ON CONFLICT ON CONSTRAINT usage_hours_pkey DO UPDATE
       SET events = u.events + excluded.events,
           bytes = u.bytes + excluded.bytes,
           commands = u.commands + excluded.commands;
    PERFORM alvyn.check_removals('alvyn.usage', 0);
    IF v_last > v_partition."position" THEN
        PERFORM alvyn.checkpoint('alvyn.usage', 0, NULL, v_last);
    END IF;
    RETURN v_last - v_partition."position";
END
$$;
COMMENT ON FUNCTION alvyn.account_usage(int) IS
    'Add up what tenants have appended since the last call; returns how many positions it has come past';

CREATE VIEW alvyn.usage AS
SELECT u.tenant,
       pg_catalog.date_trunc('day', u.hour, 'UTC') AS day,
       pg_catalog.sum(u.events)::bigint AS events,
       pg_catalog.sum(u.bytes)::bigint AS bytes,
       pg_catalog.sum(u.commands)::bigint AS commands
  FROM alvyn.usage_hours u
 GROUP BY u.tenant, pg_catalog.date_trunc('day', u.hour, 'UTC');
COMMENT ON VIEW alvyn.usage IS
    'What tenants have appended, by day in UTC, as far as it was added up';
