-- A snapshot is due by the count of handled events, never too early and never
-- too late, although an append does not count them.
--
-- Random sequences of handled and unhandled events, in batches of random
-- size, are held against a count of every event.  Then marks are falsified.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;

-- What must be there: after each append the handled events since the last
-- snapshot are counted; the snapshots stand where they reach "every".
CREATE FUNCTION try_sequence(no int, every int, handled_share float, max_batch int, appends int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_name text := 'Mark' || no;
    v_stream text := 'mark' || no || '-1';
    v_types text[];
    v_version bigint;
    v_head bigint := 0;
    v_since int := 0;
    v_expected bigint[] := '{}';
    v_updates bigint := 0;
    v_old tid;
    v_new tid;
BEGIN
    PERFORM alvyn.create_snapshot(v_name, 'mark' || no, every, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');
    FOR i IN 1 .. appends LOOP
        SELECT array_agg(CASE WHEN random() < handled_share THEN 'A' ELSE 'X' END) INTO v_types
        FROM generate_series(1, 1 + floor(random() * max_batch)::int);
        IF cardinality(v_types) = 1 THEN
            v_version := (alvyn.append(v_stream, v_head, v_types[1], '{}')).version;
        ELSE
            v_version := (alvyn.append_batch(v_stream, v_head, v_types, array_fill('{}'::jsonb, ARRAY[cardinality(v_types)]))).version;
        END IF;
        v_head := v_head + cardinality(v_types);
        v_since := v_since + cardinality(array_positions(v_types, 'A'));
        IF v_since >= every THEN
            v_head := v_head + 1;
            v_since := 0;
            v_expected := v_expected || v_head;
        END IF;
        IF v_version <> v_head OR alvyn.stream_version(v_stream) <> v_head THEN
            RETURN format('append %s: head is %s, should be %s', i, v_version, v_head);
        END IF;
        SELECT ctid INTO v_new FROM alvyn.streams WHERE stream_id = v_stream;
        v_updates := v_updates + (v_new IS DISTINCT FROM v_old)::int;
        v_old := v_new;
    END LOOP;
    IF v_expected IS DISTINCT FROM ARRAY(SELECT version FROM alvyn.load(v_stream) WHERE snapshot ORDER BY version) THEN
        RETURN 'snapshots stand elsewhere';
    END IF;
    IF EXISTS (SELECT FROM alvyn.load(v_stream) e WHERE snapshot
                AND data ->> 'n' <> (SELECT count(*)::text FROM alvyn.load(v_stream) p WHERE p.version < e.version AND p.type = 'A')) THEN
        RETURN 'a snapshot has another state';
    END IF;
    -- Where every event counts the row of the stream is written with every
    -- snapshot, and not in between.
    IF handled_share = 1 AND v_updates > 1 + cardinality(v_expected) THEN
        RETURN format('%s updates for %s snapshots', v_updates, cardinality(v_expected));
    END IF;
    RETURN 'right';
END
$$;
SELECT setseed(0.25);
WITH t AS MATERIALIZED (
    SELECT no, try_sequence(no, (ARRAY[1, 2, 3, 7, 50])[1 + no % 5], (ARRAY[1.0, 0.9, 0.5, 0.1])[1 + no % 4],
                            (ARRAY[1, 2, 5, 20, 120])[1 + no % 7 % 5], 60) AS outcome
    FROM generate_series(1, 60) no)
SELECT outcome, count(*) FROM t GROUP BY outcome ORDER BY outcome;
SELECT snapshot_events > 300 AS many, ok FROM alvyn.verify(NULL, true);

-- Two snapshots on one stream, counted by hand: neither counts the other's.
CREATE FUNCTION try_two(no int, every1 int, every2 int, appends int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_stream text := 'two' || no || '-1';
    v_types text[];
    v_version bigint;
    v_head bigint := 0;
    v_since1 int := 0;
    v_since2 int := 0;
BEGIN
    PERFORM alvyn.create_snapshot('TwoA' || no, 'two' || no, every1, '{}', rules => '{"A": {}}');
    PERFORM alvyn.create_snapshot('TwoB' || no, 'two' || no, every2, '{}', rules => '{"A": {}, "B": {}}');
    FOR i IN 1 .. appends LOOP
        SELECT array_agg((ARRAY['A', 'B', 'X'])[1 + floor(random() * 3)::int]) INTO v_types FROM generate_series(1, 1 + floor(random() * 4)::int);
        v_version := (alvyn.append_batch(v_stream, v_head, v_types, array_fill('{}'::jsonb, ARRAY[cardinality(v_types)]))).version;
        v_head := v_head + cardinality(v_types);
        v_since1 := v_since1 + cardinality(array_positions(v_types, 'A'));
        v_since2 := v_since2 + cardinality(array_positions(v_types, 'A')) + cardinality(array_positions(v_types, 'B'));
        IF v_since1 >= every1 THEN
            v_since1 := 0;
            v_head := v_head + 1;
        END IF;
        IF v_since2 >= every2 THEN
            v_since2 := 0;
            v_head := v_head + 1;
        END IF;
        IF v_version <> v_head THEN
            RETURN format('append %s: head is %s, should be %s', i, v_version, v_head);
        END IF;
    END LOOP;
    RETURN 'right';
END
$$;
WITH t AS MATERIALIZED (SELECT try_two(no, 1 + no, 12 - no, 100) AS outcome FROM generate_series(1, 10) no)
SELECT outcome, count(*) FROM t GROUP BY outcome ORDER BY outcome;

-- The mark says up to where events were counted; none is written before the
-- first could be due.
SELECT alvyn.create_snapshot('Blind', 'blind', 10, '{}', rules => '{"A": {}}');
SELECT (alvyn.append_batch('blind-1', 0, array_fill('A'::text, ARRAY[9]), array_fill('{}'::jsonb, ARRAY[9]))).version;
SELECT snapshots FROM alvyn.streams WHERE stream_id = 'blind-1';
SELECT (alvyn.append('blind-1', 9, 'A', '{}')).version;
SELECT (alvyn.append('blind-1', i, 'A', '{}')).version FROM generate_series(11, 14) i;
SELECT snapshots[2:] AS mark FROM alvyn.streams WHERE stream_id = 'blind-1';

-- Marks that lie.  Whatever they say, the state is right, and the next
-- threshold puts them right.
CREATE FUNCTION lie(VARIADIC mark bigint[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_no bigint := (SELECT snapshot_no FROM alvyn.snapshots WHERE name = 'Blind');
    v_state alvyn.stream_state;
    v_before alvyn.stream_state := alvyn.state('blind-1', 'Blind');
    v_text text;
BEGIN
    UPDATE alvyn.streams SET snapshots = v_no || mark WHERE stream_id = 'blind-1';
    v_state := alvyn.state('blind-1', 'Blind');
    v_text := format('%s, from snapshot %s, loads from %s, usable %s', CASE WHEN v_state.state = v_before.state AND v_state.version = v_before.version THEN 'right' ELSE 'wrong' END,
                     v_state.snapshot_version, (SELECT min(version) FROM alvyn.load_latest('blind-1', 'Blind')),
                     (SELECT usable FROM alvyn.snapshot_marks WHERE stream_id = 'blind-1'));
    RAISE EXCEPTION USING ERRCODE = 'AL000', MESSAGE = v_text;
EXCEPTION WHEN SQLSTATE 'AL000' THEN
    RETURN SQLERRM;
END
$$;
SELECT alvyn.alter_snapshot('Blind', rules => '{"A": {"n": {"increment": 1}}}', schema_version => 1);
SELECT (alvyn.append_batch('blind-1', 15, array_fill('A'::text, ARRAY[20]), array_fill('{}'::jsonb, ARRAY[20]))).version;
UPDATE alvyn.events e SET data = (SELECT jsonb_build_object('n', count(*)) FROM alvyn.load('blind-1') l WHERE l.version < e.version AND NOT l.snapshot) WHERE type = 'BlindSnapshot';
SELECT ok FROM alvyn.verify('blind-', true);
SELECT version FROM alvyn.load('blind-1') WHERE snapshot;
SELECT lie(1, 36, 36, 0);
-- An older one; one that is no snapshot; one beyond the head; none; one of
-- another fold; nonsense.
SELECT lie(1, 11, 15, 4);
SELECT lie(1, 20, 25, 0);
SELECT lie(1, 5, 25, 0);
SELECT lie(1, 1000, 1000, 0);
SELECT lie(1, 0, 0, 0);
SELECT lie(2, 36, 36, 0);
SELECT lie(1, -5, -5, -5);
SELECT lie(1, 36, 1000000, 0);
SELECT lie(1, 36, 36, -1000000);
-- Of a snapshot that does not exist.
UPDATE alvyn.streams SET snapshots = ARRAY[99, 1, 36, 36, 0] WHERE stream_id = 'blind-1';
SELECT replayed_events, snapshot_version FROM alvyn.state('blind-1', 'Blind');
-- Beyond the head: a new one at the next threshold, counted from the start.
UPDATE alvyn.streams SET snapshots = ARRAY[99, 1, 36, 36, 0, (SELECT snapshot_no FROM alvyn.snapshots WHERE name = 'Blind'), 1, 1000, 1000, 0] WHERE stream_id = 'blind-1';
SELECT streams, ignored FROM alvyn.snapshot_status WHERE name = 'Blind';
SELECT (alvyn.append('blind-1', 36, 'A', '{}')).version;
SELECT snapshots[7:] AS mark, cardinality(snapshots) FROM alvyn.streams WHERE stream_id = 'blind-1';
UPDATE alvyn.streams SET snapshots[9] = 1000000 WHERE stream_id = 'blind-1';
SELECT (alvyn.append_batch('blind-1', 38, array_fill('A'::text, ARRAY[10]), array_fill('{}'::jsonb, ARRAY[10]))).version;
SELECT streams, ignored FROM alvyn.snapshot_status WHERE name = 'Blind';
SELECT * FROM alvyn.state('blind-1', 'Blind');
SELECT ok FROM alvyn.verify('blind-', true);
-- Not a list of marks at all.
UPDATE alvyn.streams SET snapshots = ARRAY[1, 2, 3] WHERE stream_id = 'blind-1';
SELECT alvyn.state('blind-1', 'Blind');
SELECT alvyn.append('blind-1', NULL, 'A', '{}');
UPDATE alvyn.streams SET snapshots = NULL WHERE stream_id = 'blind-1';
SELECT (alvyn.append('blind-1', NULL, 'A', '{}')).version;

-- A table of streams with something of its owner's on it: marks are written
-- by way of its triggers, and other columns keep what they have.
ALTER TABLE alvyn.streams ADD COLUMN note text DEFAULT 'kept';
CREATE TEMP TABLE seen (op text, snapshots int);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen VALUES (TG_OP || ' ' || TG_WHEN, cardinality(NEW.snapshots));
    RETURN NEW;
END
$$;
CREATE TRIGGER see BEFORE INSERT OR UPDATE ON alvyn.streams FOR EACH ROW EXECUTE FUNCTION see();
CREATE TRIGGER see_after AFTER INSERT OR UPDATE ON alvyn.streams FOR EACH ROW EXECUTE FUNCTION see();
SELECT (alvyn.append_batch('blind-2', 0, array_fill('A'::text, ARRAY[10]), array_fill('{}'::jsonb, ARRAY[10]))).version;
SELECT * FROM seen;
SELECT note, cardinality(snapshots) FROM alvyn.streams WHERE stream_id = 'blind-2';
SELECT (alvyn.append_batch('blind-2', 11, array_fill('A'::text, ARRAY[10]), array_fill('{}'::jsonb, ARRAY[10]))).version;
SELECT note, cardinality(snapshots) FROM alvyn.streams WHERE stream_id = 'blind-2';
DROP TRIGGER see ON alvyn.streams;
DROP TRIGGER see_after ON alvyn.streams;
DROP FUNCTION see, lie, try_two, try_sequence;
