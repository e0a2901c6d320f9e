-- Snapshots are kept by every form of append, in the same transaction, and
-- the version that comes back is the one to expect next.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

SELECT alvyn.create_snapshot('Balance', 'account', 50, '{"balance": 0}', rules => '{"Deposited": {"balance": {"add": "amount"}}}');

-- Case 10: 49 events, then one more.  The version works as the next expected
-- version; the versions of the own event do not move.
SELECT (alvyn.append('account-1', i - 1, 'Deposited', '{"amount": 1}')).version = i AS ok FROM generate_series(1, 49) i GROUP BY 1;
SELECT first_version, last_version, first_position, last_position, version FROM alvyn.append('account-1', 49, 'Deposited', '{"amount": 1}');
SELECT first_version, last_version, version FROM alvyn.append('account-1', 51, 'Deposited', '{"amount": 1}');
SELECT * FROM alvyn.state('account-1', 'Balance');
-- The snapshot is an event of its stream: type, id, schema version.
SELECT position, version, id, type, data, metadata, schema_version, snapshot, "time" > '2020-01-01' AND "time" <= clock_timestamp() AS now
FROM alvyn.load('account-1', 51, 1);
SELECT version, type FROM alvyn.load_latest('account-1', 'Balance');

-- A batch that crosses several thresholds writes one snapshot, behind it.
SELECT first_version, last_version, version
FROM alvyn.append_batch('account-2', 0, array_fill('Deposited'::text, ARRAY[170]), array_fill('{"amount": 2}'::jsonb, ARRAY[170]));
SELECT version, data FROM alvyn.load('account-2') WHERE snapshot;
SELECT first_version, last_version, version FROM alvyn.append_batch('account-2', 171, array_fill('Deposited'::text, ARRAY[49]), array_fill('{"amount": 2}'::jsonb, ARRAY[49]));
SELECT first_version, last_version, version FROM alvyn.append('account-2', 220, 'Deposited', '{"amount": 2}');

-- append_streams: each stream its own; the rows tell the true heads.
SELECT stream_id, first_version, last_version, version
FROM alvyn.append_streams(array_fill('account-3'::text, ARRAY[49]) || array_fill('account-4'::text, ARRAY[50]) || 'account-5'::text,
                          array_fill('Deposited'::text, ARRAY[100]), array_fill('{"amount": 3}'::jsonb, ARRAY[100]));
SELECT stream_id, first_version, last_version, version
FROM alvyn.append_streams(ARRAY['account-4', 'account-3'], ARRAY['Deposited', 'Deposited'], ARRAY['{"amount": 3}', '{"amount": 3}']::jsonb[],
                          check_streams => ARRAY['account-3', 'account-4'], check_versions => ARRAY[49, 51]);
-- The try_ forms too; a conflict writes none.
SELECT version, conflict FROM alvyn.try_append_batch('account-6', 0, array_fill('Deposited'::text, ARRAY[50]), array_fill('{"amount": 1}'::jsonb, ARRAY[50]));
SELECT version, conflict FROM alvyn.try_append('account-6', 50, 'Deposited', '{"amount": 1}');
SELECT stream_id, version, conflict FROM alvyn.try_append_streams(ARRAY['account-6'], ARRAY['Deposited'], ARRAY['{"amount": 1}']::jsonb[],
                                                                  check_streams => ARRAY['account-6'], check_versions => ARRAY[51]);
-- A repeated call returns the version of the first one, snapshot included.
SELECT version, duplicate FROM alvyn.append_batch('account-7', 0, array_fill('Deposited'::text, ARRAY[50]), array_fill('{"amount": 1}'::jsonb, ARRAY[50]), idempotency_key => 'k7');
SELECT (alvyn.append('account-7', 51, 'Deposited', '{"amount": 1}')).version;
SELECT version, duplicate FROM alvyn.append_batch('account-7', 0, array_fill('Deposited'::text, ARRAY[50]), array_fill('{"amount": 1}'::jsonb, ARRAY[50]), idempotency_key => 'k7');

-- Several appends in one statement and in one transaction.
SELECT alvyn.create_snapshot('Each', 'each', 2, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT max(version) FROM (SELECT (alvyn.append('each-1', NULL, 'A', '{}')).version FROM generate_series(1, 5)) a;
BEGIN;
SELECT (alvyn.append('each-1', 7, 'A', '{}')).version;
SELECT (alvyn.append('each-1', 9, 'A', '{}')).version;
SAVEPOINT s;
SELECT (alvyn.append('each-1', 10, 'A', '{}')).version;
ROLLBACK TO s;
SELECT (alvyn.append('each-1', 10, 'A', '{}')).version;
COMMIT;
SELECT version, type, data FROM alvyn.load('each-1');
SELECT snapshots FROM alvyn.streams WHERE stream_id = 'each-1';

-- Several snapshots on one stream: in the order of their names, each its own
-- count, none of them counting the snapshots of another.
SELECT alvyn.create_snapshot('Two', 'multi', 3, '{}', rules => '{"A": {"a": {"increment": 1}}}');
SELECT alvyn.create_snapshot('One', 'multi-sub', 2, '{}', rules => '{"A": {"a": {"increment": 1}}, "B": {"b": {"increment": 1}}}');
SELECT (alvyn.append_batch('multi-sub-1', 0, ARRAY['A', 'B', 'A', 'A'], array_fill('{}'::jsonb, ARRAY[4]))).version;
SELECT (alvyn.append_batch('multi-sub-1', 6, ARRAY['A', 'A'], array_fill('{}'::jsonb, ARRAY[2]))).version;
SELECT (alvyn.append('multi-sub-1', 9, 'A', '{}')).version;
SELECT (alvyn.append('multi-1', 0, 'B', '{}')).version, (alvyn.append_batch('multi-1', 1, ARRAY['A', 'A', 'A'], array_fill('{}'::jsonb, ARRAY[3]))).version;
SELECT l.stream_id, l.version, l.type, l.data FROM alvyn.streams s, alvyn.load(s.stream_id) l WHERE s.stream_id LIKE 'multi%' ORDER BY 1, 2;
SELECT * FROM alvyn.snapshot_marks WHERE stream_id LIKE 'multi%' ORDER BY stream_id, snapshot_name;

-- A definition comes to a stream that is long already: the next append takes
-- the snapshot, and the version is right.
SELECT (alvyn.append_batch('late-1', 0, array_fill('A'::text, ARRAY[1000]), array_fill('{}'::jsonb, ARRAY[1000]))).version;
SELECT (alvyn.append_batch('late-2', 0, array_fill('X'::text, ARRAY[1000]), array_fill('{}'::jsonb, ARRAY[1000]))).version;
SELECT (alvyn.append_batch('late-3', 0, array_fill('A'::text, ARRAY[9]), array_fill('{}'::jsonb, ARRAY[9]))).version;
SELECT alvyn.create_snapshot('Late', 'late', 10, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT * FROM alvyn.state('late-1', 'Late');
SELECT (alvyn.append('late-1', 1000, 'A', '{}')).version, (alvyn.append('late-2', 1000, 'A', '{}')).version, (alvyn.append('late-3', 9, 'X', '{}')).version;
SELECT s.* FROM unnest(ARRAY[1, 2, 3]) i, alvyn.state('late-' || i, 'Late') s ORDER BY i;
-- take_snapshot does the same without an append: only when one is due, and
-- where all of a long stream is unhandled it is none.
SELECT (alvyn.append_batch('later-1', 0, array_fill('A'::text, ARRAY[10]), array_fill('{}'::jsonb, ARRAY[10]))).version,
       (alvyn.append_batch('later-2', 0, array_fill('X'::text, ARRAY[10]), array_fill('{}'::jsonb, ARRAY[10]))).version;
SELECT alvyn.create_snapshot('Later', 'later', 10, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT alvyn.take_snapshot('later-1', 'Later'), alvyn.take_snapshot('later-2', 'Later'), alvyn.take_snapshot('later-3', 'Later');
SELECT alvyn.take_snapshot('later-1', 'Later'), alvyn.take_snapshot('later-2', 'Later');
SELECT alvyn.stream_version('later-1'), alvyn.stream_version('later-2'), alvyn.stream_version('later-3');

-- Another fold: the snapshots of the first are ignored, counted, and replaced
-- at the next threshold.
SELECT alvyn.create_snapshot('Change', 'change', 4, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT (alvyn.append_batch('change-' || i, 0, array_fill('A'::text, ARRAY[i]), array_fill('{}'::jsonb, ARRAY[i]))).version FROM generate_series(3, 6) i;
SELECT name, every, schema_version, streams, ignored FROM alvyn.snapshot_status WHERE name = 'Change';
SELECT alvyn.alter_snapshot('Change', rules => '{"A": {"n": {"increment": 10}}}');
SELECT name, every, schema_version, streams, ignored FROM alvyn.snapshot_status WHERE name = 'Change';
SELECT * FROM alvyn.snapshot_marks WHERE snapshot_name = 'Change' ORDER BY stream_id;
SELECT * FROM alvyn.state('change-5', 'Change');
SELECT min(version) FROM alvyn.load_latest('change-5', 'Change');
-- change-3 is due as it would have been; the others have enough events.
SELECT (alvyn.append('change-' || i, NULL, 'A', '{}')).version FROM generate_series(3, 4) i;
SELECT s.*, i FROM generate_series(3, 6) i, alvyn.state('change-' || i, 'Change') s ORDER BY i;
SELECT name, every, schema_version, streams, ignored FROM alvyn.snapshot_status WHERE name = 'Change';
SELECT version, data, schema_version FROM alvyn.load('change-4') WHERE snapshot;
-- At an earlier version only snapshots of this fold are used.
SELECT * FROM alvyn.state('change-4', 'Change', 5);
SELECT * FROM alvyn.state('change-4', 'Change', 6);
SELECT * FROM alvyn.state('change-4', 'Change', 7);
SELECT ok FROM alvyn.verify('change-', true);

-- rebuild_snapshots takes what is missing, in batches, until it returns 0.
SELECT alvyn.rebuild_snapshots('Change', 1), alvyn.rebuild_snapshots('Change', 1), alvyn.rebuild_snapshots('Change', 1);
SELECT name, every, schema_version, streams, ignored FROM alvyn.snapshot_status WHERE name = 'Change';
SELECT s.*, i FROM generate_series(3, 6) i, alvyn.state('change-' || i, 'Change') s ORDER BY i;
SELECT alvyn.alter_snapshot('Change', schema_version => 7);
SELECT alvyn.rebuild_snapshots('Change', 3), alvyn.rebuild_snapshots('Change'), alvyn.rebuild_snapshots('Change');
SELECT * FROM alvyn.snapshot_marks WHERE snapshot_name = 'Change' ORDER BY stream_id;
SELECT ok FROM alvyn.verify('change-', true);

-- A new "every" holds from the next append on; the snapshots stay good.
SELECT alvyn.alter_snapshot('Change', every => 2);
SELECT every, schema_version FROM alvyn.snapshots WHERE name = 'Change';
SELECT (alvyn.append('change-6', NULL, 'A', '{}')).version - alvyn.stream_version('change-6') AS taken_one;
SELECT * FROM alvyn.state('change-6', 'Change');
-- A schema version of one's own choice, the initial state alone.
SELECT alvyn.alter_snapshot('Change', initial_state => '{"n": 1000}', schema_version => 20);
SELECT alvyn.alter_snapshot('Change', initial_state => '{"n": 2000}');
SELECT alvyn.alter_snapshot('Change');
SELECT schema_version, initial_state FROM alvyn.snapshots WHERE name = 'Change';
SELECT state FROM alvyn.state('change-3', 'Change');

-- Dropped: the events stay, appends go on without it, the state is refused.
SELECT alvyn.drop_snapshot('Change');
SELECT (alvyn.append_batch('change-6', NULL, array_fill('A'::text, ARRAY[50]), array_fill('{}'::jsonb, ARRAY[50]))).version;
SELECT count(*) FROM alvyn.load('change-6') WHERE snapshot;
SELECT alvyn.state('change-6', 'Change');
SELECT alvyn.load_latest('change-6', 'Change');
SELECT count(*) FROM alvyn.snapshot_marks WHERE stream_id = 'change-6';
SELECT ok FROM alvyn.verify('change-', true);
-- Created again: a definition of its own, that takes up from the beginning.
SELECT alvyn.create_snapshot('Change', 'change', 100, '{}', rules => '{"A": {"m": {"increment": 1}}}', schema_version => 21);
SELECT * FROM alvyn.state('change-5', 'Change');
SELECT (alvyn.append('change-6', NULL, 'A', '{}')).version - alvyn.stream_version('change-6') AS due;
SELECT (alvyn.append_batch('change-6', NULL, array_fill('A'::text, ARRAY[50]), array_fill('{}'::jsonb, ARRAY[50]))).version - alvyn.stream_version('change-6') AS due;
SELECT state, replayed_events FROM alvyn.state('change-6', 'Change');
SELECT ok FROM alvyn.verify('change-', true);

-- A definition counts at once in its own transaction, and is gone with it.
BEGIN;
SELECT alvyn.create_snapshot('Own', 'own', 2, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT (alvyn.append_batch('own-1', 0, ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[])).version;
SELECT state FROM alvyn.state('own-1', 'Own');
ROLLBACK;
SELECT alvyn.state('own-1', 'Own');
SELECT (alvyn.append_batch('own-1', 0, ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[])).version;
BEGIN;
SAVEPOINT s;
SELECT alvyn.create_snapshot('Own', 'own', 2, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT (alvyn.append('own-1', 2, 'A', '{}')).version;
ROLLBACK TO s;
SELECT (alvyn.append('own-1', 2, 'A', '{}')).version;
SELECT alvyn.create_snapshot('Own', 'own', 2, '{}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT (alvyn.append('own-1', 3, 'A', '{}')).version;
SELECT alvyn.drop_snapshot('Own');
SELECT (alvyn.append_batch('own-1', 5, ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[])).version;
ROLLBACK;
SELECT (alvyn.append('own-1', 2, 'A', '{}')).version;
-- Written by an administrator's own hand.
UPDATE alvyn.snapshots SET every = 3 WHERE name = 'Each';
SELECT (alvyn.append_batch('each-2', 0, ARRAY['A', 'A'], ARRAY['{}', '{}']::jsonb[])).version, (alvyn.append('each-2', 2, 'A', '{}')).version;
DELETE FROM alvyn.snapshots WHERE name = 'Each';
SELECT (alvyn.append_batch('each-2', 4, array_fill('A'::text, ARRAY[50]), array_fill('{}'::jsonb, ARRAY[50]))).version;
TRUNCATE alvyn.snapshots;
SELECT (alvyn.append_batch('late-1', NULL, array_fill('A'::text, ARRAY[50]), array_fill('{}'::jsonb, ARRAY[50]))).version - alvyn.stream_version('late-1') AS due;

-- Feed and verification tell the three kinds apart.
SELECT stored_events = source_events + snapshot_events AS sum, snapshot_events = (SELECT count(*) FROM alvyn.events WHERE snapshot) AS same, ok FROM alvyn.verify();
