-- The row that append.sql writes, without any check.
\set stream :run * 1000000 + :client_id * 1000 + :k % 1000
\set version 2 + :k / 1000
\set k :k + 1
INSERT INTO limits.plain (stream_no, version, slot, type, data) VALUES (:stream, :version, 0, 'MoneyDeposited', :data);
