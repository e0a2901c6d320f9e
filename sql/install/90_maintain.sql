-- Maintenance.

CREATE FUNCTION alvyn.purge_idempotency_keys(
    max_count int DEFAULT 10000
) RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_age interval;
    v_count bigint;
BEGIN
    IF purge_idempotency_keys.max_count < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "max_count" must be at least 1',
            DETAIL = format('It is %s.', purge_idempotency_keys.max_count);
    END IF;
    -- The setting exists once the library is loaded, which any function of
    -- it does.
    PERFORM alvyn.stream_slot('');
    -- Sources of the inbox rely on the keys as long as their windows say.
    v_age := greatest(make_interval(secs => extract(epoch FROM current_setting('alvyn.idempotency_retention')::interval)),
                      (SELECT max(s.dedup_window) FROM alvyn.inbox_sources s));
    DELETE FROM alvyn.idempotency_keys k
     WHERE k.key = ANY (ARRAY(
        SELECT o.key
          FROM alvyn.idempotency_keys o
         WHERE o.created_at < clock_timestamp() - v_age
         ORDER BY o.created_at
         LIMIT purge_idempotency_keys.max_count
           FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION alvyn.purge_idempotency_keys(int) IS
    'Remove idempotency keys older than alvyn.idempotency_retention and all windows of the inbox, the oldest first; returns how many';

-- Removals go on where usage cannot be added up.
CREATE FUNCTION alvyn.maintain_usage(
    max_rows int
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM alvyn.consumer_definitions d WHERE d.name = 'alvyn.usage')
       AND NOT EXISTS (SELECT FROM alvyn.tenant_quotas)
       AND NOT EXISTS (SELECT FROM alvyn.api_keys) THEN
        RETURN 0;
    END IF;
    RETURN alvyn.account_usage(maintain_usage.max_rows);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RAISE WARNING USING
        ERRCODE = 'object_not_in_prerequisite_state',
        MESSAGE = 'could not add up usage',
        DETAIL = SQLERRM || '.';
    RETURN 0;
END
$$;
COMMENT ON FUNCTION alvyn.maintain_usage(int) IS
    'One batch of adding up usage, where there are tenants; returns how many positions it has come past';

CREATE FUNCTION alvyn.maintain(
    max_rows int DEFAULT 10000
) RETURNS TABLE (
    task text,
    rows bigint,
    more boolean
)
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_usage bigint;
BEGIN
    IF maintain.max_rows < 1 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "max_rows" must be at least 1',
            DETAIL = format('It is %s.', maintain.max_rows);
    END IF;
    -- What goes cannot be added up any more, so usage comes to its end first.
    v_usage := alvyn.maintain_usage(maintain.max_rows);
    RETURN QUERY
    SELECT 'usage', v_usage, v_usage = maintain.max_rows;
    IF v_usage = maintain.max_rows THEN
        RETURN QUERY VALUES ('tombstones', 0::bigint, true), ('retention', 0::bigint, true);
    ELSE
        RETURN QUERY
        SELECT 'tombstones', t.rows, t.more FROM alvyn.maintain_tombstones(maintain.max_rows) t;
        RETURN QUERY
        SELECT 'retention', t.rows, t.more FROM alvyn.maintain_retentions(maintain.max_rows) t;
    END IF;
    RETURN QUERY
    SELECT 'idempotency keys', p.count, p.count = maintain.max_rows
      FROM alvyn.purge_idempotency_keys(maintain.max_rows) p (count);
END
$$;
COMMENT ON FUNCTION alvyn.maintain(int) IS
    'One batch of each task of maintenance, of up to max_rows rows; call it again while there is more';
