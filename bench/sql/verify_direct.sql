--
-- verify_direct.sql
--    Whether the streams hold what the plan and the answers say.
--
-- As verify.sql does for accounts: every event is compared, from the tables.
--

CREATE TABLE alvyn_bench.stored AS
    SELECT substr(s.stream_id, length('load-test-stream-') + 1) AS stream,
           e.version,
           e.position,
           e.data ->> 'token' AS token,
           coalesce(e.type = 'LoadTestEvent'
                    AND e.metadata = '{"source": "alvyn-load-test"}', false) AS sound,
           e.data
      FROM alvyn.streams s
      JOIN alvyn.events e USING (stream_no)
     WHERE starts_with(s.stream_id, 'load-test-stream-');

-- What must be there once the appends that were acknowledged are.
CREATE TABLE alvyn_bench.promised AS
    SELECT o.account::text AS stream,
           o.process,
           o.n,
           event,
           coalesce(r.answered, false) AS acknowledged,
           concat_ws(':', 'live', alvyn_bench.setting('seed'), o.process, o.n, event) AS token,
           jsonb_build_object(
               'phase', 'live',
               'seed', alvyn_bench.setting_number('seed'),
               'workerId', o.process,
               'operationIndex', o.n,
               'eventIndex', event,
               'token', concat_ws(':', 'live', alvyn_bench.setting('seed'), o.process,
                                  o.n, event)) AS data
      FROM alvyn_bench.operation o
      LEFT JOIN alvyn_bench.request r USING (process, n)
     CROSS JOIN LATERAL generate_series(0, (SELECT alvyn_bench.setting('batch-size')::integer) - 1)
                        AS event
     WHERE o.class = 'append';

CREATE TABLE alvyn_bench.seeded AS
    SELECT stream::text,
           n + 1 AS version,
           alvyn_bench.seed_event(stream, n) AS data
      FROM generate_series(0, alvyn_bench.setting('streams')::bigint - 1) AS stream
     CROSS JOIN LATERAL generate_series(0, (SELECT alvyn_bench.setting('history')::bigint) - 1)
                        AS n;

CREATE VIEW alvyn_bench.live AS
    SELECT * FROM alvyn_bench.stored
     WHERE version > (SELECT alvyn_bench.setting('history')::bigint);

ANALYZE alvyn_bench.stored, alvyn_bench.promised, alvyn_bench.seeded;

INSERT INTO alvyn_bench.fault
    SELECT 'unknown stream', count(DISTINCT stream), min(stream)
      FROM alvyn_bench.stored
     WHERE stream !~ '^(0|[1-9][0-9]{0,8})$'
        OR stream::integer >= (SELECT alvyn_bench.setting('streams')::integer)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'versions not contiguous', count(*), min(stream)
      FROM (SELECT stream FROM alvyn_bench.stored
             GROUP BY stream
            HAVING min(version) <> 1 OR max(version) <> count(*)) AS broken
    HAVING count(*) > 0
     UNION ALL
    SELECT 'seeded events changed or missing', count(*), min(stream || '/' || version)
      FROM alvyn_bench.seeded e
      LEFT JOIN alvyn_bench.stored s USING (stream, version)
     WHERE s.data IS DISTINCT FROM e.data OR NOT s.sound
    HAVING count(*) > 0
     UNION ALL
    SELECT 'event outside the plan', count(*), min(l.stream || '/' || l.version)
      FROM alvyn_bench.live l
     WHERE NOT EXISTS (SELECT FROM alvyn_bench.promised p WHERE p.token = l.token)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'event that was not acknowledged', count(*), min(l.token)
      FROM alvyn_bench.live l
      JOIN alvyn_bench.promised p USING (token)
     WHERE NOT p.acknowledged
    HAVING count(*) > 0
     UNION ALL
    SELECT 'acknowledged event missing', count(*), min(p.token)
      FROM alvyn_bench.promised p
     WHERE p.acknowledged
       AND NOT EXISTS (SELECT FROM alvyn_bench.live l WHERE l.token = p.token)
    HAVING count(*) > 0
     UNION ALL
    SELECT 'event stored more than once', count(*), min(token)
      FROM (SELECT token FROM alvyn_bench.live
             WHERE token IS NOT NULL
             GROUP BY token HAVING count(*) > 1) AS twice
    HAVING count(*) > 0
     UNION ALL
    SELECT 'event on another stream', count(*), min(l.token)
      FROM alvyn_bench.live l
      JOIN alvyn_bench.promised p USING (token)
     WHERE l.stream <> p.stream
    HAVING count(*) > 0
     UNION ALL
    SELECT 'event with other content', count(*), min(l.token)
      FROM alvyn_bench.live l
      JOIN alvyn_bench.promised p USING (token)
     WHERE l.data <> p.data OR NOT l.sound
    HAVING count(*) > 0
     UNION ALL
    SELECT 'batch torn apart', count(*), min(process || '/' || n)
      FROM (SELECT p.process, p.n
              FROM alvyn_bench.promised p
              JOIN alvyn_bench.live l USING (token)
             GROUP BY p.process, p.n
            HAVING count(DISTINCT l.version - p.event) > 1) AS torn
    HAVING count(*) > 0
     UNION ALL
    SELECT 'events out of order', count(*), min(stream || '/' || version)
      FROM (SELECT stream, version,
                   position < lag(position) OVER (PARTITION BY stream ORDER BY version) AS late
              FROM alvyn_bench.stored) AS ordered
     WHERE late
    HAVING count(*) > 0
     UNION ALL
    SELECT 'alvyn.verify() found broken streams', greatest(broken_streams, 1), NULL
      FROM alvyn.verify(check_snapshots => true)
     WHERE NOT ok;

INSERT INTO alvyn_bench.checked
    SELECT c.*
      FROM (SELECT alvyn_bench.setting_number('streams') AS streams,
                   alvyn_bench.setting_number('streams')
                       * alvyn_bench.setting_number('history') AS seeded,
                   (SELECT count(*) FROM alvyn_bench.promised WHERE acknowledged) AS live) AS o
     CROSS JOIN LATERAL (VALUES
        (1, 'seeded events',
            (SELECT count(*) FROM alvyn_bench.stored)
            - (SELECT count(*) FROM alvyn_bench.live), o.seeded),
        (2, 'live events', (SELECT count(*) FROM alvyn_bench.live), o.live),
        (3, 'events', (SELECT count(*) FROM alvyn_bench.stored), o.seeded + o.live)
     ) AS c;

INSERT INTO alvyn_bench.fault
    SELECT 'number of ' || name, 1, format('%s, not %s', found, expected)
      FROM alvyn_bench.checked
     WHERE found <> expected;

INSERT INTO alvyn_bench.part
    SELECT 'verification',
           jsonb_build_object(
               'streamCount', (SELECT count(DISTINCT stream) FROM alvyn_bench.stored),
               'eventCount', (SELECT found FROM alvyn_bench.checked WHERE line = 3),
               'liveEventCount', (SELECT found FROM alvyn_bench.checked WHERE line = 2),
               'expectedEventCount', (SELECT expected FROM alvyn_bench.checked WHERE line = 3),
               'expectedLiveEventCount', (SELECT expected FROM alvyn_bench.checked WHERE line = 2),
               'expectedAppendOperations', (SELECT count(*) FROM alvyn_bench.operation
                                             WHERE class = 'append'),
               'expectedLoadOperations', (SELECT count(*) FROM alvyn_bench.operation
                                           WHERE class = 'load'),
               'faults', (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY fault), '[]')
                            FROM alvyn_bench.fault f));
