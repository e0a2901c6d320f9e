-- The rows that load.sql reads, as they are stored, for a reader who knows
-- the number of the stream and needs neither its name nor the events' ids.
\set number :stream_no + random(1, :streams)
SELECT position, stream_no, version, id, type, "time", data, metadata,
       schema_version, snapshot
  FROM alvyn.events
 WHERE stream_no = :number
   AND version >= 1
 ORDER BY version;
