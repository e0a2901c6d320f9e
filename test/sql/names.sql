-- Case 14: odd names of streams, types, ids and keys through every function.
--
-- I8: names are compared byte by byte.  Each id is a stream of its own, comes
-- back as it went in, and nothing in it is taken for a pattern or for SQL.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
CREATE TABLE names AS
SELECT i, n FROM unnest(ARRAY[
    'a_b-1', 'axb-1', 'a%b-1', '%', '_', '-', '--', '/', 'a/1', 'é', E'e\u0301', 'É', 'A', 'a', 'a ', ' a',
    'ß', 'ss', '''', '"', '\', '\\', ''';DROP TABLE alvyn.events;--', E'\t', E'\n', E'\r', E'\x01', '{}', '$1', 'NULL', 'null',
    E'\u200B', E'\uFEFF', '日本', E'\U0001F600', repeat('x', 512), repeat('é', 256), 'i', 'ı', 'İ']) WITH ORDINALITY v (n, i);

SELECT count(*) FILTER (WHERE (r).stream_id = n AND (r).version = 1) AS appended
FROM (SELECT n, alvyn.append(n, 0, n, to_jsonb(n), NULL, n, idempotency_key => n) AS r FROM names OFFSET 0) s;
SELECT count(*) FILTER (WHERE (r).duplicate AND (r).version = 1) AS duplicates
FROM (SELECT alvyn.append(n, 0, n, to_jsonb(n), NULL, n, idempotency_key => n) AS r FROM names OFFSET 0) s;
SELECT count(*) FILTER (WHERE (r).version = 2) AS batches
FROM (SELECT alvyn.append_batch(n, 1, ARRAY[n], ARRAY[to_jsonb(n)], ids => ARRAY[n]) AS r FROM names OFFSET 0) s;
SELECT count(*) FILTER (WHERE version = 3) AS of_several
FROM alvyn.append_streams(ARRAY(SELECT n FROM names ORDER BY i), ARRAY(SELECT n FROM names ORDER BY i),
    ARRAY(SELECT to_jsonb(n) FROM names ORDER BY i), NULL,
    ARRAY(SELECT n FROM names ORDER BY n), ARRAY(SELECT 2 FROM names));
SELECT count(*) FILTER (WHERE version = 3 AND conflict) AS conflicts
FROM names, LATERAL alvyn.try_append(n, 2, 'A', '{}');

SELECT count(*) AS loaded, count(*) FILTER (WHERE e.stream_id = n AND type = n AND data = to_jsonb(n)
       AND id = CASE version WHEN 3 THEN n || '/3' ELSE n END) AS as_they_went_in
FROM names, LATERAL alvyn.load(n) e;
SELECT count(*) FILTER (WHERE alvyn.stream_version(n) = 3) AS versions FROM names;
SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM alvyn.list_streams(n) l WHERE l.stream_id = n)) AS listed,
       count(*) FILTER (WHERE (SELECT count(*) FROM alvyn.list_streams(n) l) =
                              (SELECT count(*) FROM names o WHERE starts_with(o.n, names.n))) AS no_others
FROM names;
SELECT count(*) FILTER (WHERE (v).ok AND (v).streams = (SELECT count(*) FROM names o WHERE starts_with(o.n, names.n))) AS verified
FROM (SELECT *, alvyn.verify(n) AS v FROM names OFFSET 0) names;
SELECT count(*) FILTER (WHERE split_part(alvyn.store_digest(n), ':', 1)::int =
                              3 * (SELECT count(*) FROM names o WHERE starts_with(o.n, names.n))) AS digests
FROM names;
SELECT count(*) FROM alvyn.verify_streams();

-- NFC and NFD are different streams, as are upper and lower case.
SELECT alvyn.stream_version('é'), alvyn.stream_version(E'e\u0301'), alvyn.stream_version('e');
-- A name counts in bytes: 513, also when it compresses well, is too long.
SELECT length(n), octet_length(n) FROM names WHERE octet_length(n) = 512 ORDER BY n;
\set VERBOSITY terse
SELECT alvyn.append(repeat('é', 257), 0, 'A', '{}');
SELECT alvyn.append(repeat('x', 100000), 0, 'A', '{}');
SELECT alvyn.append('a', 3, repeat('x', 100000), '{}');
SELECT alvyn.append('a', 3, 'A', '{}', id => repeat('x', 100000));
SELECT alvyn.append('a', 3, 'A', '{}', idempotency_key => repeat('x', 100000));
SELECT alvyn.append('', 0, 'A', '{}');

-- Case 15: versions, positions, stream numbers and counters pass 2^31 and
-- 2^32, up to the last number there is.
SELECT alvyn.append('wide-0', 0, 'A', '{}');
SELECT setval('alvyn.events_position_seq', 4294967295), setval('alvyn.streams_stream_no_seq', 2147483647);
SELECT count(alvyn.append_batch('wide-' || i, 0, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])) FROM generate_series(1, 2) i;
UPDATE alvyn.streams SET version_floor = 2147483647 WHERE stream_id = 'wide-1';
UPDATE alvyn.events SET version = version + 2147483647 WHERE stream_no = 2147483648;
SELECT alvyn.append_batch('wide-1', 2147483649, ARRAY['C', 'D'], ARRAY['3', '4']::jsonb[]);
SELECT position, version, id, data FROM alvyn.load('wide-1', 2147483649);
SELECT * FROM alvyn.verify('wide-');
SELECT alvyn.contiguous(version) FROM alvyn.load('wide-1');
SELECT setval('alvyn.events_position_seq', 9223372036854775806);
SELECT alvyn.append('wide-0', 1, 'A', '{}');
SELECT alvyn.append('wide-0', 2, 'A', '{}');
SELECT ok FROM alvyn.verify();
DROP TABLE names;
