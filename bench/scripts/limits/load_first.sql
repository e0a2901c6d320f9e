-- The first ten events of a stream.
SELECT * FROM alvyn.load(:stream) LIMIT 10;
