-- What an append expects of its stream, in all combinations.
--
-- I2: an append whose expectation does not hold gets 40001, constraint
-- expected_version, and a DETAIL with expected and actual version.
-- I1, I3: what succeeds gets the next version, what fails writes nothing.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- Append in one of the forms and tell what happened.
CREATE FUNCTION outcome(form text, stream text, expected bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_result alvyn.append_result;
    v_state text;
    v_constraint text;
    v_detail text;
BEGIN
    CASE form
    WHEN 'append' THEN
        v_result := alvyn.append(stream, expected, 'A', '{}');
    WHEN 'batch' THEN
        v_result := alvyn.append_batch(stream, expected, ARRAY['A', 'B'], ARRAY['{}', '{}']::jsonb[]);
    WHEN 'streams' THEN
        SELECT * INTO v_result
        FROM alvyn.append_streams(ARRAY[stream], ARRAY['A'], ARRAY['{}']::jsonb[], NULL, ARRAY[stream], ARRAY[expected]);
    WHEN 'try' THEN
        v_result := alvyn.try_append(stream, expected, 'A', '{}');
    END CASE;
    RETURN CASE WHEN v_result.conflict THEN 'conflict, at ' ELSE 'ok, at ' END || v_result.version;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME, v_detail = PG_EXCEPTION_DETAIL;
    RETURN v_state || ' ' || v_constraint || ': ' || v_detail;
END
$$;

-- A stream that does not exist.
SELECT form, expected, outcome(form, format('new-%s-%s', form, expected), expected)
FROM unnest(ARRAY['append', 'batch', 'streams', 'try']) WITH ORDINALITY f (form, i),
     unnest(ARRAY[NULL, 0, -1, -2, 1, 7]::bigint[]) WITH ORDINALITY e (expected, j)
ORDER BY i, j;

-- A stream at version 3.
SELECT count(alvyn.append_batch(format('old-%s-%s', form, expected), 0, ARRAY['1', '2', '3'], ARRAY['1', '2', '3']::jsonb[]))
FROM unnest(ARRAY['append', 'batch', 'streams', 'try']) form, unnest(ARRAY[NULL, 0, -1, -2, 1, 2, 3, 4]::bigint[]) expected;
SELECT form, expected, outcome(form, format('old-%s-%s', form, expected), expected)
FROM unnest(ARRAY['append', 'batch', 'streams', 'try']) WITH ORDINALITY f (form, i),
     unnest(ARRAY[NULL, 0, -1, -2, 1, 2, 3, 4]::bigint[]) WITH ORDINALITY e (expected, j)
ORDER BY i, j;

-- The lowest and the highest number that can be asked for.
SELECT e, outcome('append', 'edge-1', e) FROM unnest(ARRAY[9223372036854775807, -3, -9223372036854775808]) e;

-- A failure has left nothing, so the stream still is new.
SELECT outcome('append', 'new-append--2', 0);

-- Conflicts inside one transaction: the version this transaction has made
-- counts, also one it has rolled back to a savepoint.
BEGIN;
SELECT outcome('append', 'own-1', 0), outcome('append', 'own-1', 0), outcome('append', 'own-1', 1);
SAVEPOINT s;
SELECT outcome('batch', 'own-1', 2);
ROLLBACK TO s;
SELECT outcome('append', 'own-1', 4), outcome('append', 'own-1', 2);
COMMIT;

-- A floor under the versions counts as a head, so that versions never start
-- again after the events were removed.
SELECT outcome('append', 'floor-1', NULL), outcome('append', 'floor-1', NULL);
DELETE FROM alvyn.events WHERE stream_no = (SELECT stream_no FROM alvyn.streams WHERE stream_id = 'floor-1');
UPDATE alvyn.streams SET version_floor = 2 WHERE stream_id = 'floor-1';
SELECT outcome('append', 'floor-1', 0), outcome('append', 'floor-1', -2);
SELECT alvyn.stream_version('floor-1');

SELECT broken_streams, ok FROM alvyn.verify();
DROP FUNCTION outcome;
