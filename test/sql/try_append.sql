-- The try_ forms: a version conflict is a result with the actual version.
--
-- I2: the one that is late learns the version, its transaction lives on.
-- I3: nothing of a refused call is written, and no position is taken.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- Without conflict they are the raising forms.
SELECT * FROM alvyn.try_append('a-1', 0, 'A', '{}', '{"m": 1}', 'id-1', '2024-01-01 00:00+00', 2, 'key-1');
SELECT * FROM alvyn.try_append_batch('a-1', 1, ARRAY['B', 'C'], ARRAY['2', '3']::jsonb[]);
SELECT * FROM alvyn.try_append_streams(ARRAY['b-1', 'a-1'], ARRAY['D', 'E'], ARRAY['4', '5']::jsonb[],
    NULL, ARRAY['a-1'], ARRAY[3]);
SELECT version, id, type, data, metadata, schema_version FROM alvyn.load('a-1');

-- Conflict: head too far, not far enough, there, not there.
BEGIN;
SELECT * FROM alvyn.try_append('a-1', 3, 'X', '{}');
SELECT * FROM alvyn.try_append('a-1', 5, 'X', '{}');
SELECT * FROM alvyn.try_append('a-1', 0, 'X', '{}');
SELECT * FROM alvyn.try_append('a-1', -1, 'X', '{}');
SELECT * FROM alvyn.try_append('none-1', -2, 'X', '{}');
SELECT * FROM alvyn.try_append('none-1', 1, 'X', '{}');
SELECT * FROM alvyn.try_append_batch('a-1', 2, ARRAY['X', 'Y'], ARRAY['{}', '{}']::jsonb[]);
-- Of several streams, the one that has the conflict.
SELECT * FROM alvyn.try_append_streams(ARRAY['b-1', 'new-1', 'a-1'], ARRAY['X', 'X', 'X'], ARRAY['{}', '{}', '{}']::jsonb[],
    NULL, ARRAY['b-1', 'new-1', 'a-1'], ARRAY[1, 0, 7]);
SELECT * FROM alvyn.try_append_streams(ARRAY['b-1'], ARRAY['X'], ARRAY['{}']::jsonb[],
    NULL, ARRAY['other-1'], ARRAY[-2]);
-- The version it returned works in the same transaction.
SELECT version, conflict FROM alvyn.try_append('a-1', 4, 'F', '{}');
COMMIT;
SELECT stream_id, version FROM alvyn.list_streams();
SELECT stream_id FROM alvyn.streams ORDER BY stream_id;
SELECT max(position) - count(*) AS lost_positions FROM alvyn.events;

-- A conflict writes no key, so the call can be repeated with a new version.
SELECT version, duplicate, conflict FROM alvyn.try_append('a-1', 4, 'G', '{}', idempotency_key => 'key-2');
SELECT version, duplicate, conflict FROM alvyn.try_append('a-1', 5, 'G', '{}', idempotency_key => 'key-2');
SELECT version, duplicate, conflict FROM alvyn.try_append('a-1', 5, 'G', '{}', idempotency_key => 'key-2');

-- Several in one statement: the second of two with the same version loses.
SELECT i, r.version, r.conflict
FROM generate_series(1, 2) i, LATERAL alvyn.try_append('c-1', i * 0, 'H', '{}') r;

-- Everything else still is an error: arguments, other content under a key,
-- a closed stream.
\set VERBOSITY sqlstate
SELECT alvyn.try_append('', 0, 'A', '{}');
SELECT alvyn.try_append_batch('a-1', 0, '{}', '{}');
SELECT alvyn.try_append_streams(ARRAY['a-1'], NULL, NULL);
SELECT alvyn.try_append('a-1', NULL, 'other', '{}', idempotency_key => 'key-2');
UPDATE alvyn.streams SET state = 'z' WHERE stream_id = 'b-1';
SELECT alvyn.try_append('b-1', NULL, 'A', '{}');

SELECT * FROM alvyn.verify();
