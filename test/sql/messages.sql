-- The wording of each message, once: what is wrong, with the argument and
-- the element of a batch; the values in the detail; the way out in the hint.
--
-- Wording is not API.  SQLSTATEs and constraint names are, and are tested in
-- append_errors.sql.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT count(alvyn.append_batch(s, 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[]))
FROM unnest(ARRAY['old-1', 'shut-1', 'gone-1']) s;
UPDATE alvyn.streams SET state = 'z' WHERE stream_id = 'shut-1';
UPDATE alvyn.streams SET state = 't' WHERE stream_id = 'gone-1';

-- Version conflicts.
SELECT alvyn.append('old-1', 1, 'A', '{}');
SELECT alvyn.append('old-1', 0, 'A', '{}');
SELECT alvyn.append('old-1', -1, 'A', '{}');
SELECT alvyn.append('new-1', -2, 'A', '{}');
SELECT alvyn.append('new-1', 7, 'A', '{}');

-- Names.
SELECT alvyn.append(NULL, 0, 'A', '{}');
SELECT alvyn.append('', 0, 'A', '{}');
SELECT alvyn.append(repeat('x', 513), 0, 'A', '{}');
SELECT alvyn.append('new-1', 0, 'AccountSnapshot', '{}');
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', NULL], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', ''], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', repeat('é', 257)], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_batch('new-1', 0, ARRAY['ASnapshot', 'B'], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[], ids => ARRAY['x', 'y', 'x']);
SELECT alvyn.append_streams(ARRAY['new-1', ''], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_streams(ARRAY['new-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY['new-1', 'new-1'], ARRAY[0, 0]);

-- Expected versions.
SELECT alvyn.append('new-1', -3, 'A', '{}');
SELECT alvyn.append_streams(ARRAY['new-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY['new-1'], ARRAY[-3]);

-- Arrays.
SELECT alvyn.append_batch('new-1', 0, NULL, ARRAY['1']::jsonb[]);
SELECT alvyn.append_batch('new-1', 0, '{}', '{}');
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', 'B'], ARRAY['1']::jsonb[]);
SELECT alvyn.append_batch('new-1', 0, ARRAY[['A', 'B']], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_streams(ARRAY['new-1'], ARRAY['A'], ARRAY['1']::jsonb[], NULL, ARRAY['new-1']);

-- Payloads: the limit counts data and metadata together.
SELECT alvyn.append('new-1', 0, 'A', to_jsonb(repeat('x', 1048569)));
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', 'B'], ARRAY['1', to_jsonb(repeat('x', 600000))]::jsonb[],
                          ARRAY[NULL, to_jsonb(repeat('x', 600000))]);

-- Times and schema versions.
SELECT alvyn.append('new-1', 0, 'A', '{}', "time" => 'infinity');
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], times => ARRAY['0044-03-15 BC', NULL]::timestamptz[]);
SELECT alvyn.append('new-1', 0, 'A', '{}', schema_version => 0);
SELECT alvyn.append_batch('new-1', 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], schema_versions => ARRAY[1, -5]);

-- Idempotency keys.
SELECT count(alvyn.append('old-1', 2, 'A', '{}', idempotency_key => 'key-1'));
SELECT alvyn.append('old-1', 3, 'B', '{}', idempotency_key => 'key-1');

-- Closed streams.
SELECT alvyn.append('shut-1', NULL, 'A', '{}');
SELECT alvyn.append('gone-1', NULL, 'A', '{}');

-- Reading and maintenance.
SELECT * FROM alvyn.load('old-1', 0);
SELECT alvyn.sum_number('{"a": "one"}', 'a');
SELECT alvyn.purge_idempotency_keys(0);
SELECT alvyn.verify_slice(NULL, 4, 4);

-- Settings, whose messages are the server's.
SHOW alvyn.max_event_size;
SHOW alvyn.idempotency_retention;
\set VERBOSITY sqlstate
SET alvyn.max_event_size = '512MB';
SET alvyn.max_event_size = 1023;
SET alvyn.no_such_setting = 1;
