-- The rows that append_batch.sql writes, without any check.
\set stream :run * 1000000 + :client_id * 1000 + :k % 1000
\set version 1 + :k / 1000 * 10
\set k :k + 1
INSERT INTO limits.plain (stream_no, version, slot, type, data)
SELECT :stream, :version + e.n, 0, e.type, e.data
  FROM unnest(:types::text[], :data::jsonb[]) WITH ORDINALITY AS e (type, data, n);
