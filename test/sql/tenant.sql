-- Tenants: their events carry the name, usage is added up from the feed once,
-- quotas are kept, and nobody appends as somebody else.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT current_user AS me \gset
CREATE ROLE test_writer IN ROLE alvyn_writer;
GRANT USAGE ON SCHEMA public TO test_writer;

-- Every way to append notes the tenant; metadata of the caller stays.  Without
-- a tenant nothing is added.
SELECT version FROM alvyn.append('plain-1', 0, 'A', '1', '{"m": 1}');
SELECT version FROM alvyn.append('plain-1', 1, 'A', '1', '["tenant"]');
SET alvyn.tenant = 'acme';
SELECT alvyn.create_snapshot('sum', 'acc-', 3, '{}', rules => '{"A": {"n": {"increment": 1}}}');
CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql IMMUTABLE AS
$$SELECT t, command, m::jsonb, NULL, NULL::timestamptz, NULL::int FROM (VALUES ('A', NULL), ('B', '{"m": 2}')) v (t, m)$$;
SELECT alvyn.create_decider('d', 'acc-', 'sum', 'decide(jsonb, jsonb)');
SELECT version FROM alvyn.append('acc-1', 0, 'A', '1');
SELECT version FROM alvyn.try_append('acc-1', 1, 'A', '1', '{"m": 1, "z": {"tenant": 5}}');
SELECT version FROM alvyn.append_batch('acc-1', 2, '{A,B}', '{1,2}', '{NULL,"{\"tenant\": \"acme\"}"}');
SELECT version FROM alvyn.append_streams('{acc-1,other-1}', '{A,B}', '{1,2}');
SELECT version FROM alvyn.execute('acc-2', '5');
SELECT s.stream_id, e.version, e.type, e.metadata FROM alvyn.list_streams() s, alvyn.load(s.stream_id) e ORDER BY s.stream_id, e.version;
RESET alvyn.tenant;

-- Usage: as far as it was added up, each event once, in batches of any size.
-- Commands are calls, whether in transactions of their own or not.
SELECT alvyn.account_usage(3), alvyn.account_usage(1);
SELECT tenant, events, commands FROM alvyn.usage;
SELECT alvyn.account_usage() > 0 AS more, alvyn.account_usage();
SELECT tenant, events, commands, bytes > 200 AS bytes FROM alvyn.usage;
SELECT lag_positions FROM alvyn.consumers WHERE name = 'alvyn.usage';
SET alvyn.tenant = 'umbrella';
BEGIN;
SELECT count(alvyn.append('u-' || i, 0, 'A', to_jsonb(repeat('x', 100)))) FROM generate_series(1, 5) i;
SELECT version FROM alvyn.append_batch('u-1', 1, '{A,B}', '{1,2}');
SAVEPOINT s;
SELECT version FROM alvyn.append('u-1', 3, 'A', '1');
ROLLBACK TO s;
COMMIT;
-- A repeated call is no use of anything.
SELECT duplicate FROM alvyn.append('u-1', 3, 'A', '1', idempotency_key => 'k');
SELECT duplicate FROM alvyn.append('u-1', 3, 'A', '1', idempotency_key => 'k');
-- Nobody chooses the day by giving a time.
SELECT version FROM alvyn.append_batch('u-1', 4, '{A,B}', '{1,2}', times => '{2001-01-01,2999-01-01}');
RESET alvyn.tenant;
SELECT alvyn.account_usage();
SELECT tenant, sum(events) AS events, sum(commands) AS commands, min(day) > now() - interval '2 days' AND max(day) <= now() AS today FROM alvyn.usage GROUP BY tenant ORDER BY tenant;
SELECT (SELECT sum(pg_column_size(data) + pg_column_size(metadata)) FROM alvyn.events WHERE metadata ->> 'tenant' = 'umbrella') = sum(bytes) AS bytes FROM alvyn.usage WHERE tenant = 'umbrella';
-- An aborted run adds nothing, the next one all of it.
SET alvyn.tenant = 'acme';
SELECT version FROM alvyn.append('acc-3', 0, 'A', '1');
RESET alvyn.tenant;
BEGIN;
SELECT alvyn.account_usage();
ROLLBACK;
SELECT alvyn.account_usage();

-- API keys: the key opens the tenant for the transaction, or the session.
SELECT alvyn.create_api_key('acme') AS key, alvyn.create_api_key('umbrella', 'infinity') AS other \gset
SELECT :'key' ~ '^alv_[0-9a-f]{64}$' AS form, :'key' <> :'other' AS differs;
SELECT count(*) FROM alvyn.api_keys WHERE hash = sha256(convert_to(:'key', 'UTF8')) AND starts_with(:'key', prefix) AND tenant = 'acme';
SELECT count(*) AS plain FROM alvyn.api_keys k WHERE k::text LIKE '%' || substr(:'key', 20) || '%';
SET ROLE test_writer;
BEGIN;
SELECT alvyn.authenticate(:'key');
SELECT version FROM alvyn.append('key-1', 0, 'A', '1');
SAVEPOINT s;
SELECT alvyn.authenticate(:'other');
SELECT version FROM alvyn.append('key-1', 1, 'B', '1');
ROLLBACK TO s;
SELECT version FROM alvyn.append('key-1', 1, 'C', '1');
COMMIT;
SHOW alvyn.tenant;
SELECT alvyn.authenticate(:'other', session => true);
SELECT version FROM alvyn.append('key-1', 2, 'D', '1');
SHOW alvyn.tenant;
SELECT version, type, metadata FROM alvyn.load('key-1');
-- Nobody sets it by other means, or in the metadata.
\set VERBOSITY sqlstate
SET alvyn.tenant = 'acme';
SET LOCAL alvyn.tenant = '';
SELECT set_config('alvyn.tenant', 'acme', false);
SELECT alvyn.append('key-1', NULL, 'E', '1', '{"tenant": "acme"}');
SELECT alvyn.append('key-1', NULL, 'E', '1', '{"tenant": null}');
\set VERBOSITY default
SHOW alvyn.tenant;
RESET ROLE;
-- A key that was revoked, or has expired.
SELECT alvyn.revoke_api_key(left(:'key', 16));
SELECT alvyn.create_api_key('acme', now() - interval '1 second') AS expired \gset
\set VERBOSITY sqlstate
SELECT alvyn.authenticate(:'key');
SELECT alvyn.authenticate(:'expired');
\set VERBOSITY default
RESET ALL;
SHOW alvyn.tenant;
-- A role that is bound to a tenant from its first moment, RESET included.
ALTER ROLE test_writer SET alvyn.tenant = 'bound';
ALTER ROLE test_writer LOGIN;
\c - test_writer
SELECT version FROM alvyn.append('role-1', 0, 'A', '1');
RESET ALL;
RESET alvyn.tenant;
SELECT version FROM alvyn.append('role-1', 1, 'A', '1');
SELECT DISTINCT metadata FROM alvyn.load('role-1');
\c - :me
ALTER ROLE test_writer RESET ALL;
-- Set before the library is loaded: not by those who may not.
SET ROLE test_writer;
SET alvyn.tenant = 'acme';
SELECT version FROM alvyn.append('role-1', 2, 'A', '1');
SELECT metadata FROM alvyn.load('role-1', 3);
RESET ROLE;

-- Quotas: of events, bytes and calls, in each period; what was added up
-- counts, and what this session has appended since.
DELETE FROM alvyn.usage_hours;
SET alvyn.tenant = 'q';
SELECT version FROM alvyn.append('q-1', 0, 'A', '1');
SELECT alvyn.set_quota('q', 'month', events => 4), alvyn.set_quota('q', 'day', commands => 3);
SELECT version FROM alvyn.append_batch('q-1', 1, '{A,B,C}', '{1,2,3}');
\set VERBOSITY sqlstate
SELECT version FROM alvyn.append_batch('q-1', 4, '{A,B}', '{1,2}');
SELECT version FROM alvyn.append('q-1', 4, 'A', '1');
SELECT version FROM alvyn.try_append('q-1', 5, 'A', '1');
SELECT version FROM alvyn.append('q-1', 5, 'A', '1');
SELECT alvyn.set_quota('q', 'month', events => 100);
SELECT version FROM alvyn.append('q-1', 5, 'A', '1', idempotency_key => 'q');
SELECT version FROM alvyn.append('q-1', 6, 'A', '1', idempotency_key => 'q2');
SELECT version FROM alvyn.append('q-1', 7, 'A', '1');
SELECT version FROM alvyn.append('q-1', 8, 'A', '1');
-- A repetition is answered, and a conflict is a conflict; neither is used.
SELECT duplicate FROM alvyn.append('q-1', 5, 'A', '1', idempotency_key => 'q');
SELECT version, conflict FROM alvyn.try_append('q-1', 5, 'A', '1');
SELECT alvyn.append('q-1', 5, 'A', '1');
-- The sums go over what the session has counted.
SELECT alvyn.account_usage() > 0 AS accounted;
SELECT events, commands FROM alvyn.usage WHERE tenant = 'q';
SELECT version FROM alvyn.append('q-1', 8, 'A', '1');
SELECT alvyn.set_quota('q', 'day', commands => 7);
SELECT version FROM alvyn.append('q-1', 8, 'A', '1');
SELECT version FROM alvyn.append('q-1', 9, 'A', '1');
-- Bytes.
SELECT alvyn.set_quota('q', 'day'), alvyn.set_quota('q', 'hour', bytes => 5000);
SELECT version FROM alvyn.append('q-1', 9, 'A', to_jsonb(repeat('x', 3000)));
SELECT version FROM alvyn.append('q-1', 10, 'A', to_jsonb(repeat('x', 3000)));
SELECT version FROM alvyn.append('q-1', 10, 'A', to_jsonb(repeat('x', 300)));
-- What is rolled back is given back.
SELECT alvyn.set_quota('q', 'hour'), alvyn.set_quota('q', 'month', events => 1), alvyn.account_usage() > 0 AS accounted;
DELETE FROM alvyn.usage_hours;
BEGIN;
SELECT version FROM alvyn.append('q-1', 11, 'A', '1');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT version FROM alvyn.append('q-1', 11, 'A', '1');
ROLLBACK TO s;
SELECT version FROM alvyn.append('q-1', 11, 'A', '1');
SELECT version FROM alvyn.append('q-1', 12, 'A', '1');
ROLLBACK;
-- Only the hours of the period count.
SELECT alvyn.set_quota('q', 'hour', events => 10), alvyn.set_quota('q', 'day', events => 20), alvyn.set_quota('q', 'month', events => 30);
INSERT INTO alvyn.usage_hours SELECT 'q', date_trunc('month', now(), 'UTC') - interval '1 hour', 1000, 0, 0;
SELECT version FROM alvyn.append_batch('q-1', 11, array_fill('A'::text, '{10}'), array_fill('1'::jsonb, '{10}'));
SELECT version FROM alvyn.append('q-1', 21, 'A', '1');
SELECT alvyn.set_quota('q', 'hour'), alvyn.set_quota('q', 'day');
INSERT INTO alvyn.usage_hours SELECT 'q', date_trunc('hour', now(), 'UTC'), 30, 0, 0;
SELECT version FROM alvyn.append('q-1', 21, 'A', '1');
UPDATE alvyn.usage_hours SET events = 29 WHERE events = 30;
SELECT version FROM alvyn.append('q-1', 21, 'A', '1');
-- Other tenants, and those who are none, are not concerned.
SET alvyn.tenant = 'q2';
SELECT version FROM alvyn.append('q-1', 22, 'A', '1');
RESET alvyn.tenant;
SELECT version FROM alvyn.append('q-1', 23, 'A', '1');
-- Commands are decided, and then refused.
SET alvyn.tenant = 'q';
SELECT version FROM alvyn.execute('acc-9', '5');
-- What could not be read is read again.
SET alvyn.tenant = 'q';
SET lock_timeout = 10;
BEGIN;
LOCK TABLE alvyn.usage_hours;
PREPARE TRANSACTION 'usage';
SELECT version FROM alvyn.append('q-2', 0, 'A', '1');
ROLLBACK PREPARED 'usage';
SELECT version FROM alvyn.append_batch('q-2', 0, '{A,A}', '{1,1}');
SET alvyn.tenant = 'q';
BEGIN;
LOCK TABLE alvyn.tenant_quotas;
PREPARE TRANSACTION 'quotas';
BEGIN;
SAVEPOINT s;
SELECT version FROM alvyn.append('q-2', 0, 'A', '1');
ROLLBACK TO s;
COMMIT;
ROLLBACK PREPARED 'quotas';
SELECT version FROM alvyn.append_batch('q-2', 0, '{A,A}', '{1,1}');
RESET lock_timeout;
RESET alvyn.tenant;
\set VERBOSITY default

SELECT broken_streams, ok FROM alvyn.verify();
SELECT alvyn.drop_decider('d');
DROP FUNCTION decide;
REVOKE USAGE ON SCHEMA public FROM test_writer;
DROP ROLE test_writer;
