-- The next page of a reader that catches up.
SELECT * FROM alvyn.read(:after, 500);
\set after :after + 500
