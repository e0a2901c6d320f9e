-- Each refused append has its SQLSTATE, and its constraint name where one is
-- set; docs/errors.md lists both.
--
-- I11: bad input gets one error before anything is written, and the session
-- lives on.  The wording is in messages.sql.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
\pset format unaligned
\pset tuples_only on
\set VERBOSITY sqlstate

-- SQLSTATE and constraint name of a failing call.
CREATE FUNCTION failure(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_constraint text;
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'no error: ' || call;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME;
    RETURN trim(v_state || ' ' || v_constraint) || ' <- ' || call;
END
$$;

-- append and try_append, argument by argument.
SELECT failure(f || a)
FROM unnest(ARRAY['alvyn.append', 'alvyn.try_append']) WITH ORDINALITY f (f, i),
     unnest(ARRAY[
        $$(NULL, 0, 'A', '{}')$$,
        $$('', 0, 'A', '{}')$$,
        $$(repeat('x', 513), 0, 'A', '{}')$$,
        $$(repeat('x', 100000), 0, 'A', '{}')$$,
        $$('bad-1', -3, 'A', '{}')$$,
        $$('bad-1', -9223372036854775808, 'A', '{}')$$,
        $$('bad-1', 0, NULL, '{}')$$,
        $$('bad-1', 0, '', '{}')$$,
        $$('bad-1', 0, repeat('x', 513), '{}')$$,
        $$('bad-1', 0, 'Snapshot', '{}')$$,
        $$('bad-1', 0, 'AccountSnapshot', '{}')$$,
        $$('bad-1', 0, 'A', NULL)$$,
        $$('bad-1', 0, 'A', to_jsonb(repeat('x', 1100000)))$$,
        $$('bad-1', 0, 'A', '{}', to_jsonb(repeat('x', 1100000)))$$,
        $$('bad-1', 0, 'A', '{}', id => '')$$,
        $$('bad-1', 0, 'A', '{}', id => repeat('x', 513))$$,
        $$('bad-1', 0, 'A', '{}', "time" => 'infinity')$$,
        $$('bad-1', 0, 'A', '{}', "time" => '-infinity')$$,
        $$('bad-1', 0, 'A', '{}', "time" => '0001-12-31 23:59:59+00 BC')$$,
        $$('bad-1', 0, 'A', '{}', "time" => '10000-01-01 00:00:00+00')$$,
        $$('bad-1', 0, 'A', '{}', schema_version => 0)$$,
        $$('bad-1', 0, 'A', '{}', schema_version => -1)$$,
        $$('bad-1', 0, 'A', '{}', idempotency_key => '')$$,
        $$('bad-1', 0, 'A', '{}', idempotency_key => repeat('x', 513))$$]) WITH ORDINALITY a (a, j)
ORDER BY i, j;

-- append_batch and try_append_batch.
SELECT failure(f || a)
FROM unnest(ARRAY['alvyn.append_batch', 'alvyn.try_append_batch']) WITH ORDINALITY f (f, i),
     unnest(ARRAY[
        $$(NULL, 0, ARRAY['A'], ARRAY['1']::jsonb[])$$,
        $$('bad-1', -3, ARRAY['A'], ARRAY['1']::jsonb[])$$,
        $$('bad-1', 0, NULL, ARRAY['1']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A'], NULL)$$,
        $$('bad-1', 0, '{}', '{}')$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A'], ARRAY['1', '2']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A', NULL], ARRAY['1', '2']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', NULL]::jsonb[])$$,
        $$('bad-1', 0, ARRAY[['A'], ['B']], ARRAY['1', '2']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A', 'BSnapshot'], ARRAY['1', '2']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A'], ARRAY['1']::jsonb[], metadata => '{}')$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], metadata => ARRAY['1']::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], ids => ARRAY['a'])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], ids => ARRAY['a', ''])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], ids => ARRAY['a', 'a'])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], times => ARRAY[NULL, 'infinity']::timestamptz[])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], times => ARRAY[now()])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], schema_versions => ARRAY[1, 0])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], schema_versions => ARRAY[1, 2, 3])$$,
        $$('bad-1', 0, ARRAY['A', 'B'], ARRAY['1', to_jsonb(repeat('x', 1100000))]::jsonb[])$$,
        $$('bad-1', 0, ARRAY['A'], ARRAY['1']::jsonb[], idempotency_key => '')$$]) WITH ORDINALITY a (a, j)
ORDER BY i, j;

-- append_streams and try_append_streams.
SELECT failure(f || a)
FROM unnest(ARRAY['alvyn.append_streams', 'alvyn.try_append_streams']) WITH ORDINALITY f (f, i),
     unnest(ARRAY[
        $$(NULL, ARRAY['A'], ARRAY['1']::jsonb[])$$,
        $$(ARRAY['bad-1'], NULL, ARRAY['1']::jsonb[])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], NULL)$$,
        $$('{}', '{}', '{}')$$,
        $$(ARRAY['bad-1'], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])$$,
        $$(ARRAY['bad-1', NULL], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])$$,
        $$(ARRAY['bad-1', ''], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])$$,
        $$(ARRAY['bad-1', repeat('x', 513)], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])$$,
        $$(ARRAY['bad-1', 'bad-2'], ARRAY['A', 'B'], ARRAY['1', NULL]::jsonb[])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], check_streams => ARRAY['bad-1'])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], check_versions => ARRAY[0])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY['bad-1', 'bad-2'], ARRAY[0])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY[NULL], ARRAY[0])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY['bad-2'], ARRAY[-3])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY['bad-2', 'bad-2'], ARRAY[0, 0])$$,
        $$(ARRAY['bad-1'], ARRAY['A'], ARRAY['1']::jsonb[], idempotency_key => repeat('x', 513))$$]) WITH ORDINALITY a (a, j)
ORDER BY i, j;

-- Conflicts and closed streams.
SELECT alvyn.append('old-1', 0, 'A', '{}', idempotency_key => 'key-1');
SELECT failure($$alvyn.append('old-1', 0, 'A', '{}')$$);
SELECT failure($$alvyn.append('old-1', NULL, 'B', '{}', idempotency_key => 'key-1')$$);
UPDATE alvyn.streams SET state = 'z';
SELECT failure($$alvyn.append('old-1', NULL, 'A', '{}')$$);
UPDATE alvyn.streams SET state = 't';
SELECT failure($$alvyn.append_batch('old-1', NULL, ARRAY['A'], ARRAY['1']::jsonb[])$$);
SELECT failure($$alvyn.append_streams(ARRAY['bad-1', 'old-1'], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])$$);
-- A transaction that may not write.
BEGIN READ ONLY;
SELECT alvyn.append('bad-1', 0, 'A', '{}');
ROLLBACK;
UPDATE alvyn.streams SET state = 'a';
BEGIN READ ONLY;
SELECT alvyn.append('old-1', NULL, 'A', '{}');
ROLLBACK;

-- Reading.
SELECT failure(c) FROM unnest(ARRAY[
    $$alvyn.load(NULL)$$, $$alvyn.load('')$$, $$alvyn.load(repeat('x', 513))$$,
    $$alvyn.load('old-1', 0)$$, $$alvyn.load('old-1', -1)$$,
    $$alvyn.load('old-1', 1, -1)$$, $$alvyn.load('old-1', 1, -1, true)$$,
    $$alvyn.stream_version(NULL)$$, $$alvyn.stream_version('')$$, $$alvyn.stream_version(repeat('x', 513))$$,
    $$alvyn.list_streams(max_count => -1)$$, $$alvyn.purge_idempotency_keys(0)$$,
    $$alvyn.verify_slice(NULL, 0, 0)$$, $$alvyn.verify_slice('', 4, 4)$$, $$alvyn.verify_slice(NULL, -1, 4)$$, $$alvyn.verify_slice(NULL, NULL, 4)$$]) WITH ORDINALITY c (c, i)
ORDER BY i;

-- I11: after all this there is one event, and the session still appends.
-- Sequences are not rolled back, so position 2 tells that no refused call
-- got as far as taking one.
SELECT stream_id FROM alvyn.streams;
SELECT count(*) FROM alvyn.events;
SELECT alvyn.append('good-1', 0, 'A', '{}');
DROP FUNCTION failure;
