-- Appends inside transactions, statements and procedures of every kind.
--
-- I1: versions have no hole and no repeat, whatever is rolled back.  I3: an
-- append is there after the commit or not at all.  A second append in the
-- same statement sees the first.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- Many appends in one statement: each sees those before it.
SELECT (alvyn.append('s-1', i - 1, 'A', to_jsonb(i))).version FROM generate_series(1, 5) i;
SELECT count(alvyn.append('s-1', NULL, 'A', to_jsonb(i))), max(i) FROM generate_series(6, 1000) i;
WITH first AS MATERIALIZED (SELECT (alvyn.append('s-2', 0, 'A', '1')).version),
     second AS MATERIALIZED (SELECT (alvyn.append('s-2', first.version, 'B', '2')).version FROM first)
SELECT (alvyn.append('s-2', second.version, 'C', '3')).version FROM second;
SELECT alvyn.contiguous(version) FROM alvyn.load('s-1');
-- In the place of values in other statements.
CREATE TABLE log (i int, version bigint, stream text DEFAULT 's-3');
INSERT INTO log SELECT i, (alvyn.append('s-3', NULL, 'A', '{}')).version FROM generate_series(1, 3) i;
UPDATE log SET version = (alvyn.append(stream, version, 'B', '{}')).version WHERE i = 3 RETURNING version;
DELETE FROM log WHERE version < (alvyn.append('s-3', NULL, 'C', '{}')).version RETURNING i;
-- From a trigger: the outbox pattern the other way round.
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM alvyn.append('log-' || new.i, NULL, tg_op, to_jsonb(new));
    RETURN new;
END
$$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON log FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO log VALUES (1, 1), (2, 1);
UPDATE log SET version = 2;
SELECT e.stream_id, e.version, e.type, e.data FROM alvyn.list_streams('log-') s, LATERAL alvyn.load(s.stream_id) e;
DROP TABLE log;
DROP FUNCTION note;

-- PL/pgSQL: exceptions undo what their block has appended, loops see it.
DO $$
DECLARE
    v_version bigint := 0;
BEGIN
    FOR i IN 1 .. 10 LOOP
        BEGIN
            SELECT version INTO STRICT v_version FROM alvyn.append('do-1', v_version, 'Step', to_jsonb(i));
            IF i % 3 = 0 THEN
                RAISE EXCEPTION USING ERRCODE = 'ZZZZZ';
            END IF;
        EXCEPTION WHEN SQLSTATE 'ZZZZZ' THEN
            v_version := alvyn.stream_version('do-1');
        END;
    END LOOP;
END
$$;
SELECT version, data FROM alvyn.load('do-1');
-- A conflict that is caught lets the transaction go on.
DO $$
BEGIN
    PERFORM alvyn.append('do-1', 0, 'Late', '{}');
EXCEPTION WHEN serialization_failure THEN
    PERFORM alvyn.append('do-1', alvyn.stream_version('do-1'), 'Retried', '{}');
END
$$;
SELECT version, type FROM alvyn.load('do-1', 7);
-- A procedure that commits between appends.
CREATE PROCEDURE fill(n int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM alvyn.append('proc-1', i - 1, 'A', to_jsonb(i));
        IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; PERFORM alvyn.append('proc-1', i - 1, 'B', to_jsonb(i)); END IF;
    END LOOP;
END
$$;
CALL fill(4);
SELECT version, type, data FROM alvyn.load('proc-1');
DROP PROCEDURE fill;

-- Savepoints: a stream whose creation is rolled back is new again, a head
-- that is rolled back is the head before.
BEGIN;
SAVEPOINT a;
SELECT (alvyn.append('sp-1', 0, 'A', '1')).version;
SAVEPOINT b;
SELECT (alvyn.append('sp-1', 1, 'B', '2')).version;
ROLLBACK TO b;
SELECT (alvyn.append('sp-1', 1, 'C', '3')).version;
ROLLBACK TO a;
SELECT alvyn.stream_version('sp-1'), (alvyn.append('sp-1', 0, 'D', '4')).version;
RELEASE a;
SAVEPOINT c;
SELECT alvyn.append('sp-1', 0, 'E', '5');
ROLLBACK TO c;
SELECT (alvyn.append_batch('sp-1', 1, ARRAY['F', 'G'], ARRAY['6', '7']::jsonb[])).version;
COMMIT;
SELECT version, type FROM alvyn.load('sp-1');
BEGIN;
SELECT (alvyn.append('sp-2', 0, 'A', '1')).version, (alvyn.append('sp-1', 3, 'A', '1')).version;
ROLLBACK;
SELECT alvyn.stream_version('sp-1'), alvyn.stream_version('sp-2');
SELECT count(*) AS registered FROM alvyn.streams WHERE stream_id = 'sp-2';

-- Each isolation level, with nobody else about: the transaction's own
-- appends are no conflict.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 AS snapshot_taken FROM alvyn.events;
SELECT (alvyn.append('iso-1', 0, 'A', '1')).version;
SELECT (alvyn.append('iso-1', 1, 'A', '1')).version, (alvyn.append('iso-1', NULL, 'A', '1')).version;
SELECT count(*) FROM alvyn.load('iso-1');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT (alvyn.append('iso-1', 3, 'A', '1')).version;
SELECT (alvyn.append_batch('iso-1', -2, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])).version;
SELECT stream_id, version FROM alvyn.append_streams(ARRAY['iso-2', 'iso-1'], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[]);
SELECT ok FROM alvyn.verify('iso-');
COMMIT;
SELECT alvyn.stream_version('iso-1'), alvyn.stream_version('iso-2');

-- Prepared statements, with one plan for all executions; cursors, also held.
SET plan_cache_mode = force_generic_plan;
PREPARE put(text, bigint, jsonb) AS SELECT version FROM alvyn.append($1, $2, 'A', $3);
EXECUTE put('prep-1', 0, '1');
EXECUTE put('prep-1', 1, '2');
DEALLOCATE put;
RESET plan_cache_mode;
BEGIN;
DECLARE c CURSOR FOR SELECT i, (alvyn.append('cur-1', NULL, 'A', to_jsonb(i))).version FROM generate_series(1, 10) i;
FETCH 3 FROM c;
SELECT alvyn.stream_version('cur-1');
FETCH 2 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT version FROM alvyn.load('cur-1');
COMMIT;
SELECT alvyn.stream_version('cur-1');
FETCH ALL FROM h;
CLOSE h;
-- COPY of a query.
COPY (SELECT version, data FROM alvyn.load('cur-1')) TO STDOUT;
-- I12: after all this every stream is whole.
SELECT streams, stored_events, broken_streams, ok FROM alvyn.verify();
-- The tables are opened anew when the extension is.
BEGIN;
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT alvyn.append('new-1', 0, 'A', '{}');
ROLLBACK;
SELECT (alvyn.append('s-2', 3, 'D', '4')).version;
