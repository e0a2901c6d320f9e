-- What bench/service runs: a service in front of another system.

CREATE SCHEMA service;
CREATE EXTENSION pgcrypto SCHEMA service;

-- Signed messages for 50 aggregates, made before the clock runs.  One in 50
-- is sent twice.
CREATE TABLE service.messages (
    n bigint PRIMARY KEY,
    message_id text NOT NULL,
    stream_id text NOT NULL,
    body bytea NOT NULL,
    signature text NOT NULL
);

CREATE PROCEDURE service.write_messages(messages bigint)
    LANGUAGE sql
    BEGIN ATOMIC
        INSERT INTO service.messages
            SELECT n, m.id, m.stream_id, m.body,
                   'sha256=' || encode(service.hmac(m.body, 'service-secret-16'::bytea, 'sha256'::text), 'hex')
              FROM generate_series(0, messages - 1) AS n
             CROSS JOIN LATERAL (SELECT CASE WHEN n % 50 = 49 THEN n - 1 ELSE n END AS d) AS original
             CROSS JOIN LATERAL (SELECT 'message-' || d AS id,
                                        'aggregate-' || d % 50 AS stream_id,
                                        convert_to(jsonb_build_object('order', d, 'amount', d % 100)::text, 'UTF8') AS body) AS m;
    END;

-- A worker of the outbox: claims, appends a child for each event, completes,
-- until it has found nothing for a while.
CREATE PROCEDURE service.work(worker text, idle interval)
    LANGUAGE plpgsql
    AS $$
DECLARE
    d record;
    done bigint[];
    fence bigint;
    last_work timestamptz := clock_timestamp();
BEGIN
    WHILE clock_timestamp() - last_work < idle LOOP
        done := '{}';
        FOR d IN SELECT * FROM alvyn.claim('work', worker, 50) LOOP
            PERFORM alvyn.append('child-' || d.stream_id, NULL, 'Handled', jsonb_build_object('of', d.position),
                                 idempotency_key => 'child:' || d.position);
            fence := d.fence;
            done := done || d.position;
        END LOOP;
        IF done <> '{}' THEN
            PERFORM alvyn.complete('work', fence, done);
            last_work := clock_timestamp();
            COMMIT;
        ELSE
            COMMIT;
            PERFORM pg_sleep(0.005);
        END IF;
    END LOOP;
END
$$;

-- How many requests were not served; not rolled back.
CREATE SEQUENCE service.shed;
CREATE SEQUENCE service.refused;
SELECT setval('service.shed', 1), setval('service.refused', 1) \g /dev/null

-- A request: who asks, may they, may the upstream system be called, note that
-- it is.  Returns what became of it.
CREATE FUNCTION service.begin(key text, request text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT (SELECT granted FROM alvyn.acquire('upstream', 1, '100 milliseconds')) THEN
        PERFORM nextval('service.refused');
        RETURN 'refused';
    END IF;
    PERFORM alvyn.authenticate(key);
    PERFORM alvyn.append('invocation-' || request, 0, 'Invoked',
                         jsonb_build_object('began', statement_timestamp()));
    RETURN 'begun';
EXCEPTION WHEN insufficient_resources THEN
    PERFORM nextval('service.shed');
    RETURN 'shed';
END
$$;

-- Its completion.
CREATE FUNCTION service.finish(key text, request text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM alvyn.authenticate(key);
    PERFORM alvyn.append('invocation-' || request, 1, 'Completed', '{"status": 200}');
    RETURN 'served';
EXCEPTION WHEN insufficient_resources THEN
    PERFORM nextval('service.shed');
    RETURN 'shed';
END
$$;
