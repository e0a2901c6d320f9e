-- What load.sql returns, by a plain statement.
\set stream :first + random(1, :streams)
SELECT e.position, s.stream_id, e.version,
       coalesce(e.id, s.stream_id || '/' || e.version) AS id,
       e.type, e."time", e.data, e.metadata, e.schema_version, e.snapshot
  FROM alvyn.streams s
  JOIN alvyn.events e USING (stream_no)
 WHERE s.stream_id = :stream
   AND e.version >= 1
 ORDER BY e.version;
