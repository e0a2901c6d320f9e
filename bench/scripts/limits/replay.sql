-- All events of one of several streams, for a client that replays them.
\set stream random(1, :streams)
SELECT * FROM alvyn.load(:prefix || '-' || :stream);
