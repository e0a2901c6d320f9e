-- Verification finds what is wrong, and names it.
--
-- I12: it recomputes from the events; each sabotage below is done to a
-- sound store, is found by verify() and verify_streams(), and is undone.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
SELECT * FROM alvyn.verify();
SELECT alvyn.store_digest();

-- Four streams of 5 events, interleaved, and one without trouble between.
SELECT count(*) FROM alvyn.append_streams(
    ARRAY(SELECT (ARRAY['a-1', 'a-2', 'b-1', 'b-2'])[i % 4 + 1] FROM generate_series(0, 19) i),
    ARRAY(SELECT 'T' FROM generate_series(0, 19)), ARRAY(SELECT to_jsonb(i) FROM generate_series(0, 19) i));
SELECT * FROM alvyn.verify();
SELECT * FROM alvyn.verify('a-');
SELECT * FROM alvyn.verify('c-');
SELECT * FROM alvyn.verify_streams();

-- What the functions say after some statements, which are then undone.
-- Without a unique index: the statements may break what it keeps.
CREATE FUNCTION sabotage(statements text, prefix text DEFAULT NULL, OUT broken bigint, OUT ok boolean, OUT digest_differs boolean, OUT problems text)
LANGUAGE plpgsql AS $$
DECLARE
    v_digest text := alvyn.store_digest();
BEGIN
    ALTER TABLE alvyn.events DROP CONSTRAINT events_stream_version_key;
    CREATE INDEX events_stream_version_key ON alvyn.events (stream_no, version);
    EXECUTE statements;
    SELECT v.broken_streams, v.ok INTO broken, ok FROM alvyn.verify(prefix) v;
    SELECT string_agg(format('%s %s: %s', coalesce(p.stream_id, 'no. ' || p.stream_no), p.version, p.problem), ', ' ORDER BY p.stream_no, p.version, p.problem)
    INTO problems FROM alvyn.verify_streams(prefix) p;
    digest_differs := alvyn.store_digest() <> v_digest;
    RAISE EXCEPTION USING ERRCODE = 'ZZZZZ';
EXCEPTION WHEN SQLSTATE 'ZZZZZ' THEN
END
$$;
CREATE FUNCTION no(id text) RETURNS bigint STABLE LANGUAGE sql
BEGIN ATOMIC
    SELECT stream_no FROM alvyn.streams WHERE stream_id = no.id;
END;
\pset format unaligned
\pset tuples_only on
\pset fieldsep ' | '
CREATE TABLE faults (i int GENERATED ALWAYS AS IDENTITY, fault text, statements text);
INSERT INTO faults (fault, statements) VALUES
('nothing', 'SELECT'),
('deleted event', 'DELETE FROM alvyn.events WHERE stream_no = no(''a-2'') AND version = 3'),
('deleted first event', 'DELETE FROM alvyn.events WHERE stream_no = no(''a-2'') AND version = 1'),
('two holes in one stream', 'DELETE FROM alvyn.events WHERE stream_no = no(''b-1'') AND version IN (2, 4)'),
('deleted events of every stream', 'DELETE FROM alvyn.events WHERE version = 4'),
('deleted stream of events', 'DELETE FROM alvyn.events WHERE stream_no = no(''a-1'')'),
('deleted last stream of events', 'DELETE FROM alvyn.events WHERE stream_no = no(''b-2'')'),
('deleted all events', 'DELETE FROM alvyn.events'),
('doubled event', 'INSERT INTO alvyn.events (stream_no, version, slot, type, data) SELECT stream_no, version, slot, type, data FROM alvyn.events WHERE stream_no = no(''b-2'') AND version = 5'),
('doubled event inside', 'INSERT INTO alvyn.events (stream_no, version, slot, type, data) SELECT stream_no, version, slot, type, data FROM alvyn.events WHERE stream_no = no(''b-2'') AND version = 2'),
('swapped versions', 'UPDATE alvyn.events SET version = 5 - version WHERE stream_no = no(''a-1'') AND version IN (2, 3)'),
('swapped positions', 'UPDATE alvyn.events SET position = -position WHERE position IN (6, 10); UPDATE alvyn.events SET position = 16 + position WHERE position < 0'),
('position moved to the end', 'UPDATE alvyn.events SET position = 1000 WHERE stream_no = no(''b-1'') AND version = 2'),
('position below 1', 'UPDATE alvyn.events SET position = 0 WHERE stream_no = no(''b-1'') AND version = 1'),
('version 0', 'UPDATE alvyn.events SET version = 0 WHERE stream_no = no(''b-1'') AND version = 1'),
('versions from 2', 'UPDATE alvyn.events SET version = version + 1 WHERE stream_no = no(''b-1'')'),
('event in another stream', 'UPDATE alvyn.events SET stream_no = no(''a-2'') WHERE stream_no = no(''a-1'') AND version = 5'),
('unregistered stream', 'DELETE FROM alvyn.streams WHERE stream_id = ''a-2'''),
('unregistered first and last', 'DELETE FROM alvyn.streams WHERE stream_id IN (''a-1'', ''b-2'')'),
('empty registry', 'DELETE FROM alvyn.streams'),
('events of an unknown stream', 'UPDATE alvyn.events SET stream_no = 77 WHERE stream_no = no(''b-1'')'),
('registered without events', 'INSERT INTO alvyn.streams (stream_no, stream_id, slot) SELECT v, v, alvyn.stream_slot(v::text) FROM unnest(ARRAY[-5, 0, 99]) v'),
('wrong slot of an event', 'UPDATE alvyn.events SET slot = (slot + 1) % 1024 WHERE stream_no = no(''b-1'') AND version = 3'),
('wrong slot of a stream', 'UPDATE alvyn.streams SET slot = (slot + 1) % 1024 WHERE stream_id = ''a-1'''),
('wrong slot of both', 'UPDATE alvyn.streams SET slot = 1 WHERE stream_id = ''a-1''; UPDATE alvyn.events SET slot = 1 WHERE stream_no = no(''a-1'')'),
('renamed stream', 'UPDATE alvyn.streams SET stream_id = ''b-9'' WHERE stream_id = ''b-1'''),
('floor above the events', 'UPDATE alvyn.streams SET version_floor = 2 WHERE stream_id = ''a-1'''),
('floor below the events', 'DELETE FROM alvyn.events WHERE version < 4; UPDATE alvyn.streams SET version_floor = 2'),
('removed up to the floor', 'DELETE FROM alvyn.events WHERE version < 4; UPDATE alvyn.streams SET version_floor = 3'),
('removed altogether', 'DELETE FROM alvyn.events WHERE stream_no = no(''a-2''); UPDATE alvyn.streams SET version_floor = 5 WHERE stream_id = ''a-2'''),
('two faults in two streams', 'DELETE FROM alvyn.events WHERE version = 2 AND stream_no IN (no(''a-1''), no(''b-2''))'),
('changed payload', 'UPDATE alvyn.events SET data = ''null'' WHERE stream_no = no(''a-1'') AND version = 5'),
('deleted last event', 'DELETE FROM alvyn.events WHERE stream_no = no(''a-1'') AND version = 5');
CREATE TABLE results AS SELECT i, fault, s.* FROM faults, LATERAL sabotage(statements) s;
SELECT fault, broken, ok, digest_differs, problems FROM results ORDER BY i;
-- The same after VACUUM, when rows are read in place where nothing changed.
VACUUM alvyn.events, alvyn.streams;
SELECT i, fault, s.* FROM faults, LATERAL sabotage(statements) s EXCEPT SELECT * FROM results;
-- Only streams with the prefix are looked at; events that belong to no
-- registered stream have no prefix.
SELECT fault, s.* FROM faults, LATERAL sabotage(statements, 'b-') s WHERE i IN (2, 4, 5, 7, 9, 17, 18, 23, 26) ORDER BY i;
-- The details.
BEGIN;
DELETE FROM alvyn.events WHERE stream_no = no('a-2') AND version IN (2, 3);
UPDATE alvyn.events SET slot = 1 WHERE stream_no = no('b-1') AND version = 3;
UPDATE alvyn.events SET position = 1000 WHERE stream_no = no('b-2') AND version = 1;
DELETE FROM alvyn.streams WHERE stream_id = 'a-1';
\pset expanded on
SELECT * FROM alvyn.verify_streams();
\pset expanded off
ROLLBACK;

-- Everything is undone.
SELECT * FROM alvyn.verify();

-- Generated snapshots are counted apart; nothing else changes.
UPDATE alvyn.events SET snapshot = true WHERE version = 3;
SELECT * FROM alvyn.verify();

-- A store of many small streams, cut into slices anywhere: whichever event
-- is missing, its stream is found and no other.
SELECT count(*) FROM alvyn.append_streams(ARRAY(SELECT 'many-' || i % 333 FROM generate_series(1, 999) i),
    ARRAY(SELECT 'T' FROM generate_series(1, 999)), ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 999) i));
VACUUM alvyn.events;
CREATE FUNCTION found(victim bigint, n int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_ok boolean;
BEGIN
    DELETE FROM alvyn.events WHERE stream_no = victim AND version = n;
    SELECT v.broken_streams = 1 AND NOT v.ok AND v.streams = 337
           AND ARRAY(SELECT p.stream_no FROM alvyn.verify_streams() p) = ARRAY[victim]
           AND ARRAY(SELECT p.stream_no FROM alvyn.verify_streams('many-') p) = ARRAY[victim]
    INTO v_ok FROM alvyn.verify() v;
    RAISE EXCEPTION USING ERRCODE = 'ZZZZZ';
EXCEPTION WHEN SQLSTATE 'ZZZZZ' THEN
    RETURN v_ok;
END
$$;
SELECT count(*) FILTER (WHERE found(stream_no, 1 + (stream_no % 2)::int)) AS found, count(*)
FROM alvyn.streams WHERE stream_id LIKE 'many-%';
SELECT streams, stored_events, broken_streams, ok FROM alvyn.verify();
DROP FUNCTION sabotage, found, no;
DROP TABLE faults, results;
