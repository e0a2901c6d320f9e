-- Projections: a handler and its checkpoint commit together.
--
-- Each event reaches the handler once, in order, alone or in an array; parked
-- events keep the order of their streams; a new generation is built while the
-- old one serves, and serves once it has caught up.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
SELECT count(alvyn.append(s, NULL, t, to_jsonb(i))) FROM generate_series(1, 3) i, unnest(ARRAY['order-1', 'pay-1']) s, unnest(ARRAY['A', 'B']) t;

-- One event at a time.  What the handler writes is seen by its next call.
CREATE TABLE seen (no bigint GENERATED ALWAYS AS IDENTITY, generation bigint, position bigint, stream_id text, type text, before bigint);
CREATE FUNCTION see(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen (generation, position, stream_id, type, before)
    SELECT alvyn.current_generation(), event.position, event.stream_id, event.type, count(*) FROM seen;
END
$$;
SELECT alvyn.create_projection('see', 'see(alvyn.event)', category => 'order', types => ARRAY['A', 'B']);
SELECT alvyn.run_projection('see', 4), alvyn.current_generation();
SELECT generation, position, stream_id, type, before FROM seen ORDER BY no;
SELECT name, generation, building, position, lag_positions, enabled, state, failures, parked FROM alvyn.projection_status;
BEGIN;
SELECT alvyn.run_projection('see');
ROLLBACK;
SELECT count(*) FROM seen;
SELECT alvyn.run_projection('see');
SELECT alvyn.run_projection('see');
SELECT position, before FROM seen ORDER BY no;
SELECT position, lag_positions FROM alvyn.projection_status;

-- All at once; NULL and filters as for consumers.
CREATE TABLE batches (positions bigint[]);
CREATE FUNCTION batch(events alvyn.event[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO batches SELECT array_agg(e.position) FROM unnest(events) e;
$$;
SELECT alvyn.create_projection('batch', 'batch(alvyn.event[])', prefix => 'pay-', types => ARRAY['A'], start => '4');
SELECT alvyn.run_projection('batch', 1), alvyn.run_projection('batch', 10), alvyn.run_projection('batch', 10);
SELECT * FROM batches;

-- The handler is called under the search_path of the caller.
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.seen (LIKE seen INCLUDING IDENTITY);
SELECT alvyn.reset_consumer('see', '8');
SET search_path = elsewhere, public;
SELECT alvyn.run_projection('see');
SHOW search_path;
SELECT count(*) FROM elsewhere.seen;
RESET search_path;

-- Parking: a failing event, and the later ones of its stream.
CREATE TABLE broken (position bigint PRIMARY KEY);
CREATE TABLE done (no bigint GENERATED ALWAYS AS IDENTITY, position bigint);
CREATE FUNCTION work(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO done (position) VALUES (event.position);
    IF EXISTS (SELECT FROM broken b WHERE b.position = event.position) THEN
        RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = 'event ' || event.position || ' is broken';
    END IF;
END
$$;
CREATE FUNCTION work_all(events alvyn.event[]) RETURNS void LANGUAGE sql AS $$
    SELECT work(e) FROM unnest(events) e;
$$;
INSERT INTO broken VALUES (3), (9);
SELECT alvyn.create_projection('work', 'work(alvyn.event)', on_error => 'park');
SELECT alvyn.run_projection('work', 8), alvyn.run_projection('work', 8), alvyn.run_projection('work', 8);
SELECT position FROM done ORDER BY no;
SELECT name, generation, position, stream_id, attempts, error_sqlstate, error_message FROM alvyn.parked_events ORDER BY position;
SELECT state, position, parked FROM alvyn.projection_status WHERE name = 'work';
-- Events that come later are parked without being tried.
SELECT (alvyn.append('pay-1', NULL, 'A', '4')).first_position, (alvyn.append('new-1', NULL, 'A', '4')).first_position;
SELECT alvyn.run_projection('work');
SELECT position FROM done WHERE position > 12 ORDER BY no;
SELECT position, attempts FROM alvyn.parked_events ORDER BY position;
-- Retries go in order, up to the next that fails.
SELECT alvyn.retry_parked('work');
SELECT position, attempts FROM alvyn.parked_events ORDER BY position;
DELETE FROM broken WHERE position = 3;
SELECT alvyn.retry_parked('work', 'pay-1'), alvyn.retry_parked('work', 'order-1');
SELECT position FROM done ORDER BY no;
SELECT position, stream_id, attempts, error_message FROM alvyn.parked_events ORDER BY position;
SELECT alvyn.skip_parked('work', 9);
SELECT alvyn.retry_parked('work');
SELECT position FROM done ORDER BY no;
SELECT count(*) FROM alvyn.parked_events;
-- With a handler of arrays it is the same.
TRUNCATE done;
INSERT INTO broken VALUES (3);
SELECT alvyn.create_projection('work all', 'work_all(alvyn.event[])', on_error => 'park');
SELECT alvyn.run_projection('work all');
SELECT position FROM done ORDER BY no;
SELECT position, attempts FROM alvyn.parked_events ORDER BY position;
DELETE FROM broken;
SELECT alvyn.retry_parked('work all');
SELECT string_agg(position::text, ' ' ORDER BY no) FROM done;

-- Rebuilding, with a new handler, tables for each generation, and a view.
CREATE TABLE totals_1 (stream_id text PRIMARY KEY, n bigint);
CREATE TABLE totals_2 (stream_id text PRIMARY KEY, n bigint);
CREATE VIEW totals AS SELECT * FROM totals_1;
CREATE FUNCTION total(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO totals_%s VALUES ($1, 1) ON CONFLICT (stream_id) DO UPDATE SET n = totals_%1$s.n + 1', alvyn.current_generation())
    USING event.stream_id;
END
$$;
CREATE FUNCTION total_tenfold(event alvyn.event) RETURNS void LANGUAGE sql AS $$
    INSERT INTO totals_2 VALUES (event.stream_id, 10) ON CONFLICT (stream_id) DO UPDATE SET n = totals_2.n + 10;
$$;
CREATE FUNCTION switch(name text, old bigint, new bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE VIEW totals AS SELECT * FROM totals_%s', new);
    RAISE NOTICE 'generation % of % replaces %', new, name, old;
END
$$;
SELECT alvyn.create_projection('total', 'total(alvyn.event)', category => 'order', on_swap => 'switch(text, bigint, bigint)');
SELECT alvyn.run_projection('total');
SELECT alvyn.rebuild_projection('total', 'total_tenfold(alvyn.event)');
SELECT (alvyn.append('order-1', NULL, 'A', '5')).first_position;
-- The old one goes on, the new one follows.
SELECT alvyn.run_projection('total', 4);
SELECT * FROM totals;
SELECT generation, building, position, building_position FROM alvyn.projection_status WHERE name = 'total';
SELECT alvyn.run_projection('total', 4);
SELECT * FROM totals;
SELECT generation, building, position, building_position, lag_positions FROM alvyn.projection_status WHERE name = 'total';
SELECT (alvyn.append('order-1', NULL, 'A', '6')).first_position;
SELECT alvyn.run_projection('total');
SELECT * FROM totals;
SELECT * FROM totals_1;
-- One that is given up leaves its number behind.
SELECT alvyn.rebuild_projection('total');
SELECT alvyn.cancel_rebuild('total');
SELECT alvyn.rebuild_projection('total');
SELECT handler, generation, building FROM alvyn.projections WHERE name = 'total';
SELECT alvyn.cancel_rebuild('total');

-- A generation that has stopped is replaced by one that does not stop.
CREATE FUNCTION fail(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = 'always';
END
$$;
SELECT alvyn.create_projection('stuck', 'fail(alvyn.event)', category => 'pay');
SELECT alvyn.rebuild_projection('stuck', 'work(alvyn.event)');
SELECT alvyn.run_projection('stuck', 5);
SELECT generation, building, position, state, failures, error_sqlstate, error_message FROM alvyn.projection_status WHERE name = 'stuck';
SELECT alvyn.run_projection('stuck', 5);
SELECT generation, building, position, state, failures, error_sqlstate FROM alvyn.projection_status WHERE name = 'stuck';

-- Parked events belong to a generation.
INSERT INTO broken VALUES (2), (13);
SELECT alvyn.rebuild_projection('work');
SELECT (alvyn.append('pay-1', NULL, 'A', '7')).first_position;
SELECT alvyn.run_projection('work', 4);
SELECT generation, position, attempts FROM alvyn.parked_events ORDER BY generation, position;
SELECT alvyn.run_projection('work', 400);
SELECT generation, position, attempts FROM alvyn.parked_events ORDER BY generation, position;

-- For the worker.
SELECT alvyn.enable_projection('work'), alvyn.note_projection('work', 'ZZZZZ', 'text', 7), alvyn.note_projection('work', 'ZZZZZ', 'text', 8);
SELECT enabled, state, failures, error_sqlstate, error_message, error_position,
       retry_at BETWEEN now() + interval '1.9 s' AND now() + interval '1 minute' AS retry_at FROM alvyn.projection_status WHERE name = 'work';
SELECT alvyn.disable_projection('work'), alvyn.run_projection('work');
SELECT enabled, state, failures, error_sqlstate, error_message, error_position, retry_at FROM alvyn.projection_status WHERE name = 'work';

SELECT alvyn.drop_projection(name) FROM alvyn.projections;
SELECT (SELECT count(*) FROM alvyn.projections), (SELECT count(*) FROM alvyn.consumers), (SELECT count(*) FROM alvyn.consumer_partitions), (SELECT count(*) FROM alvyn.parked_events);
SET client_min_messages = warning;
DROP SCHEMA elsewhere CASCADE;
DROP VIEW totals;
DROP TABLE seen, batches, broken, done, totals_1, totals_2;
DROP FUNCTION see, batch, work, work_all, total, total_tenfold, switch, fail;
