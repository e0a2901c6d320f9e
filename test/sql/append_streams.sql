-- Events of several streams in one call.
--
-- I3: all streams or none; a row for each stream that was written, in the
-- order of their first events.  Streams that are only checked, too, must be
-- at their expected version, and nothing is written to them.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- Events are numbered in the order of the arrays: positions across the
-- streams, versions inside each.
SELECT * FROM alvyn.append_streams(
    ARRAY['to-1', 'from-1', 'to-1', 'audit-1', 'from-1'],
    ARRAY['A', 'B', 'C', 'D', 'E'],
    ARRAY['1', '2', '3', '4', '5']::jsonb[],
    ARRAY['{"m": 1}', NULL, NULL, NULL, '{"m": 5}']::jsonb[]);
SELECT e.position, s.stream_id, e.version, e.type, e.data, e.metadata
FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
ORDER BY e.position;

-- Expected versions of streams that are written.
SELECT stream_id, first_version, last_version, version
FROM alvyn.append_streams(ARRAY['from-1', 'to-1'], ARRAY['Out', 'In'], ARRAY['{}', '{}']::jsonb[],
    check_streams => ARRAY['to-1', 'from-1'], check_versions => ARRAY[2, 2]);
-- Expected versions of streams that are not: exactly, absent, there.
SELECT stream_id, version
FROM alvyn.append_streams(ARRAY['audit-1'], ARRAY['Seen'], ARRAY['{}']::jsonb[],
    check_streams => ARRAY['to-1', 'new-1', 'new-2', 'from-1', 'audit-1'],
    check_versions => ARRAY[3, 0, -1, -2, NULL]);
SELECT alvyn.stream_version('to-1'), alvyn.stream_version('new-1'), alvyn.stream_version('new-2');
SELECT stream_id, version FROM alvyn.list_streams();

-- One stream that is not where it should be refuses everything.
CREATE FUNCTION refused(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_constraint text;
    v_detail text;
BEGIN
    EXECUTE call;
    RETURN 'not refused';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME, v_detail = PG_EXCEPTION_DETAIL;
    RETURN v_state || ' ' || v_constraint || ': ' || v_detail;
END
$$;
SELECT v.stream, v.version, refused(format(
    'SELECT alvyn.append_streams(ARRAY[''x-1'', ''to-1''], ARRAY[''A'', ''B''], ARRAY[''{}'', ''{}'']::jsonb[],
     NULL, ARRAY[%L], ARRAY[%s]::bigint[])', v.stream, v.version))
FROM (VALUES ('to-1', 2), ('to-1', 4), ('to-1', 0), ('to-1', -1), ('x-1', -2), ('x-1', 1),
             ('from-1', 2), ('from-1', -1), ('none-1', -2), ('none-1', 5)) v (stream, version);
SELECT stream_id, version FROM alvyn.list_streams();
SELECT count(*) FROM alvyn.streams WHERE stream_id IN ('x-1', 'none-1');

-- A check of a stream that does not exist lets nobody in before the end of
-- the transaction, and leaves the stream free for its first event.
SELECT version FROM alvyn.append('new-1', 0, 'First', '{}');
SELECT version FROM alvyn.append('new-2', -1, 'First', '{}');

-- Empty arrays of checks are no checks.
SELECT version FROM alvyn.append_streams(ARRAY['audit-1'], ARRAY['Seen'], ARRAY['{}']::jsonb[], NULL, '{}', '{}');

-- The function does all its work in the first call, whoever reads the rows.
SELECT stream_id
FROM alvyn.append_streams(ARRAY['p-1', 'p-2', 'p-3'], ARRAY['A', 'A', 'A'], ARRAY['{}', '{}', '{}']::jsonb[])
LIMIT 1;
SELECT stream_id, version FROM alvyn.list_streams('p-');
-- Also in the select list.
SELECT alvyn.append_streams(ARRAY['q-2', 'q-1'], ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[]);

-- 2,000 streams in one call, 3 events each, interleaved.
SELECT count(*), min(first_version), max(last_version), min(version), bool_and(last_position - first_position = 4000) AS interleaved
FROM alvyn.append_streams(
    ARRAY(SELECT 'wide-' || i % 2000 FROM generate_series(1, 6000) i),
    ARRAY(SELECT 'W' FROM generate_series(1, 6000)),
    ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 6000) i));
SELECT * FROM alvyn.verify('wide-');
SELECT * FROM alvyn.verify();
DROP FUNCTION refused;
