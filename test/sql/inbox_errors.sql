-- Each refused message has its SQLSTATE and constraint name, and is counted
-- by its reason; docs/errors.md lists them.  The wording of each is shown once.
--
-- I11: bad input gets one error, nothing is written, the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT alvyn.create_source('s', max_bytes => 30), alvyn.create_source('open', signed => false), alvyn.create_source('ce', signed => false, format => 'cloudevent');
SELECT alvyn.add_secret('s', '0123456789abcdef');
\set sig '\'7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34\''
SELECT version FROM alvyn.receive('s', 'm', 'a-1', 'A', NULL, body => '{"n": 1}', signature => :sig);

-- Wording.
\set SHOW_CONTEXT never
SELECT alvyn.receive('none', 'm', 'a-1', 'A', '1');
SELECT alvyn.receive('s', 'm', 'a-1', 'A', '1');
SELECT alvyn.receive('s', 'm', 'a-1', 'A', NULL, body => '{"n": 2}', signature => :sig);
SELECT alvyn.receive('s', 'm', 'a-1', 'B', NULL, body => '{"n": 1}', signature => :sig);
SELECT alvyn.receive('s', 'm', 'a-1', 'A', NULL, body => convert_to(repeat('x', 31), 'UTF8'), signature => :sig);
SELECT alvyn.receive('open', 'm', 'a-1', 'A', '1', "time" => '2000-01-01 00:00+00');
SELECT alvyn.receive('open', NULL, 'a-1', 'A', '1');
SELECT alvyn.receive('open', 'm', 'a-1', 'A', NULL, body => 'a=1');
SELECT alvyn.receive('open', 'm', 'a-1', 'A', NULL, body => '\xff');
SELECT alvyn.receive('open', 'm', 'a-1', 'A', '1', body => '2');
SELECT alvyn.create_source('S');
SELECT alvyn.create_source('n', format => 'xml');
SELECT alvyn.create_source('n', max_bytes => 0);
SELECT alvyn.create_source('n', dedup_window => '0');
SELECT alvyn.create_source('s');
SELECT alvyn.drop_source('none');
SELECT alvyn.add_secret('s', 'short');
SELECT alvyn.expire_secret('s', 7);

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
SELECT alvyn.drop_source(s) FROM unnest('{s,open,ce}'::text[]) s;
SELECT alvyn.create_source('s', max_bytes => 30), alvyn.create_source('open', signed => false), alvyn.create_source('ce', signed => false, format => 'cloudevent');
SELECT alvyn.add_secret('s', '0123456789abcdef');
\pset tuples_only on
\pset format unaligned
SELECT failure(call)
FROM unnest(ARRAY[
    $$receive(NULL, 'm', 'a-1', 'A', '1')$$,
    $$receive('none', 'm', 'a-1', 'A', '1')$$,
    $$receive('s', 'm', 'a-1', 'A', '1')$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '1')$$,
    $$receive('s', 'm', 'a-1', 'A', '1', signature => repeat('0', 64))$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '1', signature => '')$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '1', signature => 'sha256=')$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '1', signature => repeat('0', 64))$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '1', signature => repeat('A', 43) || '=')$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '{"n": 1}', signature => 'sha1=7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34')$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => '{"n": 1}', signature => '7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34 ')$$,
    $$receive('s', 'm', 'a-1', 'B', NULL, body => '{"n": 1}', signature => '7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34')$$,
    $$receive('s', 'm', 'a-2', 'A', NULL, body => '{"n": 1}', signature => '7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34')$$,
    $$receive('s', 'm', 'a-1', 'A', NULL, body => repeat('1', 31)::bytea, signature => '')$$,
    $$receive('s', 'm', 'a-1', 'A', to_jsonb(repeat('1', 29)))$$,
    $$receive('open', 'm', 'a-1', 'A', '1', "time" => '2000-01-01')$$,
    $$receive('open', 'm', 'a-1', 'A', '1', "time" => '-infinity')$$,
    $$receive('open', 'm', 'a-1', 'A', '1', "time" => 'infinity')$$,
    $$receive('open', NULL, 'a-1', 'A', '1')$$,
    $$receive('open', '', 'a-1', 'A', '1')$$,
    $$receive('open', repeat('x', 401), 'a-1', 'A', '1')$$,
    $$receive('open', 'm', NULL, 'A', '1')$$,
    $$receive('open', 'm', 'a-1', NULL, '1')$$,
    $$receive('open', 'm', 'a-1', 'A', NULL)$$,
    $$receive('open', 'm', 'a-1', 'A', NULL, body => '')$$,
    $$receive('open', 'm', 'a-1', 'A', NULL, body => '{"a": 1')$$,
    $$receive('open', 'm', 'a-1', 'A', NULL, body => '"\\u0000"')$$,
    $$receive('open', 'm', 'a-1', 'A', NULL, body => '\xc328')$$,
    $$receive('open', 'm', 'a-1', 'A', '2', body => '1')$$,
    $$receive('open', 'm', 'a-1', 'A', '1', signature => repeat('0', 64))$$,
    $$receive('ce', 'm', 'a-1', NULL, NULL, body => '{"specversion": "1.0", "type": "t", "source": "s", "id": "1"}')$$,
    $$receive('ce', NULL, 'a-1', NULL, NULL, id => '2', body => '{"specversion": "1.0", "type": "t", "source": "s", "id": "1"}')$$,
    $$receive('ce', NULL, 'a-1', NULL, NULL, body => '{"specversion": "1.0", "type": "t", "source": "s", "id": "1", "time": "2018-04-05T17:31:00Z"}')$$,
    $$receive('ce', NULL, 'a-1', NULL, NULL, body => '[]')$$,
    $$create_source(NULL)$$,
    $$create_source('')$$,
    $$create_source('a:b')$$,
    $$create_source(repeat('x', 64))$$,
    $$create_source('n', format => NULL)$$,
    $$create_source('n', max_bytes => NULL)$$,
    $$create_source('n', dedup_window => '-1 day')$$,
    $$create_source('n', dedup_window => '200 years')$$,
    $$create_source('s')$$,
    $$alter_source('none', true, 'json', 1, NULL)$$,
    $$alter_source('s', true, 'json', 0, NULL)$$,
    $$drop_source('none')$$,
    $$add_secret('none', '0123456789abcdef')$$,
    $$add_secret('s', NULL)$$,
    $$add_secret('s', '0123456789abcde')$$,
    $$add_secret('s', repeat('x', 1025)::bytea)$$,
    $$expire_secret('none', 1)$$,
    $$expire_secret('s', NULL)$$,
    $$remove_secrets('none')$$]) WITH ORDINALITY x (call, i)
ORDER BY i;
SELECT source, unsigned, invalid, oversized, expired, replayed, duplicates FROM alvyn.inbox_status ORDER BY source;
-- Nothing but the one message of the beginning.
SELECT count(*) FROM alvyn.events;
SELECT count(*) FROM alvyn.inbox_secrets;
DROP FUNCTION failure;
