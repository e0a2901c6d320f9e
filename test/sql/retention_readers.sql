-- Whoever reads behind a checkpoint is told when history that it has not read
-- is removed: projections, outboxes and the usage of tenants.  Each accepts
-- what has gone when it is created, reset or rebuilt, and an event that was
-- parked and then removed is not lost quietly.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\set VERBOSITY terse
\set SHOW_CONTEXT never
CREATE FUNCTION told(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_constraint text;
    v_result text;
BEGIN
    EXECUTE call INTO v_result;
    RETURN v_result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME;
    RETURN concat_ws(' ', SQLSTATE, nullif(v_constraint, ''));
END
$$;
CREATE TABLE seen (generation bigint, position bigint);
CREATE TABLE broken (stream_id text);
CREATE FUNCTION see(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM broken b WHERE b.stream_id = event.stream_id) THEN
        RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = 'broken';
    END IF;
    INSERT INTO seen VALUES (alvyn.current_generation(), event.position);
END
$$;
SELECT count(alvyn.append('a-' || n % 2, NULL, 'A', to_jsonb(n))) FROM generate_series(1, 20) n;

-- A projection: refused until it is reset, and one that wants other streams
-- is not.
SELECT alvyn.create_projection('p', 'see(alvyn.event)'), alvyn.create_projection('other', 'see(alvyn.event)', prefix => 'a-0');
SELECT alvyn.run_projection('p', 4), alvyn.run_projection('other', 2);
SELECT alvyn.truncate_stream('a-1', 5);
SELECT alvyn.run_projection('p');
SELECT told('SELECT alvyn.run_projection(''p'')'), told('SELECT alvyn.run_projection(''other'', 2)');
SELECT alvyn.create_projection('late', 'see(alvyn.event)');
SELECT told('SELECT alvyn.run_projection(''late'')');

-- A rebuild accepts it, goes on while the old generation is stopped, and
-- hands that on; what is removed later is told again.
SELECT alvyn.rebuild_projection('p');
SELECT told('SELECT alvyn.run_projection(''p'', 3)');
SELECT error_sqlstate, error_message FROM alvyn.projection_status WHERE name = 'p';
SELECT told('SELECT alvyn.run_projection(''p'', 1)');
SELECT generation, building FROM alvyn.projection_status WHERE name = 'p';
SELECT told('SELECT alvyn.run_projection(''p'', 3)');
SELECT position FROM alvyn.projection_status WHERE name = 'p';
SELECT alvyn.truncate_stream('a-1', 10);
SELECT told('SELECT alvyn.run_projection(''p'', 3)');
SELECT position FROM alvyn.projection_status WHERE name = 'p';
SELECT alvyn.reset_consumer('p', '0');
SELECT told('SELECT alvyn.run_projection(''p'')'), told('SELECT alvyn.run_projection(''p'')');

-- The generation that was built takes the place of one that had stopped
-- before the removal, at a position that the removal lies behind.
SELECT alvyn.create_projection('q', 'see(alvyn.event)', prefix => 'q');
SELECT count(alvyn.append('q-' || n % 2, NULL, 'A', to_jsonb(n))) FROM generate_series(1, 10) n;
SELECT alvyn.truncate_stream('q-1', 6), alvyn.rebuild_projection('q');
SELECT told('SELECT alvyn.run_projection(''q'', 2)');
SELECT generation FROM alvyn.projection_status WHERE name = 'q';
SELECT told('SELECT alvyn.run_projection(''q'', 2)');
SELECT generation FROM alvyn.projection_status WHERE name = 'q';
SELECT told('SELECT alvyn.run_projection(''q'', 2)');
SELECT error_sqlstate FROM alvyn.projection_status WHERE name = 'q';

-- Parked events that were removed stay listed, with the reason, until they
-- are given up; nothing behind them is handled before.
SELECT alvyn.create_projection('parks', 'see(alvyn.event)', prefix => 'park', on_error => 'park');
SELECT count(alvyn.append('park-1', NULL, 'A', to_jsonb(n))) FROM generate_series(1, 3) n;
INSERT INTO broken VALUES ('park-1');
SELECT alvyn.run_projection('parks');
DELETE FROM broken;
SELECT alvyn.truncate_stream('park-1', 2);
SELECT alvyn.run_projection('parks'), alvyn.retry_parked('parks');
SELECT stream_id, attempts, error_sqlstate, regexp_replace(error_message, '[0-9]+', 'N') AS error_message FROM alvyn.parked_events ORDER BY position;
SELECT alvyn.skip_parked('parks', min(position)) FROM alvyn.parked_events;
SELECT alvyn.retry_parked('parks'), (SELECT count(*) FROM alvyn.parked_events);

-- An outbox: refused until it is reset, and one that wants other streams is
-- not.
SELECT count(alvyn.append('mail-' || n % 2, NULL, 'A', to_jsonb(n))) FROM generate_series(1, 10) n;
SELECT alvyn.create_outbox('mail', prefix => 'mail', partitions => 1), alvyn.create_outbox('two', prefix => 'mail-0', partitions => 1);
SELECT fence, count(*) FROM alvyn.claim('mail', 'w', 2) GROUP BY fence;
SELECT alvyn.truncate_stream('mail-1', 2);
-- What the claim has in hand: all of it can be completed, a part cannot, as
-- the rest would pass for delivered.
SELECT told(format('SELECT alvyn.complete(''mail'', 1024, ARRAY[%s])', position)) AS complete,
       told(format('SELECT alvyn.fail(''mail'', 1024, %s, ''x'')', position)) AS fail,
       told(format('SELECT alvyn.fail(''mail'', 1024, %s, ''x'')', position - 1)) AS fail_removed
FROM alvyn.read(prefix => 'mail-0', max_count => 1);
SELECT alvyn.complete('mail', 1024, ARRAY[position - 1, position]) FROM alvyn.read(prefix => 'mail-0', max_count => 1);
SELECT fence, count(*) FROM alvyn.claim('mail', 'w', 2) GROUP BY fence;
SELECT alvyn.complete('mail', 2048, array_agg(position)) FROM (SELECT position FROM alvyn.read(prefix => 'mail', max_count => 3) OFFSET 1) e;
SELECT alvyn.truncate_stream('mail-1', 5);
SELECT alvyn.claim('mail', 'w');
SELECT told('SELECT alvyn.claim(''mail'', ''w'')'), told('SELECT count(*) FROM alvyn.claim(''two'', ''w'')');
SELECT in_flight FROM alvyn.outboxes WHERE topic = 'mail';
SELECT alvyn.reset_outbox('mail');
SELECT count(*) FROM alvyn.claim('mail', 'w');
SELECT alvyn.create_outbox('late', prefix => 'mail', partitions => 1);
SELECT count(*) FROM alvyn.claim('late', 'w');

-- A parked delivery whose event was removed is a dead letter.
SELECT alvyn.create_outbox('retry', prefix => 'ret', partitions => 1, backoff => '0');
SELECT count(alvyn.append('ret-1', NULL, 'A', to_jsonb(n))) FROM generate_series(1, 2) n;
SELECT alvyn.fail('retry', fence, position, 'down') FROM alvyn.claim('retry', 'w', 1);
SELECT alvyn.truncate_stream('ret-1', 2);
SELECT count(*) FROM alvyn.claim('retry', 'w');
SELECT key, stream_id, attempts, error FROM alvyn.dead_letters WHERE topic = 'retry';
SELECT alvyn.replay_dead_letter('retry', position) FROM alvyn.dead_letters WHERE topic = 'retry';
SELECT count(*) FROM alvyn.claim('retry', 'w');
SELECT alvyn.skip_dead_letter('retry', position) FROM alvyn.dead_letters WHERE topic = 'retry';
SELECT version FROM alvyn.claim('retry', 'w');

-- Usage: maintain() adds it up before it removes anything, in batches, where
-- there are tenants, and removes nothing while there is more; what was removed
-- before is told.
SELECT * FROM alvyn.maintain(1000);
SELECT alvyn.set_quota('acme', 'month', 1000);
SET alvyn.tenant = 'acme';
SELECT count(alvyn.append('use-' || n % 2, NULL, 'A', '1')) FROM generate_series(1, 6) n;
RESET alvyn.tenant;
SELECT * FROM alvyn.maintain(10);
SELECT rows > 10, more FROM alvyn.maintain(1000) WHERE task = 'usage';
SELECT sum(events) FROM alvyn.usage;
SET alvyn.tenant = 'acme';
SELECT count(alvyn.append('use-' || n % 2, NULL, 'A', '1')) FROM generate_series(1, 6) n;
RESET alvyn.tenant;
SELECT alvyn.truncate_stream('use-0', 5), alvyn.tombstone_stream('use-1');
SELECT told('SELECT alvyn.account_usage()');
SELECT task, rows FROM alvyn.maintain();
SELECT sum(events) FROM alvyn.usage;
SELECT position = 0 FROM alvyn.consumers WHERE name = 'alvyn.usage';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT task, rows FROM alvyn.maintain();
COMMIT;
SELECT alvyn.reset_consumer('alvyn.usage', 'now'), alvyn.account_usage();
SELECT (alvyn.verify()).ok;

-- The look is cheap: at the end of the feed always, far behind it from the
-- second time on, however many removals there are.
CREATE FUNCTION pages(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO v_plan;
    RETURN (v_plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (v_plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END
$$;
SELECT alvyn.create_consumer('end', start => 'now'), alvyn.create_consumer('behind', prefix => 'a-0');
INSERT INTO alvyn.removals SELECT n, -n, n FROM generate_series(100001, 110000) n;
SELECT count(*) FROM alvyn.consume('end');
SELECT count(*) FROM alvyn.consume('behind', 1);
SELECT pages('SELECT * FROM alvyn.consume(''end'')') < 50 AS idle, pages('SELECT * FROM alvyn.consume(''behind'', 1)') < 50 AS behind;
DROP FUNCTION pages(text), see(alvyn.event), told(text);
DROP TABLE seen, broken;
