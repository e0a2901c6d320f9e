--
-- limits.sql
--    What bench/limits measures against, and where it keeps the results.
--

CREATE SCHEMA limits;

-- The same columns, constraints and indexes as alvyn.events, and a sequence
-- of its own for the position.
CREATE TABLE limits.plain (LIKE alvyn.events INCLUDING ALL);
CREATE SEQUENCE limits.plain_position_seq CACHE 1;
ALTER TABLE limits.plain
    ALTER COLUMN position SET DEFAULT nextval('limits.plain_position_seq');

CREATE TABLE limits.result (
    test text NOT NULL,
    unit text NOT NULL,
    required text NOT NULL,
    pair integer NOT NULL,
    ours numeric NOT NULL,
    reference numeric NOT NULL,
    number integer GENERATED ALWAYS AS IDENTITY
);

CREATE VIEW limits.report AS
    SELECT min(number) AS number,
           test,
           unit,
           count(*) AS pairs,
           round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ours)::numeric,
                 CASE WHEN unit IN ('s', 'ms') THEN 3 ELSE 0 END) AS alvyn,
           round(percentile_cont(0.5) WITHIN GROUP (ORDER BY reference)::numeric,
                 CASE WHEN unit IN ('s', 'ms') THEN 3 ELSE 0 END) AS plain,
           round(percentile_cont(0.5)
                 WITHIN GROUP (ORDER BY ours / reference)::numeric, 2) AS ratio,
           format('%s to %s', round(min(ours / reference), 2),
                  round(max(ours / reference), 2)) AS spread,
           required
      FROM limits.result
     GROUP BY test, unit, required;

CREATE FUNCTION limits.report_object(pairs integer, seconds integer) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT jsonb_build_object(
            'generatedAt', now(),
            'postgresqlVersion', current_setting('server_version'),
            'alvynVersion', (SELECT extversion FROM pg_extension
                              WHERE extname = 'alvyn'),
            'pairs', pairs,
            'secondsPerRun', seconds,
            'settings', (
                SELECT jsonb_object_agg(name, current_setting(name))
                  FROM pg_settings
                 WHERE source = 'configuration file'
                   AND name !~ 'director|dest|library|^lc_|^log_|addresses'),
            'measurements', (
                SELECT jsonb_agg(to_jsonb(r) || jsonb_build_object(
                           'results', (
                               SELECT jsonb_agg(jsonb_build_array(ours, reference)
                                                ORDER BY pair)
                                 FROM limits.result p
                                WHERE p.test = r.test)) ORDER BY number)
                  FROM limits.report r));
    END;

-- Streams that a run of pgbench can append to, 1,000 for each client, with
-- their first event, and the same rows in the plain table.
CREATE PROCEDURE limits.open_streams(run integer, clients integer)
    LANGUAGE sql
    BEGIN ATOMIC
        SELECT count(*)
          FROM alvyn.append_streams(
                   (SELECT array_agg((run * 1000000::bigint + n)::text)
                      FROM generate_series(0, clients * 1000 - 1) AS n),
                   array_fill('Opened'::text, ARRAY[clients * 1000]),
                   array_fill('{}'::jsonb, ARRAY[clients * 1000]));
        INSERT INTO limits.plain (stream_no, version, slot, type, data)
            SELECT run * 1000000::bigint + n, 1, 0, 'Opened', '{}'
              FROM generate_series(0, clients * 1000 - 1) AS n;
    END;

-- Streams to load: of 60 events each, their ids are 60000001, 60000002 ...
CREATE PROCEDURE limits.write_streams(events integer, streams integer)
    LANGUAGE plpgsql
    AS $$
BEGIN
    FOR stream IN 1 .. streams LOOP
        CONTINUE WHEN alvyn.stream_version(events || lpad(stream::text, 6, '0')) >= events;
        FOR batch IN 0 .. (events - 1) / 10000 LOOP
            PERFORM alvyn.append_batch(
                events || lpad(stream::text, 6, '0'),
                batch * 10000,
                array_agg('MoneyDeposited'::text),
                array_agg(jsonb_build_object(
                    'amount', n % 10,
                    'operationToken', concat_ws(':', 'seed', stream, n))))
               FROM generate_series(batch * 10000, least(events, (batch + 1) * 10000) - 1) AS n;
            COMMIT;
        END LOOP;
    END LOOP;
END
$$;

-- The history of the daily profile, for accounts first to last - 1.
INSERT INTO alvyn_bench.setting VALUES ('history', '60'), ('seed', '42');

CREATE PROCEDURE limits.seed(first_account integer, end_account integer)
    LANGUAGE plpgsql
    AS $$
BEGIN
    FOR account IN first_account .. end_account - 1 BY 400 LOOP
        PERFORM alvyn_bench.seed_accounts(account, least(account + 400, end_account) - 1);
        COMMIT;
    END LOOP;
END
$$;

-- All events as two files to COPY from, half of the streams in each.
CREATE PROCEDURE limits.write_copies(directory text)
    LANGUAGE plpgsql
    AS $$
BEGIN
    FOR part IN 0 .. 1 LOOP
        EXECUTE format(
            'COPY (SELECT stream_no, version, "time", schema_version, slot,'
            ' snapshot, type, data, metadata, id FROM alvyn.events'
            ' WHERE (stream_no > (SELECT max(stream_no) / 2 FROM alvyn.streams)) = %L'
            ' ORDER BY stream_no, version) TO %L',
            part = 1, directory || '/copy.' || part);
    END LOOP;
END
$$;

-- Pages that the second of two polls in a session touches when there is
-- nothing new.
CREATE FUNCTION limits.poll_pages() RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    plan jsonb;
BEGIN
    FOR turn IN 1 .. 2 LOOP
        EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
                 SELECT * FROM alvyn.read(alvyn.last_position(), 500)' INTO plan;
    END LOOP;
    RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint
           + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
END
$$;

-- The handler of a projection: one upsert an event.
CREATE TABLE limits.balances (
    stream_id text PRIMARY KEY,
    balance numeric NOT NULL
);
CREATE FUNCTION limits.project(event alvyn.event) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO limits.balances
    VALUES (event.stream_id, (event.data ->> 'amount')::numeric)
        ON CONFLICT (stream_id)
        DO UPDATE SET balance = balances.balance + excluded.balance
$$;

-- Events of so many keys, to be delivered.
CREATE PROCEDURE limits.write_work(events integer, keys integer)
    LANGUAGE plpgsql
    AS $$
BEGIN
    FOR batch IN 0 .. events / 10000 - 1 LOOP
        PERFORM alvyn.append_streams(
            array_agg('work-' || n % keys),
            array_agg('Ordered'::text),
            array_agg(jsonb_build_object('n', batch * 10000 + n)))
           FROM generate_series(0, 9999) AS n;
        COMMIT;
    END LOOP;
END
$$;

-- A worker delivers up to 100 events.
CREATE FUNCTION limits.deliver(worker text) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    fence bigint;
    positions bigint[];
BEGIN
    SELECT min(d.fence), array_agg(d.position) INTO fence, positions
      FROM alvyn.claim('limits', worker, 100) AS d;
    IF fence IS NOT NULL THEN
        PERFORM alvyn.complete('limits', fence, positions);
    END IF;
    RETURN cardinality(positions);
END
$$;
