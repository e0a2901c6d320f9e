-- History is removed from the beginning of streams only: versions never
-- restart, verify knows the floors, states are never silently wrong, and a
-- consumer that has not read what went gets an error until it is reset.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\set VERBOSITY terse
\set SHOW_CONTEXT never
SELECT count(alvyn.append('a-' || n % 3, NULL, 'A', to_jsonb(n))) FROM generate_series(1, 30) n;
SELECT alvyn.create_consumer('all'), alvyn.create_consumer('others', prefix => 'b'), alvyn.create_consumer('later', start => '30');

-- Truncation: the rest is there, appends go on, what is asked for below is
-- refused.
SELECT alvyn.truncate_stream('a-1', 6);
SELECT version FROM alvyn.load('a-1');
SELECT count(*) FROM alvyn.load('a-1', backwards => true);
SELECT count(*) FROM alvyn.load('a-1', 6);
SELECT count(*) FROM alvyn.load('a-1', 5);
SELECT alvyn.truncate_stream('a-1', 6), alvyn.truncate_stream('a-1', 3);
SELECT alvyn.truncate_stream('a-1', 11), alvyn.stream_version('a-1');
SELECT count(*) FROM alvyn.load('a-1');
SELECT version FROM alvyn.append('a-1', 10, 'A', '1');
SELECT (alvyn.try_append('a-1', 0, 'A', '1')).conflict;
SELECT (alvyn.verify()).ok, (alvyn.verify()).stored_events;

-- Consumers: an error for those that wanted it, until they accept the gap.
SELECT count(*) FROM alvyn.consume('all');
SELECT alvyn.lease('all', 'w', 60);
SELECT count(*) FROM alvyn.consume('all', 0, 1);
SELECT count(*) FROM alvyn.consume('others');
SELECT count(*) FROM alvyn.consume('later');
SELECT alvyn.reset_consumer('all');
SELECT count(*) FROM alvyn.consume('all');
SELECT alvyn.create_consumer('new');
SELECT count(*) FROM alvyn.consume('new');
SELECT count(*) FROM alvyn.read();
SELECT alvyn.checkpoint('new', 15);
SELECT alvyn.truncate_stream('a-2', 2);
SELECT count(*) FROM alvyn.consume('new');
SELECT count(*) FROM alvyn.consume('all');

-- Archived: readable, closed, until it is opened again.
SELECT alvyn.archive_stream('a-0');
SELECT alvyn.append('a-0', NULL, 'A', '1');
SELECT count(*) FROM alvyn.load('a-0');
SELECT stream_id, state FROM alvyn.list_streams();
SELECT alvyn.unarchive_stream('a-0');
SELECT version FROM alvyn.append('a-0', 10, 'A', '1');

-- Tombstoned: closed for ever; maintain removes the events in batches.
SELECT alvyn.tombstone_stream('a-0'), alvyn.tombstone_stream('a-0');
SELECT alvyn.append('a-0', NULL, 'A', '1');
SELECT count(*) FROM alvyn.load('a-0');
SELECT * FROM alvyn.maintain(4);
SELECT (alvyn.verify()).ok, count(*) FROM alvyn.read(prefix => 'a-0');
SELECT * FROM alvyn.maintain(4);
SELECT * FROM alvyn.maintain(4);
SELECT * FROM alvyn.maintain(4);
SELECT count(*), alvyn.stream_version('a-0') FROM alvyn.read(prefix => 'a-0');
SELECT alvyn.append('a-0', 0, 'A', '1');
SELECT (alvyn.verify()).ok;

-- Snapshots: nothing goes that a state needs.
SELECT alvyn.create_snapshot('N', 'snap', 5, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT count(alvyn.append('snap-1', NULL, 'A', '1')) FROM generate_series(1, 13);
SELECT version, usable FROM alvyn.snapshot_marks;
SELECT alvyn.truncate_stream('snap-1', 13);
SELECT alvyn.truncate_stream('snap-1', 12);
SELECT * FROM alvyn.state('snap-1', 'N');
SELECT * FROM alvyn.state('snap-1', 'N', 12);
SELECT * FROM alvyn.state('snap-1', 'N', 11);
SELECT version, type FROM alvyn.load_latest('snap-1', 'N');
SELECT ok FROM alvyn.verify(NULL, true);
SELECT count(alvyn.append('snap-1', NULL, 'A', '1')) FROM generate_series(1, 7);
SELECT state FROM alvyn.state('snap-1', 'N');
-- Another fold cannot be computed any more: an error, and appends go on.
SELECT alvyn.create_snapshot('M', 'snap', 2, '{"n": 0}', rules => '{"A": {"n": {"increment": 2}}}');
SELECT alvyn.state('snap-1', 'M');
SELECT count(*) FROM alvyn.load_latest('snap-1', 'M');
SELECT count(alvyn.append('snap-1', NULL, 'A', '1')) FROM generate_series(1, 5);
SELECT alvyn.rebuild_snapshots('M');
SELECT state FROM alvyn.state('snap-1', 'N');
SELECT alvyn.drop_snapshot('M');

-- Retention by number and by age, the longest prefix first, in batches.
SELECT count(alvyn.append('log-' || n % 2, NULL, 'L', '1', "time" => clock_timestamp() - make_interval(days => 40 - n))) FROM generate_series(1, 40) n;
SELECT count(alvyn.append('log-keep', NULL, 'L', '1', "time" => '2020-01-01')) FROM generate_series(1, 5);
SELECT alvyn.set_retention('log-', '10 days', NULL), alvyn.set_retention('log-keep', NULL, 3), alvyn.set_retention('snap', NULL, 2);
CREATE FUNCTION maintain_all(max_rows int) RETURNS TABLE (calls bigint, rows bigint, largest bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_report record;
BEGIN
    calls := 0;
    rows := 0;
    largest := 0;
    LOOP
        SELECT * INTO v_report FROM alvyn.maintain(max_rows) m WHERE m.task = 'retention';
        calls := calls + 1;
        rows := rows + v_report.rows;
        largest := greatest(largest, v_report.rows);
        EXIT WHEN NOT v_report.more;
    END LOOP;
    RETURN NEXT;
END
$$;
SELECT rows, largest <= 7 AS bounded FROM maintain_all(7);
SELECT stream_id, count(*), alvyn.stream_version(stream_id) FROM alvyn.read(0, NULL, prefix => 'log-') GROUP BY stream_id ORDER BY stream_id;
SELECT min(version), (SELECT version FROM alvyn.snapshot_marks) AS snapshot FROM alvyn.load('snap-1');
SELECT state FROM alvyn.state('snap-1', 'N');
SELECT rows FROM maintain_all(7);
SELECT prefix, max_age, max_count FROM alvyn.retentions ORDER BY prefix;
SELECT alvyn.set_retention('log-', NULL, NULL);
SELECT prefix FROM alvyn.retentions ORDER BY prefix;
SELECT (alvyn.verify(NULL, true)).ok;
