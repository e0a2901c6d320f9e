-- One event: what the call returns, what is stored, what is left out.
--
-- I1: versions of a stream are 1, 2, 3 ...  I3: the result tells the true
-- head of the stream, so that the next append with it succeeds.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- The first event of a stream, and the next with the version returned.
SELECT * FROM alvyn.append('account-1', 0, 'Opened', '{"owner": "Ada"}');
SELECT * FROM alvyn.append('account-1', 1, 'Deposited', '{"amount": 10}');

-- The result is also one value in the select list, and its version can be
-- handed on as it is.
SELECT alvyn.append('account-1', 2, 'Deposited', '{"amount": 5}');
SELECT (r).version
FROM (SELECT alvyn.append('account-1', alvyn.stream_version('account-1'),
                          'Deposited', '{"amount": 1}') AS r OFFSET 0) s;

-- Another stream has versions of its own, in the same row of positions.
SELECT * FROM alvyn.append('account-2', NULL, 'Opened', '{}');

-- Everything the caller can say, by name.
SELECT version
FROM alvyn.append(
    stream_id => 'account-2',
    expected_version => 1,
    type => 'Deposited',
    data => '{"amount": 1.10}',
    metadata => '{"user": "ada"}',
    id => 'b1946ac9-2d4c-4f0e-9a5e-0f6a1c1c8f11',
    "time" => '2024-02-29 12:00:00.123456+02',
    schema_version => 3,
    idempotency_key => 'request-1');

-- Nothing is stored that can be derived: an id only if one was given.
SELECT e.position, s.stream_id, e.version, e.type, e.data, e.metadata, e.id,
       e.schema_version, e.snapshot
FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
ORDER BY e.position;
SELECT s.stream_id, e."time"
FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
WHERE e.position = 6;

-- I8: a time that Alvyn sets is the clock's, inside the statement; and the
-- stream and its events lie in the slot of the stream id.
SELECT bool_and(e."time" BETWEEN transaction_timestamp() - interval '1 hour'
                AND clock_timestamp()) AS time_of_the_clock,
       bool_and(e.slot = alvyn.stream_slot(s.stream_id)) AS event_slot,
       bool_and(s.slot = alvyn.stream_slot(s.stream_id)) AS stream_slot,
       bool_and(s.created_at <= e."time") AS created_first
FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
WHERE e.position <> 6;
BEGIN;
CREATE TEMP TABLE marks AS SELECT clock_timestamp() AS before;
SELECT (r).version > 0 AS appended
FROM (SELECT alvyn.append('account-3', NULL, 'Opened', '{}') AS r) s;
SELECT e."time" >= before AND e."time" <= clock_timestamp()
       AND e."time" > transaction_timestamp() AS between_the_marks
FROM alvyn.load('account-3') e, marks;
DROP TABLE marks;
COMMIT;

-- An omitted schema version is 1, also when null is passed.
SELECT version
FROM alvyn.append('account-3', 1, 'Closed', '{}', schema_version => NULL);
SELECT version, schema_version, metadata FROM alvyn.load('account-3');

-- Any jsonb is a payload, and comes back as it is kept.
SELECT alvyn.append('shapes-1', NULL, 'Scalar', d)
FROM unnest(ARRAY['1', '"text"', 'null', 'true', '[]', '[1, [2]]',
                  '{"b": 1, "a": {"c": null}}']::jsonb[]) d;
SELECT version, data, jsonb_typeof(data) FROM alvyn.load('shapes-1');

-- A large payload takes the way over TOAST, and comes back whole.
SELECT (r).version
FROM (SELECT alvyn.append('large-1', 0, 'Large',
             jsonb_build_object('text', (SELECT string_agg(md5(i::text), '')
                                         FROM generate_series(1, 9000) i)),
             jsonb_build_object('more', repeat('x', 100000))) AS r) s;
SELECT length(data->>'text'), length(metadata->>'more'),
       data->>'text' = (SELECT string_agg(md5(i::text), '')
                        FROM generate_series(1, 9000) i) AS same
FROM alvyn.load('large-1');

-- I12
SELECT * FROM alvyn.verify();
