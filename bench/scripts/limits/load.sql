-- Load one of several streams.
\set stream :first + random(1, :streams)
SELECT * FROM alvyn.load(:stream);
