-- state() is the fold of the events up to a version, at every version, from
-- whatever snapshots there are, and the same from rules as from a function.
--
-- Random events of a fixed seed go to streams that differ only in how they
-- are folded and how often snapshots are taken.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

CREATE FUNCTION evolve(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    d jsonb := event.data;
BEGIN
    CASE event.type
        WHEN 'Opened' THEN
            RETURN state || jsonb_build_object('status', 'open', 'owner', d -> 'who' -> 'name');
        WHEN 'Deposited' THEN
            RETURN state || jsonb_build_object('balance', (state ->> 'balance')::numeric + (d ->> 'amount')::numeric,
                'count', coalesce((state ->> 'count')::numeric, 0) + 1,
                'largest', greatest((state ->> 'largest')::numeric, (d ->> 'amount')::numeric),
                'smallest', least((state ->> 'smallest')::numeric, (d ->> 'amount')::numeric),
                'last', (SELECT jsonb_agg(e ORDER BY i)
                         FROM jsonb_array_elements(state -> 'last' || jsonb_build_array(d -> 'amount')) WITH ORDINALITY l (e, i)
                         WHERE i > jsonb_array_length(state -> 'last') + 1 - 3));
        WHEN 'Withdrawn' THEN
            RETURN state || jsonb_build_object('balance', (state ->> 'balance')::numeric - (d ->> 'amount')::numeric,
                'at', to_jsonb(to_char(event."time" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"')));
        WHEN 'Closed' THEN
            RETURN (state || '{"status": "closed"}') - 'owner';
        ELSE
            RETURN state;
    END CASE;
END
$$;
\set initial '''{"balance": 0, "last": [], "status": "new"}'''
\set rules '''{"Opened": {"status": {"set": "open"}, "owner": {"copy": "who.name"}}, "Deposited": {"balance": {"add": "amount"}, "count": {"increment": 1}, "largest": {"max": "amount"}, "smallest": {"min": "amount"}, "last": {"append": "amount", "keep": 3}}, "Withdrawn": {"balance": {"subtract": "amount"}, "at": {"time": true}}, "Closed": {"status": {"set": "closed"}, "owner": {"remove": true}}}'''
SELECT alvyn.create_snapshot('R1', 'r1', 1, :initial, rules => :rules);
SELECT alvyn.create_snapshot('R7', 'r7', 7, :initial, rules => :rules);
SELECT alvyn.create_snapshot('R', 'r', 100000, :initial, rules => :rules);
SELECT alvyn.create_snapshot('E1', 'e1', 1, :initial, evolve => 'evolve(jsonb, alvyn.event)');
SELECT alvyn.create_snapshot('E7', 'e7', 7, :initial, evolve => 'evolve(jsonb, alvyn.event)');
SELECT alvyn.create_snapshot('E', 'e', 100000, :initial, evolve => 'evolve(jsonb, alvyn.event)');

SELECT setseed(0.5);
CREATE TEMP TABLE history AS
SELECT i, (ARRAY['Opened', 'Deposited', 'Deposited', 'Deposited', 'Withdrawn', 'Closed', 'Looked'])[1 + floor(random() * 7)] AS type,
       jsonb_build_object('amount', round((random() * 1000)::numeric, (random() * 4)::int), 'who', jsonb_build_object('name', 'n' || (random() * 100)::int)) AS data,
       timestamptz '2024-01-01 00:00:00+00' + i * interval '1 hour' AS "time",
       floor(random() * 40) AS batch
FROM generate_series(1, 200) i;
-- Some at a time: the batch ends where the random number is small.
DO $$
DECLARE
    v_prefix text;
    v_from int;
    v_to int;
BEGIN
    FOREACH v_prefix IN ARRAY ARRAY['r1', 'r7', 'r', 'e1', 'e7', 'e'] LOOP
        v_from := 1;
        FOR v_to IN SELECT i FROM history WHERE batch < 20 OR i = 200 ORDER BY i LOOP
            PERFORM alvyn.append_batch(v_prefix || '-1', NULL, array_agg(type ORDER BY i), array_agg(data ORDER BY i), times => array_agg("time" ORDER BY i))
            FROM history WHERE i BETWEEN v_from AND v_to;
            v_from := v_to + 1;
        END LOOP;
    END LOOP;
END
$$;
SELECT source_events, stored_events > 1200 AS more, snapshot_events > 100 AS many, ok FROM alvyn.verify(NULL, true);

-- All six are at the same state in the end.
SELECT count(DISTINCT s.state) AS states, count(DISTINCT s.state::text) AS texts, min(s.state ->> 'count')::int > 50 AS counted
FROM (VALUES ('r1', 'R1'), ('r7', 'R7'), ('r', 'R'), ('e1', 'E1'), ('e7', 'E7'), ('e', 'E')) v (prefix, name),
     alvyn.state(v.prefix || '-1', v.name) s;

-- The fold by brute force: the function over the events, in SQL.
CREATE FUNCTION fold_step(jsonb, alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
'SELECT CASE WHEN $2.snapshot THEN $1 ELSE public.evolve($1, $2) END';
CREATE AGGREGATE fold_all(alvyn.event) (SFUNC = fold_step, STYPE = jsonb, INITCOND = '{"balance": 0, "last": [], "status": "new"}');

-- At every version: the state, the version, the events that were replayed.
SELECT v.name, count(*) >= 200 AS versions,
       count(*) FILTER (WHERE s.state IS DISTINCT FROM b.state) AS wrong_state,
       count(*) FILTER (WHERE s.version IS DISTINCT FROM b.version) AS wrong_version,
       count(*) FILTER (WHERE s.snapshot_version IS DISTINCT FROM b.snapshot_version) AS wrong_snapshot,
       count(*) FILTER (WHERE s.replayed_events IS DISTINCT FROM
           (SELECT count(*) FROM alvyn.load(v.prefix || '-1') e
             WHERE e.version > coalesce(b.snapshot_version, 0) AND e.version <= b.version AND NOT e.snapshot
               AND (v.name LIKE 'E%' OR e.type <> 'Looked'))) AS wrong_count
FROM (VALUES ('r1', 'R1'), ('r7', 'R7'), ('r', 'R'), ('e1', 'E1'), ('e7', 'E7'), ('e', 'E')) v (prefix, name)
CROSS JOIN LATERAL (
    SELECT e.version, fold_all(e) OVER w AS state,
           max(e.version) FILTER (WHERE e.snapshot) OVER w AS snapshot_version
    FROM alvyn.load(v.prefix || '-1') e WINDOW w AS (ORDER BY e.version)) b
CROSS JOIN LATERAL alvyn.state(v.prefix || '-1', v.name, b.version) s
GROUP BY v.name ORDER BY v.name;

-- Before the first event, beyond the last, of a stream that is not there.
SELECT * FROM alvyn.state('r7-1', 'R7', 0);
SELECT s.version = alvyn.stream_version('r7-1') AS head, s = alvyn.state('r7-1', 'R7') AS same FROM alvyn.state('r7-1', 'R7', 9223372036854775807) s;
SELECT * FROM alvyn.state('r7-2', 'R7');
SELECT * FROM alvyn.state('r7-2', 'R7', 5);

-- The stream as the statement sees it: not what it appends itself.
SELECT (alvyn.append('r-2', 0, 'Opened', '{"who": {"name": "me"}}')).version, s.version AS seen FROM alvyn.state('r-2', 'R') s;
SELECT version, state ->> 'owner' AS owner FROM alvyn.state('r-2', 'R');

-- load_latest: the newest snapshot and what follows it; all without one.
SELECT count(*), bool_and(version = alvyn.stream_version('e1-1')), bool_and(snapshot) FROM alvyn.load_latest('e1-1', 'E1');
SELECT s.snapshot_version = min(l.version) AS begins, count(*) - 1 = max(s.replayed_events) AS follows, max(l.version) = max(s.version) AS ends,
       array_agg(l.snapshot ORDER BY l.version) = true || array_fill(false, ARRAY[count(*)::int - 1]) AS kinds
FROM alvyn.state('e7-1', 'E7') s, alvyn.load_latest('e7-1', 'E7') l GROUP BY s.snapshot_version;
SELECT count(*) = (SELECT count(*) FROM alvyn.load('r-1')) AS all_of_them, min(version) FROM alvyn.load_latest('r-1', 'R');
SELECT count(*) FROM alvyn.load_latest('r-3', 'R');
-- It is planned like load(): in place of the call, on the index.
SET enable_bitmapscan = off;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT version, data FROM alvyn.load_latest('e7-1', 'E7');
RESET enable_bitmapscan;
RESET enable_seqscan;

-- An event function sees the whole event.
CREATE FUNCTION evolve_row(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
$$SELECT to_jsonb(event) - 'position'$$;
SELECT alvyn.create_snapshot('Row', 'row', 2, '{}', evolve => 'evolve_row(jsonb, alvyn.event)');
SELECT (alvyn.append('row-1', 0, 'A', '{"a": 1.10}', '{"m": 1}', 'own id', '2024-01-01 00:00+00', 7)).version;
SELECT state FROM alvyn.state('row-1', 'Row');
SELECT (alvyn.append('row-1', 1, 'B', '[]', "time" => '2024-01-01 00:00+00')).version;
SELECT state FROM alvyn.state('row-1', 'Row');
SELECT data - 'time' AS data, metadata, id, schema_version FROM alvyn.load('row-1', 3);

-- States may be of any kind, and large.
CREATE FUNCTION evolve_text(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
$$SELECT to_jsonb((state #>> '{}') || repeat(event.type, 200000))$$;
SELECT alvyn.create_snapshot('Text', 'text', 3, '""', evolve => 'evolve_text(jsonb, alvyn.event)');
SELECT (alvyn.append_batch('text-1', 0, array_fill('0123456789'::text, ARRAY[5]), array_fill('{}'::jsonb, ARRAY[5]))).version;
SELECT (alvyn.append('text-1', 6, '0123456789', '{}')).version;
SELECT (alvyn.append('text-1', 7, '0123456789', '{}')).version;
SELECT (alvyn.append('text-1', 8, '0123456789', '{}')).version;
SELECT version, length(data #>> '{}') AS length FROM alvyn.load('text-1') WHERE snapshot;
SELECT length(state #>> '{}') AS length, state #>> '{}' = repeat('0123456789', 1600000) AS same, version, snapshot_version, replayed_events FROM alvyn.state('text-1', 'Text');
SELECT ok FROM alvyn.verify('text-', true);

DROP AGGREGATE fold_all(alvyn.event);
DROP FUNCTION fold_step, evolve, evolve_row, evolve_text;
