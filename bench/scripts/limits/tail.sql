-- The newest snapshot of one of several streams and what follows it.
\set stream random(1, :streams)
SELECT * FROM alvyn.load_latest(:prefix || '-' || :stream, :snapshot);
