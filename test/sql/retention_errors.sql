-- Each refusal has its SQLSTATE and, where two share one, a constraint name.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\set SHOW_CONTEXT never
SELECT count(alvyn.append('s-1', NULL, 'A', '{}')) FROM generate_series(1, 5);
SELECT alvyn.create_consumer('c');
SELECT alvyn.create_snapshot('N', 's', 100, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');
SELECT alvyn.truncate_stream('s-1', 2);
SELECT alvyn.drop_snapshot('N');
SELECT alvyn.truncate_stream('s-1', 4);
SELECT alvyn.create_snapshot('N', 's', 100, '{"n": 0}', rules => '{"A": {"n": {"increment": 1}}}');

SELECT alvyn.truncate_stream('none', 1);
SELECT alvyn.truncate_stream('s-1', 7);
SELECT alvyn.set_retention('s', '-1 day', NULL);
SELECT alvyn.maintain(0);
SELECT * FROM alvyn.load('s-1', 2);
SELECT * FROM alvyn.consume('c');
CREATE FUNCTION outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_constraint text;
BEGIN
    EXECUTE call;
    RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME;
    RETURN concat_ws(' ', SQLSTATE, nullif(v_constraint, ''));
END
$$;
SELECT alvyn.tombstone_stream(stream_id) FROM alvyn.append('t-1', 0, 'A', '{}');
SELECT call, outcome(call)
FROM unnest(ARRAY['SELECT alvyn.truncate_stream(''none'', 1)', 'SELECT alvyn.archive_stream(''none'')', 'SELECT alvyn.tombstone_stream(''none'')',
                  'SELECT alvyn.truncate_stream(NULL, 1)', 'SELECT alvyn.truncate_stream(''s-1'', NULL)', 'SELECT alvyn.truncate_stream(''s-1'', 0)',
                  'SELECT alvyn.truncate_stream(''s-1'', 7)', 'SELECT alvyn.truncate_stream(''s-1'', 6)', 'SELECT alvyn.archive_stream(''t-1'')',
                  'SELECT alvyn.unarchive_stream(''t-1'')', 'SELECT * FROM alvyn.load(''t-1'')', 'SELECT alvyn.append(''t-1'', NULL, ''A'', ''1'')',
                  'SELECT * FROM alvyn.load(''s-1'', 3)', 'SELECT * FROM alvyn.load(''s-1'', 4)', 'SELECT alvyn.state(''s-1'', ''N'')',
                  'SELECT alvyn.state(''s-1'', ''N'', 0)', 'SELECT * FROM alvyn.load_latest(''s-1'', ''N'')', 'SELECT * FROM alvyn.consume(''c'')',
                  'SELECT alvyn.set_retention(NULL, NULL, 1)', 'SELECT alvyn.set_retention(repeat(''x'', 513), NULL, 1)',
                  'SELECT alvyn.set_retention(''s'', ''-1 day'', 1)', 'SELECT alvyn.set_retention(''s'', NULL, -1)', 'SELECT alvyn.maintain(0)']) call;

DROP FUNCTION outcome;
