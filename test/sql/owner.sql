-- What an owner adds to alvyn.events is honoured, in every form of append.
--
-- Appends bypass the planner and the executor; triggers, constraints, added
-- columns and indexes must work as with INSERT.  I1, I3: nothing that an
-- owner adds can make a hole in a stream or a result that is not true.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
CREATE FUNCTION outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_result text;
    v_state text;
    v_constraint text;
BEGIN
    EXECUTE 'SELECT string_agg(r.version::text, '' '') FROM ' || call || ' r' INTO v_result;
    RETURN v_result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_constraint = CONSTRAINT_NAME;
    RETURN trim(v_state || ' ' || v_constraint);
END
$$;
-- Each form, on an old stream and on a new one.
CREATE FUNCTION outcomes(n text, data text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(outcome(format(f, n, data)), ', ' ORDER BY i)
    FROM unnest(ARRAY['alvyn.append(''old-1'', NULL, ''A'', %2$L)', 'alvyn.append(%1$L, 0, ''A'', %2$L)',
                      'alvyn.append_batch(''old-1'', NULL, ARRAY[''A'', ''B''], ARRAY[%2$L, %2$L]::jsonb[])',
                      'alvyn.append_streams(ARRAY[''old-1'', %1$L || ''x''], ARRAY[''A'', ''B''], ARRAY[%2$L, %2$L]::jsonb[])'])
         WITH ORDINALITY v (f, i)
$$;
SELECT outcomes('new-1', '{"n": 1}');

-- CHECK constraint: refused as itself, the session lives on.
ALTER TABLE alvyn.events ADD CONSTRAINT n_is_small CHECK ((data->>'n')::int < 100);
SELECT outcomes('new-2', '{"n": 2}');
SELECT outcomes('new-3', '{"n": 100}');
SELECT outcome('alvyn.append_batch(''old-1'', NULL, ARRAY[''A'', ''B''], ARRAY[''{"n": 1}'', ''{"n": 100}'']::jsonb[])');
\set VERBOSITY terse
SELECT alvyn.append('old-1', NULL, 'A', '{"n": 100}');
\set VERBOSITY default
ALTER TABLE alvyn.events DROP CONSTRAINT n_is_small;

-- Indexes: partial, on an expression, unique.  A violation is no conflict.
CREATE INDEX events_n_idx ON alvyn.events ((data->>'n')) WHERE type = 'A';
CREATE UNIQUE INDEX events_once_key ON alvyn.events ((data->>'once'));
CREATE INDEX events_data_idx ON alvyn.events USING gin (data);
SELECT outcomes('new-4', '{"n": 4}');
SELECT outcome('alvyn.append(''once-1'', NULL, ''A'', ''{"once": 1}'')'), outcome('alvyn.append(''once-1'', NULL, ''A'', ''{"once": 1}'')'),
       outcome('alvyn.try_append(''once-1'', 1, ''A'', ''{"once": 1}'')'),
       outcome('alvyn.append_batch(''once-1'', NULL, ARRAY[''A'', ''B''], ARRAY[''{"once": 2}'', ''{"once": 2}'']::jsonb[])');
SET enable_seqscan = off;
SELECT count(*) FROM alvyn.events WHERE type = 'A' AND data->>'n' = '4';
SELECT count(*) FROM alvyn.events WHERE data @> '{"n": 4}';
RESET enable_seqscan;
DROP INDEX alvyn.events_n_idx, alvyn.events_once_key, alvyn.events_data_idx;
-- An exclusion constraint, and a unique one that is checked at the end.
ALTER TABLE alvyn.events ADD CONSTRAINT events_id_excl EXCLUDE USING btree (id WITH =);
SELECT outcome('alvyn.append_batch(''excl-1'', NULL, ARRAY[''A''], ARRAY[''1'']::jsonb[], ids => ARRAY[''i''])'),
       outcome('alvyn.append(''excl-1'', NULL, ''A'', ''1'', NULL, ''i'')');
ALTER TABLE alvyn.events DROP CONSTRAINT events_id_excl;
ALTER TABLE alvyn.events ADD CONSTRAINT events_id_key UNIQUE (id) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
SELECT outcome('alvyn.append(''excl-1'', NULL, ''A'', ''1'', NULL, ''i'')'),
       outcome('alvyn.append_batch(''excl-1'', NULL, ARRAY[''A'', ''B''], ARRAY[''1'', ''2'']::jsonb[], ids => ARRAY[''j'', ''i''])');
COMMIT;
SELECT alvyn.stream_version('excl-1');
ALTER TABLE alvyn.events DROP CONSTRAINT events_id_key;

-- Columns: generated, with a default, without one, not null, dropped.
ALTER TABLE alvyn.events ADD COLUMN n int GENERATED ALWAYS AS ((data->>'n')::int) STORED,
    ADD COLUMN tenant text NOT NULL DEFAULT 'none', ADD COLUMN note text, ADD COLUMN gone int DEFAULT 1;
ALTER TABLE alvyn.events ALTER COLUMN tenant SET DEFAULT current_setting('test.tenant', true);
ALTER TABLE alvyn.events DROP COLUMN gone;
SET test.tenant = 'acme';
SELECT outcomes('new-5', '{"n": 5}');
RESET test.tenant;
SELECT s.stream_id, e.n, e.tenant, e.note FROM alvyn.events e JOIN alvyn.streams s USING (stream_no) WHERE e.data = '{"n": 5}' ORDER BY position;
-- Without a default it must be refused, as must null in a column that used to
-- take it.
ALTER TABLE alvyn.events ALTER COLUMN tenant DROP DEFAULT;
SELECT outcomes('new-6', '{"n": 6}');
ALTER TABLE alvyn.events DROP COLUMN n, DROP COLUMN tenant, DROP COLUMN note;
SELECT outcomes('new-7', '{"n": 7}');
UPDATE alvyn.events SET metadata = '{}' WHERE metadata IS NULL;
ALTER TABLE alvyn.events ALTER COLUMN metadata SET NOT NULL;
SELECT outcomes('new-7', '{"n": 7}');
SELECT outcome('alvyn.append(''meta-1'', 0, ''A'', ''{}'', ''{}'')');
ALTER TABLE alvyn.events ALTER COLUMN metadata DROP NOT NULL;

-- Foreign keys, from and to the log.
CREATE TABLE kinds (type text COLLATE "C" PRIMARY KEY);
INSERT INTO kinds VALUES ('A');
ALTER TABLE alvyn.events ADD CONSTRAINT events_type_fkey FOREIGN KEY (type) REFERENCES kinds NOT VALID;
SELECT outcomes('new-8', '{"n": 8}');
ALTER TABLE alvyn.events DROP CONSTRAINT events_type_fkey;
DROP TABLE kinds;
CREATE TABLE notes (position bigint REFERENCES alvyn.events);
INSERT INTO notes SELECT r.last_position FROM alvyn.append('old-1', NULL, 'Noted', '{}') r;
DROP TABLE notes;

-- Triggers: before and after, of rows and of statements; one that changes
-- the row, one that fails, one that keeps the row out.
CREATE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% % % %', tg_name, tg_when, tg_level, CASE tg_level WHEN 'ROW' THEN new.type || ' ' || new.data END;
    IF tg_when = 'BEFORE' AND tg_level = 'ROW' THEN
        IF new.type = 'Refused' THEN
            RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = 'refused';
        ELSIF new.type = 'Skipped' THEN
            RETURN NULL;
        END IF;
        new.metadata := '{"by": "trigger"}';
    END IF;
    RETURN new;
END
$$;
CREATE TRIGGER b1 BEFORE INSERT ON alvyn.events FOR EACH ROW EXECUTE FUNCTION trace();
CREATE TRIGGER b2 BEFORE INSERT ON alvyn.events EXECUTE FUNCTION trace();
CREATE TRIGGER a1 AFTER INSERT ON alvyn.events FOR EACH ROW WHEN (new.type <> 'C') EXECUTE FUNCTION trace();
CREATE TRIGGER a2 AFTER INSERT ON alvyn.events EXECUTE FUNCTION trace();
SELECT version FROM alvyn.append('trig-1', 0, 'A', '1');
SELECT version FROM alvyn.append_batch('trig-1', 1, ARRAY['B', 'C'], ARRAY['2', '3']::jsonb[]);
SELECT outcome('alvyn.append(''trig-1'', NULL, ''Refused'', ''4'')');
SELECT outcome('alvyn.append(''trig-1'', NULL, ''Skipped'', ''4'')');
SELECT outcome('alvyn.append_batch(''trig-1'', NULL, ARRAY[''A'', ''Skipped'', ''B''], ARRAY[''1'', ''2'', ''3'']::jsonb[])');
SELECT version, type, metadata FROM alvyn.load('trig-1');
DROP TRIGGER b1 ON alvyn.events;
DROP TRIGGER b2 ON alvyn.events;
DROP TRIGGER a1 ON alvyn.events;
DROP TRIGGER a2 ON alvyn.events;
-- On alvyn.streams: a row is made once a stream.
CREATE FUNCTION trace_stream() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% % %', tg_when, tg_level, CASE tg_level WHEN 'ROW' THEN new.stream_id END;
    RETURN new;
END
$$;
CREATE TRIGGER b BEFORE INSERT ON alvyn.streams FOR EACH ROW EXECUTE FUNCTION trace_stream();
CREATE TRIGGER a AFTER INSERT ON alvyn.streams FOR EACH ROW EXECUTE FUNCTION trace_stream();
ALTER TABLE alvyn.streams ADD CONSTRAINT short CHECK (length(stream_id) < 10);
SELECT outcomes('new-9', '{}');
SELECT outcome('alvyn.append(''a-long-name-1'', 0, ''A'', ''{}'')');
DROP TRIGGER a ON alvyn.streams;
DROP TRIGGER b ON alvyn.streams;
ALTER TABLE alvyn.streams DROP CONSTRAINT short;

-- A transition table sees the rows of the call.
CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% rows', (SELECT count(*) FROM added);
    RETURN NULL;
END
$$;
CREATE TRIGGER t AFTER INSERT ON alvyn.events REFERENCING NEW TABLE AS added EXECUTE FUNCTION count_rows();
SELECT outcome('alvyn.append_batch(''trig-2'', 0, ARRAY[''A'', ''B''], ARRAY[''1'', ''2'']::jsonb[])');
DROP TRIGGER t ON alvyn.events;

-- I12
SELECT broken_streams, ok FROM alvyn.verify();
DROP FUNCTION outcome, outcomes, trace, trace_stream, count_rows;
