-- Governors: token buckets that all sessions share.  A definition changes by
-- SQL, a state in place: src/cell.c tells why these are two tables, and
-- src/governor.c knows their columns by number.
--
-- No foreign key connects them: pg_restore -j loads them at the same time.

CREATE TABLE alvyn.governor_definitions (
    key text COLLATE "C" NOT NULL,
    rate double precision NOT NULL,
    burst double precision NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT governor_definitions_pkey PRIMARY KEY (key)
) USING heap;
COMMENT ON TABLE alvyn.governor_definitions IS
    'Governors and what they let through';
COMMENT ON COLUMN alvyn.governor_definitions.rate IS
    'Tokens a second';
COMMENT ON COLUMN alvyn.governor_definitions.burst IS
    'Tokens that the full bucket holds';

CREATE TABLE alvyn.governor_states (
    arrival bigint NOT NULL DEFAULT 0,
    seen bigint NOT NULL DEFAULT 0,
    key text COLLATE "C" NOT NULL,
    CONSTRAINT governor_states_pkey PRIMARY KEY (key)
) USING heap;
COMMENT ON TABLE alvyn.governor_states IS
    'How full the buckets of governors are; changed in place, never by UPDATE';
COMMENT ON COLUMN alvyn.governor_states.arrival IS
    'When the bucket will be full, in nanoseconds since 2000';
COMMENT ON COLUMN alvyn.governor_states.seen IS
    'Last time at which tokens were taken, in nanoseconds since 2000';

SELECT pg_catalog.pg_extension_config_dump('alvyn.governor_definitions', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.governor_states', '');

CREATE FUNCTION alvyn.check_governor(
    key text,
    rate double precision,
    burst double precision
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(octet_length(check_governor.key), 0) NOT BETWEEN 1 AND 512 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "key" is out of range',
            DETAIL = 'It must have 1 to 512 bytes.';
    END IF;
    IF coalesce(check_governor.rate, 0) NOT BETWEEN 0.001 AND 1000000 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "rate" is out of range',
            DETAIL = 'It must be 0.001 to 1000000 tokens a second.';
    END IF;
    IF coalesce(check_governor.burst, 0) NOT BETWEEN 1 AND 1000000000
       OR check_governor.burst / check_governor.rate > 86400 * 365.0 THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'argument "burst" is out of range',
            DETAIL = 'It must be 1 to 1000000000 tokens, and come in within a year.';
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.check_governor(text, double precision, double precision) IS
    'Refuse the definition of a governor that is out of range';

CREATE FUNCTION alvyn.create_governor(
    key text,
    rate double precision,
    burst double precision
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.check_governor(create_governor.key, create_governor.rate, create_governor.burst);
    INSERT INTO alvyn.governor_definitions (key, rate, burst)
    VALUES (create_governor.key, create_governor.rate, create_governor.burst);
    INSERT INTO alvyn.governor_states (key)
    VALUES (create_governor.key);
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING
        ERRCODE = 'duplicate_object',
        MESSAGE = format('governor "%s" already exists', create_governor.key);
END
$$;
COMMENT ON FUNCTION alvyn.create_governor(text, double precision, double precision) IS
    'Define a governor: tokens a second, and how many can be saved up';

CREATE FUNCTION alvyn.alter_governor(
    key text,
    rate double precision,
    burst double precision
) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM alvyn.check_governor(alter_governor.key, alter_governor.rate, alter_governor.burst);
    PERFORM alvyn.stretch_tokens(d.key, d.rate / alter_governor.rate)
       FROM alvyn.governor_definitions d
      WHERE d.key = alter_governor.key;
    UPDATE alvyn.governor_definitions d
       SET rate = alter_governor.rate,
           burst = alter_governor.burst
     WHERE d.key = alter_governor.key;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('governor "%s" does not exist', alter_governor.key);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.alter_governor(text, double precision, double precision) IS
    'Change rate and burst of a governor from the next call on';

CREATE FUNCTION alvyn.drop_governor(
    key text
) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM alvyn.governor_states s WHERE s.key = drop_governor.key;
    DELETE FROM alvyn.governor_definitions d WHERE d.key = drop_governor.key;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('governor "%s" does not exist', drop_governor.key);
    END IF;
END
$$;
COMMENT ON FUNCTION alvyn.drop_governor(text) IS
    'Forget a governor';

CREATE FUNCTION alvyn.acquire(
    key text,
    cost double precision DEFAULT 1,
    wait interval DEFAULT NULL,
    OUT granted boolean,
    OUT retry_in interval
) RETURNS record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_acquire';
COMMENT ON FUNCTION alvyn.acquire(text, double precision, interval) IS
    'Take tokens of a governor, waiting for them at most so long, or tell when to come again';

CREATE FUNCTION alvyn.take_tokens(
    key text,
    most int
) RETURNS int
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT
AS 'MODULE_PATHNAME', 'alvyn_take_tokens';
COMMENT ON FUNCTION alvyn.take_tokens(text, int) IS
    'Take as many whole tokens of a governor as there are, up to a number';

CREATE FUNCTION alvyn.return_tokens(
    key text,
    tokens int
) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT
AS 'MODULE_PATHNAME', 'alvyn_return_tokens';
COMMENT ON FUNCTION alvyn.return_tokens(text, int) IS
    'Put back tokens of a governor that are not needed';

CREATE FUNCTION alvyn.stretch_tokens(
    key text,
    factor double precision
) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT
AS 'MODULE_PATHNAME', 'alvyn_stretch_tokens';
COMMENT ON FUNCTION alvyn.stretch_tokens(text, double precision) IS
    'Let the tokens that a governor lacks come in at another rate';

CREATE VIEW alvyn.governors AS
SELECT d.key,
       d.rate,
       d.burst,
       greatest(d.burst - greatest(t.ahead, 0) * d.rate, 0) AS available,
       greatest(greatest(t.ahead, 0) * d.rate - d.burst, 0) AS waiting
  FROM alvyn.governor_definitions d
  JOIN alvyn.governor_states s ON s.key = d.key
 CROSS JOIN LATERAL (SELECT s.arrival / 1e9::double precision
                            - EXTRACT(epoch FROM pg_catalog.clock_timestamp() - '2000-01-01 00:00:00+00'::timestamptz)
                              ::double precision AS ahead) t;
COMMENT ON VIEW alvyn.governors IS
    'Governors, the tokens that are there, and those that waiting callers have taken in advance';
