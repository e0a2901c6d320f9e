-- Each refused call of a tenant has its SQLSTATE and constraint name;
-- docs/errors.md lists them.  The wording of each is shown once.
--
-- I11: bad input gets one error, nothing is written, the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;

-- Wording.
\set SHOW_CONTEXT never
SELECT alvyn.append('a-1', 0, 'A', '1', '{"tenant": "acme"}');
SET alvyn.tenant = 'acme';
SELECT alvyn.append('a-1', 0, 'A', '1', '{"tenant": "other"}');
SELECT alvyn.append_batch('a-1', 0, '{A,B}', '{1,2}', '{NULL,"[]"}');
SET alvyn.tenant = 'two words';
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT alvyn.set_quota('acme', 'month', events => 0);
DO $$
DECLARE
    v_message text;
    v_detail text;
    v_hint text;
BEGIN
    PERFORM alvyn.append('a-1', 0, 'A', '1');
EXCEPTION WHEN configuration_limit_exceeded THEN
    GET STACKED DIAGNOSTICS v_message = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL, v_hint = PG_EXCEPTION_HINT;
    RAISE NOTICE '% / % / %', v_message, v_detail,
        replace(v_hint, (date_trunc('month', clock_timestamp(), 'UTC') + interval '1 month')::text, '...');
END
$$;
SELECT alvyn.authenticate('alv_0');
SELECT alvyn.create_api_key('');
SELECT alvyn.revoke_api_key('alv_000000000000000');
SELECT alvyn.set_quota('acme', 'week', 1);
SELECT alvyn.set_quota('acme', 'day', -1);
SELECT alvyn.account_usage(0);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT alvyn.account_usage();
ROLLBACK;

-- Codes and constraints.
CREATE FUNCTION failure(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_constraint text;
BEGIN
    EXECUTE 'SELECT alvyn.' || call;
    RETURN 'no error: ' || call;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME;
    RETURN trim(v_state || ' ' || v_constraint) || ' <- ' || call;
END
$$;
\pset tuples_only on
\pset format unaligned
SELECT failure(call)
FROM unnest(ARRAY[
    $$append('a-1', 0, 'A', '1')$$,
    $$append('a-1', 0, 'A', '1', '{"m": 1}')$$,
    $$append('a-1', 0, 'A', '1', '{"tenant": "acme"}')$$,
    $$append('a-1', 0, 'A', '1', '{"tenant": "acm"}')$$,
    $$append('a-1', 0, 'A', '1', '{"tenant": "acme "}')$$,
    $$append('a-1', 0, 'A', '1', '{"tenant": null}')$$,
    $$append('a-1', 0, 'A', '1', '{"tenant": ["acme"]}')$$,
    $$append('a-1', 0, 'A', '1', 'null')$$,
    $$append('a-1', 0, 'A', '1', '"acme"')$$,
    $$append('a-1', 1, 'A', '1')$$,
    $$append_streams('{a-1,a-2}', '{A,A}', '{1,1}')$$,
    $$append_streams('{a-1,a-2}', '{A,A}', '{1,1}', '{"{\"tenant\": 1}",NULL}')$$,
    $$authenticate(NULL)$$,
    $$authenticate('')$$,
    $$authenticate('alv_')$$,
    $$create_api_key(NULL)$$,
    $$create_api_key('a b')$$,
    $$create_api_key(repeat('x', 64))$$,
    $$revoke_api_key(NULL)$$,
    $$revoke_api_key('')$$,
    $$set_quota(NULL, 'day', 1)$$,
    $$set_quota('a/b', 'day', 1)$$,
    $$set_quota('acme', NULL, 1)$$,
    $$set_quota('acme', 'year', 1)$$,
    $$set_quota('acme', 'day', -1)$$,
    $$set_quota('acme', 'day', 1, -1)$$,
    $$set_quota('acme', 'day', NULL, NULL, -1)$$,
    $$account_usage(0)$$]) WITH ORDINALITY x (call, i)
ORDER BY i;
RESET alvyn.tenant;
SELECT failure(call)
FROM unnest(ARRAY[
    $$append('a-1', 0, 'A', '1', '{"tenant": "acme"}')$$,
    $$append('a-1', 0, 'A', '1', '{"tenant": ""}')$$,
    $$append('a-1', 0, 'A', '1', '{"x": {"tenant": "acme"}}')$$,
    $$append('a-1', 1, 'A', '1', '["tenant"]')$$]) WITH ORDINALITY x (call, i)
ORDER BY i;
SELECT set_config('alvyn.tenant', repeat('x', 63), false) <> '' AS set;
SELECT set_config('alvyn.tenant', repeat('x', 64), false) <> '' AS set;
SELECT set_config('alvyn.tenant', 'ä', false) <> '' AS set;
SELECT version, metadata FROM alvyn.load('a-1');
SELECT count(*) FROM alvyn.api_keys;
DROP FUNCTION failure;
