-- Appends insert into the tables directly.  Where that would bypass a policy
-- or lose rows, they refuse instead, with a clear error.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT (alvyn.append('old-1', 0, 'A', '{}')).version;
CREATE ROLE test_writer IN ROLE alvyn_writer;

-- Row-level security: refused to those whom a policy binds, whatever it says.
ALTER TABLE alvyn.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_of_them ON alvyn.events USING (true);
SELECT (alvyn.append('old-1', 1, 'A', '{}')).version AS by_the_owner;
SET ROLE test_writer;
SELECT alvyn.append('old-1', NULL, 'A', '{}');
\set VERBOSITY sqlstate
SELECT alvyn.append_batch('old-1', NULL, ARRAY['A'], ARRAY['{}']::jsonb[]);
SELECT alvyn.append_streams(ARRAY['new-1'], ARRAY['A'], ARRAY['{}']::jsonb[]);
\set VERBOSITY default
SELECT count(*) FROM alvyn.load('old-1');
RESET ROLE;
DROP POLICY all_of_them ON alvyn.events;
ALTER TABLE alvyn.events DISABLE ROW LEVEL SECURITY;
SET ROLE test_writer;
SELECT (alvyn.append('old-1', 2, 'A', '{}')).version;
RESET ROLE;
DROP ROLE test_writer;

-- A table that Citus keeps: rows would stay where nobody looks for them.
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass NOT NULL, partmethod "char" NOT NULL);
\c -
SELECT (alvyn.append('old-1', 3, 'A', '{}')).version AS local_table;
INSERT INTO pg_catalog.pg_dist_partition VALUES ('alvyn.events', 'h');
-- A table that is taken over gets new definitions of its shards, and every
-- session learns of that.
ALTER TABLE alvyn.events SET (fillfactor = 100);
SELECT alvyn.append('old-1', 4, 'A', '{}');
\set VERBOSITY sqlstate
SELECT alvyn.append_streams(ARRAY['new-1'], ARRAY['A'], ARRAY['{}']::jsonb[]);
UPDATE pg_catalog.pg_dist_partition SET logicalrelid = 'alvyn.streams';
ALTER TABLE alvyn.streams SET (fillfactor = 100);
SELECT alvyn.append('old-1', 4, 'A', '{}');
\set VERBOSITY default
SET allow_system_table_mods = on;
DROP TABLE pg_catalog.pg_dist_partition;
\c -
ALTER TABLE alvyn.events RESET (fillfactor);
ALTER TABLE alvyn.streams RESET (fillfactor);
SELECT (alvyn.append('old-1', 4, 'A', '{}')).version;

-- Tables and indexes that are gone or something else.
ALTER TABLE alvyn.events RENAME TO events_old;
SELECT alvyn.append('old-1', 5, 'A', '{}');
SELECT alvyn.stream_version('old-1');
CREATE VIEW alvyn.events AS SELECT * FROM alvyn.events_old;
SELECT alvyn.append('old-1', 5, 'A', '{}');
DROP VIEW alvyn.events;
ALTER TABLE alvyn.events_old RENAME TO events;
ALTER INDEX alvyn.events_stream_version_key RENAME TO another;
SELECT alvyn.append('old-1', 5, 'A', '{}');
ALTER INDEX alvyn.another RENAME TO events_stream_version_key;
SELECT (alvyn.append('old-1', 5, 'A', '{}')).version;

-- The extension keeps its members.
\set VERBOSITY terse
DROP TABLE alvyn.events;
DROP FUNCTION alvyn.append;
ALTER EXTENSION alvyn SET SCHEMA public;
-- A rewrite of the tables is nothing special.
VACUUM FULL alvyn.events, alvyn.streams;
REINDEX TABLE alvyn.events;
CLUSTER alvyn.events USING events_pkey;
SELECT (alvyn.append('old-1', 6, 'A', '{}')).version;
SELECT ok FROM alvyn.verify();
