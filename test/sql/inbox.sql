-- Messages of other systems are appended once, and only when they are signed.
--
-- HMAC-SHA-256 is that of RFC 4231.  Several secrets are valid at once.  The
-- same message again is a duplicate, one that was refused may be sent again.
-- Counts of refused messages are not rolled back.  Keys are kept as long as
-- the longest window.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;

-- Test cases of RFC 4231 with a whole digest, and each with one bit changed.
WITH vectors (no, key, data, digest) AS (VALUES
    (1, repeat('0b', 20), encode('Hi There', 'hex'), 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'),
    (2, encode('Jefe', 'hex'), encode('what do ya want for nothing?', 'hex'), '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'),
    (3, repeat('aa', 20), repeat('dd', 50), '773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe'),
    (4, '0102030405060708090a0b0c0d0e0f10111213141516171819', repeat('cd', 50), '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b'),
    (6, repeat('aa', 131), encode('Test Using Larger Than Block-Size Key - Hash Key First', 'hex'), '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54'),
    (7, repeat('aa', 131), encode('This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.', 'hex'), '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2'))
SELECT no, alvyn.hmac_matches(d, ARRAY[k], s) AS matches, alvyn.hmac_matches(d, ARRAY['other', k, NULL, '']::bytea[], s) AS among_others,
       (SELECT count(*) FROM generate_series(0, 255) b WHERE alvyn.hmac_matches(d, ARRAY[k], set_bit(s, b, 1 - get_bit(s, b)))) AS other_signatures,
       alvyn.hmac_matches(d || '\x00', ARRAY[k], s) AS other_body, alvyn.hmac_matches(d, ARRAY[k || '\x01'::bytea], s) AS other_key
FROM vectors, LATERAL (SELECT decode(key, 'hex'), decode(data, 'hex'), decode(digest, 'hex')) v (k, d, s) ORDER BY no;
SELECT alvyn.hmac_matches('x', '{}', sha256('x')) AS no_key, alvyn.hmac_matches('x', '{a}', '') AS no_signature,
       alvyn.hmac_matches('x', '{a}', substr(sha256('x'), 1, 31)) AS short;

-- A source that signs.  Whatever is right comes in once; the next secret is
-- valid beside the first until that one ends.
SELECT alvyn.create_source('shop');
SELECT alvyn.add_secret('shop', '0123456789abcdef');
CREATE VIEW status AS
SELECT valid_secrets AS secrets, unsigned, invalid, oversized, expired, replayed, duplicates FROM alvyn.inbox_status WHERE source = 'shop';
\set sig1 '\'7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34\''
\set sig2 '\'23yy+uJ8wXS5wntrl3b9rGUVAkAidRPZ9ppFIVKvHhg=\''
SELECT * FROM alvyn.receive('shop', 'm-1', 'order-1', 'Placed', NULL, body => '{"n": 1}', signature => :sig1);
SELECT * FROM alvyn.receive('shop', 'm-1', 'order-1', 'Placed', '{"n": 1}', body => '{"n": 1}', signature => 'sha256=' || upper(:sig1));
SELECT * FROM status;
\set VERBOSITY sqlstate
SELECT version FROM alvyn.receive('shop', 'm-2', 'order-1', 'Paid', NULL, body => '{"n": 2}', signature => :sig2);
SELECT * FROM status;
SELECT alvyn.add_secret('shop', 'fedcba9876543210');
SELECT version FROM alvyn.receive('shop', 'm-2', 'order-1', 'Paid', NULL, body => '{"n": 2}', signature => :sig2);
SELECT version, duplicate FROM alvyn.receive('shop', 'm-1', 'order-1', 'Placed', NULL, body => '{"n": 1}', signature => :sig1);
SELECT alvyn.expire_secret('shop', 1);
SELECT version FROM alvyn.receive('shop', 'm-1', 'order-1', 'Placed', NULL, body => '{"n": 1}', signature => :sig1);
SELECT * FROM status;
SELECT alvyn.remove_secrets('shop'), alvyn.remove_secrets('shop');
SELECT secret_no, valid_until FROM alvyn.inbox_secrets;
-- One that is not valid yet.
SELECT alvyn.add_secret('shop', '0123456789abcdef', valid_from => '9999-01-01');
SELECT version FROM alvyn.receive('shop', 'm-3', 'order-1', 'Placed', NULL, body => '{"n": 1}', signature => :sig1);
SELECT alvyn.expire_secret('shop', 3, '9999-02-01');
SELECT secret_no, valid_from > now() AS later, valid_until > now() AS ends_later FROM alvyn.inbox_secrets ORDER BY 1;
-- Other content under the same id, another stream included: refused, counted
-- although all of it is rolled back, also in a transaction of its own.
SELECT version FROM alvyn.receive('shop', 'm-2', 'order-2', 'Paid', NULL, body => '{"n": 2}', signature => :sig2);
BEGIN;
SELECT version FROM alvyn.receive('shop', 'm-2', 'order-1', 'Unpaid', NULL, body => '{"n": 2}', signature => :sig2);
ROLLBACK;
BEGIN;
SELECT version FROM alvyn.receive('shop', 'm-4', 'order-1', 'Paid', NULL, body => '{"n": 2}');
ROLLBACK;
-- Too old for its source, too large.
SELECT version FROM alvyn.receive('shop', 'm-5', 'order-1', 'Paid', NULL, "time" => now() - interval '8 days', body => '{"n": 2}', signature => :sig2);
SELECT version FROM alvyn.receive('shop', 'm-5', 'order-1', 'Paid', NULL, "time" => now() - interval '6 days', body => '{"n": 2}', signature => :sig2);
SELECT alvyn.alter_source('shop', true, 'json', 7, NULL);
SELECT version FROM alvyn.receive('shop', 'm-6', 'order-1', 'Paid', NULL, body => '{"n": 2}', signature => :sig2);
SELECT alvyn.alter_source('shop', true, 'json', 8, NULL);
SELECT version FROM alvyn.receive('shop', 'm-6', 'order-1', 'Paid', NULL, "time" => now() - interval '8 years', body => '{"n": 2}', signature => :sig2);
SELECT * FROM status;
SELECT version, type, data FROM alvyn.load('order-1');
SELECT key FROM alvyn.idempotency_keys ORDER BY key;
\set VERBOSITY default

-- A source that does not sign: data, or a body, or both if they agree.  A
-- signature that comes all the same must be right.
SELECT alvyn.create_source('legacy', signed => false, max_bytes => 20, dedup_window => NULL);
SELECT version FROM alvyn.receive('legacy', 'm-1', 'old-1', 'A', '{"a": 1}', '{"m": 1}', 'own-id', '2024-01-01', 2);
SELECT version FROM alvyn.receive('legacy', 'm-2', 'old-1', 'A', NULL, body => '[1, 2]');
SELECT version FROM alvyn.receive('legacy', 'm-3', 'old-1', 'A', '[1, 2]', body => '[1,2]');
\set VERBOSITY sqlstate
SELECT version FROM alvyn.receive('legacy', 'm-1', 'old-1', 'A', '{"a": 1}', '{"m": 2}', 'own-id', '2024-01-01', 2);
SELECT alvyn.alter_source('legacy', false, 'json', 20, '1 day');
SELECT version FROM alvyn.receive('legacy', 'm-1', 'old-1', 'A', '{"a": 1}', '{"m": 1}', 'own-id', '2024-01-01', 2);
SELECT version FROM alvyn.receive('legacy', 'm-4', 'old-1', 'A', '[1, 2, 3]', body => '[1,2]');
SELECT version FROM alvyn.receive('legacy', 'm-4', 'old-1', 'A', NULL, body => '[1, 2]', signature => :sig1);
SELECT version FROM alvyn.receive('legacy', 'm-4', 'old-1', 'A', to_jsonb(repeat('x', 19)));
SELECT version FROM alvyn.receive('legacy', 'm-4', 'old-1', 'A', to_jsonb(repeat('x', 18)));
\set VERBOSITY default
SELECT version, data, metadata, id, "time", schema_version FROM alvyn.load('old-1', 1, 1);

-- CloudEvents: the body says everything but the stream.
SELECT alvyn.create_source('events', signed => false, format => 'cloudevent', dedup_window => NULL);
\set body '\'{"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext", "id": "C234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "data": {"appinfoA": "abc"}}\''
SELECT version FROM alvyn.receive('events', NULL, 'ce-1', NULL, NULL, body => :body);
SELECT version, duplicate FROM alvyn.receive('events', '/mycontext C234-1234-1234', 'ce-1', 'com.example.someevent', NULL, body => :body);
SELECT version FROM alvyn.receive('events', NULL, 'ce-1', NULL, NULL, '{"source": "/x", "via": "proxy"}', body => replace(:body, 'C234', 'D234')::bytea);
SELECT version, id, type, "time", data, metadata, alvyn.cloudevent(e) = :body AS same FROM alvyn.load('ce-1') e;
\set VERBOSITY sqlstate
SELECT version FROM alvyn.receive('events', NULL, 'ce-1', 'other', NULL, body => :body);
SELECT version FROM alvyn.receive('events', NULL, 'ce-1', NULL, NULL, body => '{"specversion": "1.0"}');
\set VERBOSITY default

-- Raw: signed, but the caller says what it means.
SELECT alvyn.create_source('form', format => 'raw', max_bytes => 100);
SELECT alvyn.add_secret('form', 'what do ya want for nothing? - no');
SELECT version FROM alvyn.receive('form', 'm-1', 'form-1', 'Filled', '{"a": "1"}', body => 'a=1&b=%20',
    signature => '8f3d4e257443c4dabca1877e528743abc4a8106b36b6d4214e90afa734b93a35');

-- The same message id of two sources is two messages.
SELECT alvyn.create_source('legacy2', signed => false, dedup_window => '30 days');
SELECT version FROM alvyn.receive('legacy2', 'm-2', 'old-2', 'A', '[1]');

-- The window keeps the keys from being purged.
UPDATE alvyn.idempotency_keys SET created_at = now() - interval '29 days' WHERE key ~ 'legacy';
UPDATE alvyn.idempotency_keys SET created_at = now() - interval '31 days' WHERE key ~ 'shop';
SELECT alvyn.purge_idempotency_keys();
SELECT key FROM alvyn.idempotency_keys ORDER BY key;
SELECT version, duplicate FROM alvyn.receive('legacy2', 'm-2', 'old-2', 'A', '[1]');
SELECT alvyn.alter_source('legacy2', false, 'json', 1000, '20 days');
SELECT alvyn.purge_idempotency_keys();
SELECT key FROM alvyn.idempotency_keys ORDER BY key;

-- A count is a change like any other: vacuumed, rewritten, moved.
VACUUM FULL alvyn.inbox_counts;
\set VERBOSITY sqlstate
SELECT alvyn.receive('form', 'm-2', 'form-1', 'A', '1');
BEGIN;
SELECT alvyn.create_source('new');
SELECT alvyn.add_secret('new', 'fedcba9876543210');
SAVEPOINT s;
SELECT alvyn.receive('new', 'm', 'new-1', 'A', NULL, body => '{"n": 1}', signature => :sig2);
ROLLBACK TO s;
SELECT version FROM alvyn.receive('new', 'm', 'new-1', 'A', NULL, body => '{"n": 2}', signature => :sig2);
COMMIT;
SELECT source, unsigned, invalid FROM alvyn.inbox_status WHERE source IN ('form', 'new') ORDER BY source;
BEGIN READ ONLY;
SELECT alvyn.receive('form', 'm-2', 'form-1', 'A', '1');
ROLLBACK;
\set VERBOSITY default

-- Gone, and what was received stays.
SELECT alvyn.drop_source('shop');
SELECT source, signed, format, max_bytes, dedup_window, valid_secrets, oversized FROM alvyn.inbox_status ORDER BY source;
SELECT source FROM alvyn.inbox_secrets ORDER BY source;
SELECT source FROM alvyn.inbox_counts ORDER BY source;
SELECT count(*) FROM alvyn.load('order-1');
DROP VIEW status;
