-- Who may do what: each right that is granted or refused has a line here.
--
-- Readers look, writers also append, administrators also maintain; nobody
-- writes to a table but through a function, and nothing is open to PUBLIC.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT (alvyn.append('old-1', 0, 'A', '{}', idempotency_key => 'k0')).version;
SELECT alvyn.create_api_key('acme') AS key \gset
SELECT alvyn.create_source('shop', signed => false), alvyn.add_secret('shop', '0123456789abcdef');

-- All functions and tables, by role; p is everybody.
CREATE ROLE test_nobody;
CREATE ROLE test_reader IN ROLE alvyn_reader;
CREATE ROLE test_writer IN ROLE alvyn_writer;
CREATE ROLE test_admin IN ROLE alvyn_admin;
SELECT p.proname AS function, string_agg(DISTINCT CASE WHEN p.prokind = 'a' THEN 'aggregate' ELSE p.provolatile::text END, ' ') AS kind,
       string_agg(DISTINCT concat(CASE WHEN has_function_privilege('test_reader', p.oid, 'EXECUTE') THEN 'r' END,
                                  CASE WHEN has_function_privilege('test_writer', p.oid, 'EXECUTE') THEN 'w' END,
                                  CASE WHEN has_function_privilege('test_admin', p.oid, 'EXECUTE') THEN 'a' END,
                                  CASE WHEN has_function_privilege('test_nobody', p.oid, 'EXECUTE') THEN 'p' END), ' ') AS execute
FROM pg_proc p
WHERE p.pronamespace = 'alvyn'::regnamespace AND NOT 'internal'::regtype = ANY (array_append(p.proargtypes, p.prorettype))
GROUP BY p.proname
ORDER BY p.proname COLLATE "C";
SELECT c.relname, c.relkind, r.rolname,
       concat_ws(' ', VARIADIC ARRAY(SELECT a FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) WITH ORDINALITY v (a, i)
                             WHERE c.relkind <> 'S' AND has_table_privilege(r.oid, c.oid, a) ORDER BY i)
                       || ARRAY(SELECT a FROM unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) a
                             WHERE CASE c.relkind WHEN 'S' THEN has_sequence_privilege(r.oid, c.oid, a) END)) AS privileges
FROM pg_class c, pg_roles r
WHERE c.relnamespace = 'alvyn'::regnamespace AND c.relkind IN ('r', 'S', 'v') AND r.rolname LIKE 'test\_%'
ORDER BY c.relname COLLATE "C", r.rolname COLLATE "C";
SELECT r.rolname, has_schema_privilege(r.oid, 'alvyn', 'USAGE') AS usage, has_schema_privilege(r.oid, 'alvyn', 'CREATE') AS creates
FROM pg_roles r WHERE r.rolname LIKE 'test\_%' ORDER BY r.rolname;

-- The roles are what they should be: no login, no attribute, one in another.
SELECT rolname, rolsuper, rolcreatedb, rolcreaterole, rolcanlogin, rolreplication, rolbypassrls,
       ARRAY(SELECT roleid::regrole::text FROM pg_auth_members WHERE member = r.oid ORDER BY 1) AS member_of
FROM pg_roles r WHERE rolname LIKE 'alvyn\_%' ORDER BY rolname COLLATE "C";

-- Now by doing it.
\set VERBOSITY sqlstate
SET ROLE test_nobody;
SELECT alvyn.append('old-1', NULL, 'A', '{}');
SELECT * FROM alvyn.load('old-1');
SELECT alvyn.stream_slot('old-1');
RESET ROLE;

SET ROLE test_reader;
SELECT version, type FROM alvyn.load('old-1');
SELECT stream_id, version FROM alvyn.list_streams();
SELECT alvyn.stream_version('old-1'), (alvyn.verify()).ok, alvyn.store_digest() IS NOT NULL AS digest;
SELECT count(*) FROM alvyn.verify_streams();
SELECT alvyn.contiguous(version), alvyn.sum_number(data, 'a'), alvyn.digest(e) IS NOT NULL AS digest FROM alvyn.load('old-1') e;
SELECT count(*) FROM alvyn.events JOIN alvyn.streams USING (stream_no);
SELECT count(*) FROM alvyn.idempotency_keys;
SELECT alvyn.append('old-1', NULL, 'A', '{}');
SELECT alvyn.try_append('old-1', NULL, 'A', '{}');
SELECT alvyn.append_batch('old-1', NULL, ARRAY['A'], ARRAY['{}']::jsonb[]);
SELECT alvyn.append_streams(ARRAY['old-1'], ARRAY['A'], ARRAY['{}']::jsonb[]);
SELECT alvyn.purge_idempotency_keys();
INSERT INTO alvyn.events (stream_no, version, slot, type, data) VALUES (1, 2, 0, 'A', '{}');
SELECT source, valid_secrets FROM alvyn.inbox_status;
SELECT count(*) FROM alvyn.inbox_secrets;
SELECT alvyn.receive('shop', 'm', 'old-1', 'A', '{}');
SELECT alvyn.check_message('shop', 1, NULL, NULL);
SELECT alvyn.count_message('shop', 0);
SELECT alvyn.hmac_matches('', '{}', '');
SELECT count(*) FROM alvyn.api_keys;
SELECT (SELECT count(*) FROM alvyn.usage) + (SELECT count(*) FROM alvyn.tenant_quotas) AS rows;
SELECT alvyn.authenticate(:'key');
RESET ROLE;

SET ROLE test_writer;
SELECT (alvyn.append('old-1', 1, 'A', '{}', idempotency_key => 'k1')).version, (alvyn.try_append('new-1', 0, 'A', '{}')).version;
SELECT (alvyn.append('old-1', 1, 'A', '{}', idempotency_key => 'k1')).duplicate;
SELECT (alvyn.append_batch('old-1', 2, ARRAY['A'], ARRAY['{}']::jsonb[])).version, (alvyn.try_append_batch('new-1', 1, ARRAY['A'], ARRAY['{}']::jsonb[])).version;
SELECT stream_id, version FROM alvyn.append_streams(ARRAY['new-2', 'old-1'], ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[]);
SELECT stream_id, version FROM alvyn.try_append_streams(ARRAY['new-2', 'old-1'], ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[]);
SELECT count(*) FROM alvyn.load('old-1');
SELECT count(*) FROM alvyn.idempotency_keys;
SELECT alvyn.purge_idempotency_keys();
INSERT INTO alvyn.events (stream_no, version, slot, type, data) VALUES (1, 2, 0, 'A', '{}');
UPDATE alvyn.events SET data = '{}';
DELETE FROM alvyn.events;
TRUNCATE alvyn.events;
INSERT INTO alvyn.streams (stream_id, slot) VALUES ('x', 0);
UPDATE alvyn.streams SET state = 'z';
INSERT INTO alvyn.idempotency_keys VALUES ('k', '', '{}');
SELECT nextval('alvyn.events_position_seq');
SELECT setval('alvyn.streams_stream_no_seq', 1);
SELECT stream_id FROM alvyn.streams FOR UPDATE;
CREATE TRIGGER t BEFORE INSERT ON alvyn.events EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE TABLE alvyn.mine (a int);
SELECT version FROM alvyn.receive('shop', 'm', 'new-3', 'A', '{}');
SELECT version FROM alvyn.receive('shop', 'm-2', 'new-3', 'A', NULL, body => '{"n": 1}', signature => '7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34');
SELECT count(*) FROM alvyn.inbox_secrets;
SELECT alvyn.hmac_matches('', '{}', '');
SELECT alvyn.create_source('mine');
SELECT alvyn.add_secret('shop', 'fedcba9876543210');
UPDATE alvyn.inbox_counts SET invalid = 0;
SELECT alvyn.authenticate(:'key');
SELECT hash FROM alvyn.api_keys;
SELECT alvyn.create_api_key('acme');
SELECT alvyn.revoke_api_key(:'key');
SELECT alvyn.set_quota('acme', 'day');
SELECT alvyn.account_usage();
SET alvyn.tenant = 'acme';
SET alvyn.max_event_size = '2MB';
SET alvyn.idempotency_retention = 0;
RESET ROLE;

SET ROLE test_admin;
SELECT (alvyn.append('old-1', NULL, 'A', '{}')).version, alvyn.purge_idempotency_keys();
SELECT count(*) FROM alvyn.idempotency_keys;
SELECT alvyn.create_source('mine'), alvyn.add_secret('mine', 'fedcba9876543210'), alvyn.drop_source('mine');
SELECT secret FROM alvyn.inbox_secrets;
SELECT alvyn.hmac_matches('', '{}', '');
DELETE FROM alvyn.inbox_secrets;
SELECT tenant, octet_length(hash) FROM alvyn.api_keys;
SELECT alvyn.create_api_key('acme') IS NOT NULL AS key, alvyn.revoke_api_key(:'key'), alvyn.set_quota('acme', 'day'), alvyn.account_usage() > 0 AS accounted;
SET alvyn.tenant = 'acme';
DELETE FROM alvyn.events;
UPDATE alvyn.streams SET state = 'z';
SET alvyn.idempotency_retention = 0;
DROP EXTENSION alvyn;
RESET ROLE;

-- Only a superuser installs the extension.
GRANT CREATE ON DATABASE :DBNAME TO test_admin;
BEGIN;
DROP EXTENSION alvyn;
SET LOCAL ROLE test_admin;
CREATE EXTENSION alvyn;
ROLLBACK;
REVOKE CREATE ON DATABASE :DBNAME FROM test_admin;
SELECT stream_id, version FROM alvyn.list_streams();
DROP ROLE test_nobody, test_reader, test_writer, test_admin;
