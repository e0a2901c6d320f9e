-- Append one event, with the expected version, to the next of the client's
-- 1,000 streams.
\set stream :run * 1000000 + :client_id * 1000 + :k % 1000
\set version 1 + :k / 1000
\set k :k + 1
SELECT (alvyn.append(:stream, :version, 'MoneyDeposited', :data)).version;
