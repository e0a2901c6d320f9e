-- The state of one of several streams.
\set stream random(1, :streams)
SELECT state, version FROM alvyn.state(:prefix || '-' || :stream, :snapshot);
