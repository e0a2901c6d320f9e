-- Several events of one stream in one call.
--
-- I1: they take the next versions in the order of the arrays, without hole.
-- I3: all of them or none, and the result tells the range and the head.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

SELECT * FROM alvyn.append_batch('order-1', 0,
    ARRAY['Placed', 'Paid', 'Shipped'], ARRAY['{"n": 1}', '{"n": 2}', '{"n": 3}']::jsonb[]);
SELECT * FROM alvyn.append_batch('order-1', 3, ARRAY['Returned'], ARRAY['{}']::jsonb[]);

-- Everything that can be said of the events; null elements where the
-- argument is optional.
SELECT first_version, last_version, version
FROM alvyn.append_batch(
    stream_id => 'order-1',
    expected_version => 4,
    types => ARRAY['A', 'B', 'C'],
    data => ARRAY['1', 'null', '[3]']::jsonb[],
    metadata => ARRAY['{"m": 1}', NULL, 'null']::jsonb[],
    ids => ARRAY[NULL, 'id-b', 'id-c'],
    times => ARRAY['2020-01-01 00:00+00', NULL, '2019-01-01 00:00+00']::timestamptz[],
    schema_versions => ARRAY[NULL, 2, 7],
    idempotency_key => 'batch-1');
SELECT version, id, type, data, metadata, schema_version,
       CASE WHEN "time" < '2021-01-01' THEN "time" END AS given_time
FROM alvyn.load('order-1')
ORDER BY version;

-- Arrays need not begin at 1.
SELECT version
FROM alvyn.append_batch('order-2', 0, '[5:6]={A,B}'::text[], ARRAY['1', '2']::jsonb[]);
SELECT version, type, data FROM alvyn.load('order-2');

-- More events than are written at a time, some of them large.
SELECT first_version, last_version, last_position - first_position AS distance, version
FROM alvyn.append_batch('many-1', NULL,
    ARRAY(SELECT 'T' || i FROM generate_series(1, 1234) i),
    ARRAY(SELECT jsonb_build_object('i', i, 'pad', repeat('x', CASE WHEN i % 100 = 0 THEN 50000 ELSE i % 7 END))
          FROM generate_series(1, 1234) i));
SELECT alvyn.contiguous(version), count(*), sum((data->>'i')::int),
       bool_and((data->>'i')::int = version AND type = 'T' || version) AS in_order,
       bool_and(length(data->>'pad') = CASE WHEN version % 100 = 0 THEN 50000 ELSE version % 7 END) AS whole
FROM alvyn.load('many-1');

-- Two batches in one statement, the second sees the first.
SELECT (alvyn.append_batch('many-1', 1233 + i, ARRAY['U'], ARRAY['{}']::jsonb[])).version
FROM generate_series(1, 3) i;

-- None of the events is stored when one is refused or the stream has moved.
\set VERBOSITY sqlstate
SELECT alvyn.append_batch('order-2', 2, ARRAY['A', 'B', ''], ARRAY['1', '2', '3']::jsonb[]);
SELECT alvyn.append_batch('order-2', 1, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[]);
SELECT alvyn.append_batch('order-3', 0, ARRAY['A', 'B', NULL], ARRAY['1', '2', '3']::jsonb[]);
SELECT alvyn.stream_version('order-2'), alvyn.stream_version('order-3');
SELECT count(*) FROM alvyn.streams WHERE stream_id = 'order-3';

-- A refused append takes no position: the next one follows on.
SELECT r.first_position - e.position AS distance
FROM alvyn.append('order-2', 2, 'C', '{}') r, (SELECT max(position) AS position FROM alvyn.events) e;

-- I12
SELECT * FROM alvyn.verify();
