-- Reading the feed in one session: order, pages, filters, holes, what an
-- owner does to the rows, and what is not read.
--
-- I4: every committed event exactly once, in the order of the positions, and
-- the events of a stream in the order of their versions.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

-- An empty feed.
SELECT alvyn.last_position(), alvyn.resolved_position(), (SELECT count(*) FROM alvyn.read()), alvyn.skip(0);

SELECT count(*) FROM alvyn.append_streams(
    ARRAY['order-1', 'order-2', 'orderly-1', 'order', 'pay-1', 'order-1', 'pay-order-1'],
    ARRAY['Placed', 'Placed', 'Placed', 'Placed', 'Paid', 'Paid', 'Paid'],
    ARRAY['1', '2', '3', '4', '5', '6', '7']::jsonb[]);
SELECT position, stream_id, version, id, type, data, metadata, schema_version, snapshot FROM alvyn.read();

-- Pages.
SELECT position FROM alvyn.read(0, 3);
SELECT position FROM alvyn.read(3, 3);
SELECT position FROM alvyn.read(6, 3);
SELECT count(*) FROM alvyn.read(7);
SELECT count(*) FROM alvyn.read(0, 0);
SELECT count(*) FROM alvyn.read(0, NULL);
-- Behind everything there is nothing, up to the last number there is.
SELECT count(*) FROM alvyn.read(1000);
SELECT count(*) FROM alvyn.read(9223372036854775807);

-- Filters, alone and together.  A category is what stands before the first
-- "-"; a prefix is any beginning.
SELECT stream_id, version FROM alvyn.read(category => 'order');
SELECT stream_id, version FROM alvyn.read(category => 'pay-order');
SELECT stream_id, version FROM alvyn.read(prefix => 'order-');
SELECT stream_id, version FROM alvyn.read(prefix => '');
SELECT stream_id, version FROM alvyn.read(types => ARRAY['Paid', 'Refunded']);
SELECT stream_id, version FROM alvyn.read(types => '{}', prefix => 'pay-1');
SELECT stream_id, version FROM alvyn.read(2, 1, category => 'order', prefix => 'order-1', types => ARRAY['Paid']);
SELECT count(*) FROM alvyn.read(category => 'Order');
SELECT count(*) FROM alvyn.read(types => ARRAY['paid']);
-- How far a filter wants nothing.
SELECT alvyn.skip(0, 'pay'), alvyn.skip(5, 'pay'), alvyn.skip(0, 'nothing'), alvyn.skip(0, types => ARRAY['Paid']), alvyn.skip(100);

-- Generated snapshots are events that must be asked for.
SELECT alvyn.create_snapshot('Total', 'sum', 2, '{}', rules => '{"A": {"n": {"add": "n"}}}');
SELECT count(alvyn.append('sum-1', NULL, 'A', '{"n": 1}')) FROM generate_series(1, 4);
SELECT version, type, data FROM alvyn.read(7);
SELECT version, type, data, snapshot FROM alvyn.read(7, snapshots => true);

-- The transaction's own events are read too; those rolled back are not.
BEGIN;
SELECT (alvyn.append('own-1', 0, 'A', '1')).version;
SAVEPOINT s;
SELECT (alvyn.append('own-1', 1, 'A', '2')).version;
ROLLBACK TO s;
SELECT (alvyn.append('own-1', 1, 'A', '3')).version;
SELECT version, data FROM alvyn.read(category => 'own');
ROLLBACK;
SELECT count(*) FROM alvyn.read(category => 'own');

-- A thousand rollbacks among a thousand commits, half of them by savepoint.
DO $$
BEGIN
    FOR i IN 1 .. 1000 LOOP
        BEGIN
            PERFORM alvyn.append('hole-1', NULL, 'Lost', to_jsonb(i));
            RAISE EXCEPTION USING ERRCODE = 'ZZZZZ';
        EXCEPTION WHEN SQLSTATE 'ZZZZZ' THEN
            NULL;
        END;
        IF i % 2 = 0 THEN
            PERFORM alvyn.append('hole-1', NULL, 'Lost', to_jsonb(i));
            ROLLBACK;
        END IF;
        PERFORM alvyn.append('hole-' || i % 3, NULL, 'Kept', to_jsonb(i));
        COMMIT;
    END LOOP;
END
$$;
-- Page by page, with the number of each event in its data.
CREATE FUNCTION pages(category text, size int) RETURNS TABLE (events bigint, distinct_events bigint, in_order boolean, whole_streams boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_after bigint := 0;
    v_last bigint;
BEGIN
    CREATE TEMP TABLE seen (n int GENERATED ALWAYS AS IDENTITY, position bigint, stream_id text, version bigint);
    LOOP
        INSERT INTO seen (position, stream_id, version)
        SELECT r.position, r.stream_id, r.version FROM alvyn.read(v_after, size, pages.category) r;
        SELECT max(s.position) INTO v_last FROM seen s;
        EXIT WHEN v_last IS NOT DISTINCT FROM v_after OR v_last IS NULL;
        v_after := v_last;
    END LOOP;
    RETURN QUERY
    SELECT count(*), count(DISTINCT s.position),
           bool_and(s.position > s.before), bool_and(s.version = s.row_number)
    FROM (SELECT *, lag(x.position, 1, 0::bigint) OVER (ORDER BY x.n) AS before,
                 row_number() OVER (PARTITION BY x.stream_id ORDER BY x.n) FROM seen x) s;
    DROP TABLE seen;
END
$$;
SELECT * FROM pages('hole', 7);
SELECT * FROM pages('hole', 1000);

-- A jump of thirty million is one hole.
SELECT setval('alvyn.events_position_seq', alvyn.last_position() + 30000000) > 30000000 AS jumped;
SELECT (alvyn.append('jump-1', 0, 'A', '{}')).version;
SELECT stream_id, version FROM alvyn.read(alvyn.last_position() - 30000000);
SELECT alvyn.resolved_position() = alvyn.last_position() AS all_final;

-- What an owner changes is read as it is, once; what he deletes is passed.
SELECT count(alvyn.append('edit-' || i % 5, NULL, 'A', to_jsonb(i))) FROM generate_series(1, 100) i;
UPDATE alvyn.events SET data = '-1' WHERE position > alvyn.last_position() - 100;
CREATE INDEX edited ON alvyn.events (metadata);
UPDATE alvyn.events SET metadata = data WHERE position > alvyn.last_position() - 50;
DELETE FROM alvyn.events WHERE position > alvyn.last_position() - 10;
SELECT count(*), count(DISTINCT position), count(metadata), min(data::int), max(data::int) FROM alvyn.read(category => 'edit');
BEGIN;
DELETE FROM alvyn.events WHERE position > alvyn.last_position() - 100;
SELECT count(*) FROM alvyn.read(category => 'edit');
ROLLBACK;
VACUUM alvyn.events;
SELECT count(*), count(DISTINCT position) FROM alvyn.read(category => 'edit');
SELECT alvyn.resolved_position() = alvyn.last_position() AS all_final;
DROP INDEX alvyn.edited;

-- Set back, the sequence gives positions again, and the session notices.
TRUNCATE alvyn.events, alvyn.streams;
ALTER SEQUENCE alvyn.events_position_seq RESTART;
SELECT alvyn.last_position(), alvyn.resolved_position(), count(*) FROM alvyn.read();
SELECT count(alvyn.append('again-' || i, 0, 'A', to_jsonb(i))) FROM generate_series(1, 3) i;
SELECT position, stream_id FROM alvyn.read();
-- So does it with another extension of the same name.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT alvyn.last_position(), alvyn.resolved_position(), count(*) FROM alvyn.read();
SELECT count(alvyn.append('new-' || i, 0, 'A', to_jsonb(i))) FROM generate_series(1, 2) i;
SELECT position, stream_id FROM alvyn.read();

-- Waiting ends at once when there is something, and at the end of the time.
SELECT alvyn.wait(0, '1 hour'), alvyn.wait(1, '1 hour'), alvyn.wait(2, '0'), alvyn.wait(2, '20 ms'), alvyn.wait(2, '-1 day');
SELECT alvyn.wait_position(0, '20 ms', category => 'other'), alvyn.wait_position(0, '1 hour', category => 'new');

-- A category of 1 event in 100 is found by the index on position: only the
-- pages that hold its rows are read.
CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO v_plan;
    RETURN (v_plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (v_plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
END
$$;
SELECT count(alvyn.append_batch(CASE WHEN i % 100 = 0 THEN 'few-1' ELSE 'many-' || i % 7 END, NULL, array_fill('A'::text, ARRAY[10]),
             array_fill(to_jsonb(repeat('x', 500)), ARRAY[10]))) FROM generate_series(1, 1000) i;
ANALYZE alvyn.events;
SELECT count(*) FROM alvyn.read(category => 'few');
SELECT relpages > 700 AS many_pages FROM pg_class WHERE oid = 'alvyn.events'::regclass;
SELECT buffers('SELECT count(*) FROM alvyn.read(0, NULL)') > 700 AS all_rows,
       buffers('SELECT count(*) FROM alvyn.read(0, NULL, category => ''few'')') < 150 AS category,
       buffers('SELECT count(*) FROM alvyn.read(0, NULL, prefix => ''few-'')') < 150 AS prefix,
       buffers('SELECT alvyn.skip(0, category => ''nothing'')') < 100 AS skip,
       buffers('SELECT count(*) FROM alvyn.read(alvyn.last_position())') < 50 AS idle;
DROP FUNCTION buffers, pages;
