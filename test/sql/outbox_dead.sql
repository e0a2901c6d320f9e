-- Failures: a key whose first event waits or is dead holds its own later
-- events and nobody else's, and goes on in order.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
-- Keys a and b in turns: a has the odd positions.
SELECT count(alvyn.append(s, NULL, 'A', to_jsonb(n))) FROM (VALUES
    ('k-a', 1), ('k-b', 1), ('k-a', 2), ('k-b', 2), ('k-a', 3), ('k-b', 3)) v (s, n);
SELECT alvyn.create_outbox('hold', partitions => 1, max_attempts => 2, backoff => '0');
CREATE VIEW parked AS SELECT topic, position, key, state, attempts, error, retry_at > clock_timestamp() AS waits FROM alvyn.parked_deliveries ORDER BY position;
CREATE FUNCTION claimed(outbox text, max_count int DEFAULT 100) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(concat_ws(' ', d.position, d.key, 'attempt', d.attempt), ', ' ORDER BY d.position) FROM alvyn.claim(outbox, 'ada', max_count) d
$$;
CREATE FUNCTION fence(outbox text) RETURNS bigint LANGUAGE sql AS $$
    SELECT fence FROM alvyn.outbox_partitions WHERE topic = outbox
$$;

-- The first of key a fails, twice; b flows.
SELECT claimed('hold');
SELECT alvyn.fail('hold', fence('hold'), 1, 'no route', '1 hour');
SELECT * FROM parked;
-- One that was held can be completed while the claim is open.
SELECT alvyn.complete('hold', fence('hold'), ARRAY[2, 4]);
SELECT alvyn.complete('hold', fence('hold'), ARRAY[5]);
SELECT alvyn.complete('hold', fence('hold'), ARRAY[6]);
SELECT position, in_flight, parked, dead FROM alvyn.outboxes;
SELECT claimed('hold');
-- New events of a are held, those of b are not.
SELECT count(alvyn.append(s, NULL, 'A', '4')) FROM unnest(ARRAY['k-a', 'k-b']) s;
SELECT claimed('hold');
SELECT alvyn.complete('hold', fence('hold'), ARRAY[8]);
SELECT * FROM parked;
UPDATE alvyn.parked_deliveries SET retry_at = clock_timestamp() WHERE state = 'w';
SELECT claimed('hold');
SELECT alvyn.fail('hold', fence('hold'), 1, 'no route again');
SELECT * FROM parked;
SELECT topic, key, position, stream_id, version, type, attempts, error FROM alvyn.dead_letters;
SELECT claimed('hold');
-- Replayed, it goes first; then the others in order.
SELECT alvyn.replay_dead_letter('hold', 1);
SELECT claimed('hold');
SELECT alvyn.complete('hold', fence('hold'), ARRAY[1]);
SELECT * FROM parked;
SELECT claimed('hold');
SELECT alvyn.fail('hold', fence('hold'), 3, 'still no route');
SELECT claimed('hold');
SELECT alvyn.fail('hold', fence('hold'), 3, 'still no route');
SELECT * FROM parked;
SELECT claimed('hold');
-- Skipped, those behind it go.
SELECT alvyn.skip_dead_letter('hold', 3);
SELECT claimed('hold');
SELECT alvyn.complete('hold', fence('hold'), ARRAY[7]);
SELECT * FROM parked;
SELECT claimed('hold');
SELECT position, in_flight, parked, dead FROM alvyn.outboxes;

-- With "flow" the others of the key go on at once.
SELECT alvyn.create_outbox('flow', partitions => 1, max_attempts => 1, on_dead => 'flow');
SELECT claimed('flow', 4);
SELECT alvyn.fail('flow', fence('flow'), 1, 'no');
SELECT alvyn.fail('flow', fence('flow'), 2, 'no');
SELECT alvyn.complete('flow', fence('flow'), ARRAY[3, 4]);
SELECT claimed('flow', 2);
SELECT alvyn.complete('flow', fence('flow'), ARRAY[5, 6]);
-- Replayed, before what has not gone out yet.
SELECT alvyn.replay_dead_letter('flow', 1);
SELECT alvyn.skip_dead_letter('flow', 2);
SELECT claimed('flow');
SELECT alvyn.complete('flow', fence('flow'), ARRAY[1]);
SELECT claimed('flow');
SELECT alvyn.complete('flow', fence('flow'), ARRAY[7, 8]);
SELECT * FROM parked;

-- Those that were delivered with a failing one can be completed after all;
-- an earlier one of the key that is not done yet comes first.
SELECT alvyn.create_outbox('mixed', partitions => 1, backoff => '0', lease => '1 ms');
SELECT claimed('mixed', 6);
SELECT alvyn.fail('mixed', fence('mixed'), 3, 'no');
SELECT alvyn.complete('mixed', fence('mixed'), ARRAY[2, 5]);
SELECT * FROM parked;
SELECT position, in_flight FROM alvyn.outboxes WHERE topic = 'mixed' AND pg_sleep(0.002) IS NOT NULL;
SELECT claimed('mixed');
SELECT alvyn.complete('mixed', fence('mixed'), ARRAY[1]);
SELECT alvyn.alter_outbox('mixed', lease => '1 hour');
SELECT claimed('mixed');
SELECT alvyn.complete('mixed', fence('mixed'), ARRAY[4]);
-- The retry, and new events, in turns.
SELECT claimed('mixed');
SELECT alvyn.complete('mixed', fence('mixed'), ARRAY[3]);
SELECT claimed('mixed');
SELECT alvyn.complete('mixed', fence('mixed'), ARRAY[6]);
SELECT claimed('mixed');
SELECT alvyn.complete('mixed', fence('mixed'), ARRAY[7, 8]);
SELECT claimed('mixed');
SELECT * FROM parked;
SELECT position, in_flight, parked, dead FROM alvyn.outboxes WHERE topic = 'mixed';

-- Failures double the pause, up to an hour.
SELECT alvyn.create_outbox('pause', partitions => 1, backoff => '10 minutes', max_attempts => 9);
SELECT claimed('pause');
SELECT alvyn.fail('pause', fence('pause'), 1, 'no');
SELECT alvyn.complete('pause', fence('pause'), ARRAY[2, 4, 6, 8]);
SELECT round(extract(epoch FROM retry_at - clock_timestamp()) / 60) AS minutes FROM alvyn.parked_deliveries WHERE topic = 'pause' AND state = 'w';
DO $$
BEGIN
    FOR i IN 1 .. 3 LOOP
        UPDATE alvyn.parked_deliveries SET retry_at = clock_timestamp() WHERE topic = 'pause' AND state = 'w';
        PERFORM claimed('pause');
        PERFORM alvyn.fail('pause', fence('pause'), 1, 'no');
        RAISE NOTICE '% minutes', (SELECT round(extract(epoch FROM retry_at - clock_timestamp()) / 60) FROM alvyn.parked_deliveries
                                   WHERE topic = 'pause' AND state = 'w');
        -- The answer holds with the commit.
        COMMIT;
    END LOOP;
END
$$;

-- The rows of a claim are part of its transaction; an answer to one that was
-- rolled back would lose them.
SELECT alvyn.append('k-a', NULL, 'A', '5') IS NOT NULL, alvyn.append('k-b', NULL, 'A', '5') IS NOT NULL;
BEGIN;
SELECT claimed('pause');
ROLLBACK;
\set SHOW_CONTEXT never
SELECT alvyn.complete('pause', fence('pause'), ARRAY[10]);
\set VERBOSITY sqlstate
SELECT alvyn.complete('pause', fence('pause'), ARRAY[10]);
SELECT alvyn.fail('pause', fence('pause'), 10, 'no');
DROP VIEW parked;
DROP FUNCTION claimed, fence;
