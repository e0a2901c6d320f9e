-- A call that is repeated with its idempotency key.
--
-- The same content returns the first result with duplicate = true and writes
-- nothing, also after later appends; other content is 23505, constraint
-- idempotency_key.  The whole batch is the unit.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- What becomes of a call: its result, or its SQLSTATE and constraint.
CREATE FUNCTION outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_result text;
    v_state text;
    v_constraint text;
BEGIN
    EXECUTE 'SELECT string_agg(r::text, '' '') FROM ' || call || ' r' INTO v_result;
    RETURN v_result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME;
    RETURN trim(v_state || ' ' || v_constraint);
END
$$;
CREATE VIEW stored AS
SELECT (SELECT count(*) FROM alvyn.events) AS events,
       (SELECT count(*) FROM alvyn.streams) AS streams,
       (SELECT count(*) FROM alvyn.idempotency_keys) AS keys;

-- The retry returns the first result, with whatever version it expects: the
-- one it expected first, none, or the head it has loaded in between.
SELECT alvyn.append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1');
SELECT alvyn.append('pay-1', e, 'Paid', '{"to": "x", "amount": 5}', '{"m": 1}', 'id-1', idempotency_key => 'k1')
FROM unnest(ARRAY[0, NULL, 1, 7, -1, -2]) e;
-- Also after 100 later appends, and for the try_ form.
SELECT count(alvyn.append('pay-1', NULL, 'Later', '{}')) FROM generate_series(1, 100);
SELECT alvyn.append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1');
SELECT alvyn.try_append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1');
SELECT * FROM stored;

-- Any difference of content is another call: stream, type, data, metadata,
-- id, time, schema version, more events.
SELECT outcome(c) FROM unnest(ARRAY[
    $$alvyn.append('pay-2', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Pais', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Paid', '{"amount": 6, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Paid', '{"amount": 5.0, "to": "x"}', '{"m": 1}', 'id-1', idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', NULL, 'id-1', idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', NULL, idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', '2024-01-01', idempotency_key => 'k1')$$,
    $$alvyn.append('pay-1', 0, 'Paid', '{"amount": 5, "to": "x"}', '{"m": 1}', 'id-1', NULL, 2, 'k1')$$,
    $$alvyn.append_batch('pay-1', 0, ARRAY['Paid', 'Paid'], ARRAY['1', '2']::jsonb[], idempotency_key => 'k1')$$,
    $$alvyn.try_append('pay-1', NULL, 'Other', '{}', idempotency_key => 'k1')$$,
    $$alvyn.append_streams(ARRAY['pay-1'], ARRAY['Other'], ARRAY['{}']::jsonb[], idempotency_key => 'k1')$$]) WITH ORDINALITY c (c, i)
ORDER BY i;
SELECT * FROM stored;

-- What stands in one argument cannot be taken for part of the next.
SELECT alvyn.append('cut-1', NULL, 'ab', '1', NULL, 'c', idempotency_key => 'k2');
SELECT outcome($$alvyn.append('cut-1', NULL, 'a', '1', NULL, 'bc', idempotency_key => 'k2')$$);

-- A batch is one unit: half of it under the same key is another call, and
-- its events under no key are new events.
SELECT alvyn.append_batch('bat-1', 0, ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[], idempotency_key => 'k3');
SELECT alvyn.append_batch('bat-1', 0, ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[], idempotency_key => 'k3');
SELECT outcome($$alvyn.append_batch('bat-1', 3, ARRAY['B', 'C', 'D'], ARRAY['2', '3', '4']::jsonb[], idempotency_key => 'k3')$$);
SELECT outcome($$alvyn.append_batch('bat-1', 3, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], idempotency_key => 'k3')$$);
SELECT outcome($$alvyn.append_batch('bat-1', 3, ARRAY['A', 'C', 'B'], ARRAY['1', '3', '2']::jsonb[], idempotency_key => 'k3')$$);
SELECT alvyn.append_batch('bat-1', 3, ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[]);
-- The same id twice in a batch is refused before anything is written.
SELECT outcome($$alvyn.append_batch('bat-1', NULL, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], ids => ARRAY['i', 'i'], idempotency_key => 'k4')$$);
SELECT * FROM stored;

-- Several streams: a row for each again, whatever is checked beside them.
SELECT alvyn.append_streams(ARRAY['z-1', 'a-1', 'z-1'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[],
                            NULL, ARRAY['m-1'], ARRAY[0], 'k5');
SELECT alvyn.append('m-1', NULL, 'M', '{}'), alvyn.append('z-1', NULL, 'M', '{}');
SELECT alvyn.append_streams(ARRAY['z-1', 'a-1', 'z-1'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[],
                            NULL, ARRAY['m-1'], ARRAY[0], 'k5');
SELECT outcome($$alvyn.append_streams(ARRAY['a-1', 'z-1', 'z-1'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[], idempotency_key => 'k5')$$);

-- A call that fails or is rolled back leaves its key unused.
SELECT outcome($$alvyn.append('pay-1', 0, 'A', '{}', idempotency_key => 'k6')$$);
BEGIN;
SELECT (r).duplicate FROM (SELECT alvyn.append('pay-1', NULL, 'A', '{}', idempotency_key => 'k6') AS r) s;
SELECT (r).duplicate FROM (SELECT alvyn.append('pay-1', NULL, 'A', '{}', idempotency_key => 'k6') AS r) s;
ROLLBACK;
SELECT (r).version, (r).duplicate FROM (SELECT alvyn.append('pay-1', NULL, 'B', '{}', idempotency_key => 'k6') AS r OFFSET 0) s;
-- Twice in one statement.
SELECT (r).version, (r).duplicate
FROM (SELECT alvyn.append('pay-1', NULL, 'C', '{}', idempotency_key => 'k7') AS r FROM generate_series(1, 3) OFFSET 0) s;

-- Retention: the purge removes what is older, the oldest first, in batches;
-- a call repeated later than that is a new call.  Also in a session that has
-- done nothing else.
\c -
SELECT alvyn.purge_idempotency_keys();
SHOW alvyn.idempotency_retention;
UPDATE alvyn.idempotency_keys SET created_at = now() - interval '8 days' + i * interval '1 hour'
FROM unnest(ARRAY['k3', 'k1', 'k2', 'k5']) WITH ORDINALITY o (o, i) WHERE key = o;
UPDATE alvyn.idempotency_keys SET created_at = now() - interval '6 days' WHERE key = 'k6';
SELECT alvyn.purge_idempotency_keys(3);
SELECT key FROM alvyn.idempotency_keys ORDER BY key;
SELECT alvyn.purge_idempotency_keys(3), alvyn.purge_idempotency_keys(3);
SET alvyn.idempotency_retention = '5d';
SELECT alvyn.purge_idempotency_keys();
SELECT key FROM alvyn.idempotency_keys ORDER BY key;
SELECT (r).version, (r).duplicate FROM (SELECT alvyn.append('bat-1', NULL, 'New', '{}', idempotency_key => 'k3') AS r OFFSET 0) s;
SET alvyn.idempotency_retention = 0;
SELECT alvyn.purge_idempotency_keys();
SELECT * FROM stored;

-- A stream that was archived in the meantime still answers a repeated call,
-- and can be checked; it takes nothing new.
SELECT (alvyn.append('arc-1', 0, 'A', '1', idempotency_key => 'a1')).version;
UPDATE alvyn.streams SET state = 'z' WHERE stream_id = 'arc-1';
SELECT (r).version, (r).duplicate FROM (SELECT alvyn.append('arc-1', 0, 'A', '1', idempotency_key => 'a1') AS r OFFSET 0) s;
SELECT stream_id, version FROM alvyn.append_streams('{arc-2}', '{A}', '{1}', NULL, '{arc-1}', '{1}');
\set VERBOSITY sqlstate
SELECT alvyn.append('arc-1', 1, 'A', '1', idempotency_key => 'a2');
\set VERBOSITY default

SELECT broken_streams, ok FROM alvyn.verify();
DROP VIEW stored;
DROP FUNCTION outcome;
