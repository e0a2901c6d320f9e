-- Rules that are not rules are refused when they are defined, each with what
-- is wrong and where; a payload that the rules cannot fold is refused by the
-- append itself, before anything is written.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset format unaligned
\pset tuples_only on

-- What create_snapshot says of rules.
CREATE FUNCTION refusal(rules jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_message text;
    v_detail text;
    v_hint text;
BEGIN
    PERFORM alvyn.create_snapshot('Bad', 'bad', 10, '{}', rules => refusal.rules);
    RETURN 'accepted: ' || rules::text;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS v_state = RETURNED_SQLSTATE, v_message = MESSAGE_TEXT, v_detail = PG_EXCEPTION_DETAIL,
        v_hint = PG_EXCEPTION_HINT;
    IF v_state <> '22023' OR v_message <> 'argument "rules" is not a set of rules' OR v_hint NOT LIKE 'Rules have the form%' THEN
        RETURN v_state || ' ' || v_message;
    END IF;
    RETURN v_detail;
END
$$;
SELECT refusal(r)
FROM unnest(ARRAY[
    '1', 'null', '"text"', '[]', '{}',
    '{"A": 1}',
    '{"A": []}',
    '{"A": null}',
    '{"A": {"f": 1}}',
    '{"A": {"f": [{"set": 1}]}}',
    '{"A": {"f": {}}}',
    '{"A": {"f": {"set": 1, "copy": "x"}}}',
    '{"A": {"f": {"keep": 1}}}',
    '{"A": {"f": {"double": 1}}}',
    '{"A": {"f": {"Set": 1}}}',
    '{"A": {"f": {"": 1}}}',
    '{"A": {"f": {"copy": 1}}}',
    '{"A": {"f": {"copy": ""}}}',
    '{"A": {"f": {"copy": "."}}}',
    '{"A": {"f": {"copy": "a..b"}}}',
    '{"A": {"f": {"copy": ".a"}}}',
    '{"A": {"f": {"copy": "a."}}}',
    '{"A": {"f": {"add": 1}}}',
    '{"A": {"f": {"add": null}}}',
    '{"A": {"f": {"subtract": ["a"]}}}',
    '{"A": {"f": {"min": {}}}}',
    '{"A": {"f": {"max": true}}}',
    '{"A": {"f": {"append": 1}}}',
    '{"A": {"f": {"increment": "1"}}}',
    '{"A": {"f": {"increment": null}}}',
    '{"A": {"f": {"remove": false}}}',
    '{"A": {"f": {"remove": 1}}}',
    '{"A": {"f": {"time": "true"}}}',
    '{"A": {"f": {"append": "x", "keep": 0}}}',
    '{"A": {"f": {"append": "x", "keep": -1}}}',
    '{"A": {"f": {"append": "x", "keep": 1.5}}}',
    '{"A": {"f": {"append": "x", "keep": 1e20}}}',
    '{"A": {"f": {"append": "x", "keep": 2147483648}}}',
    '{"A": {"f": {"append": "x", "keep": "1"}}}',
    '{"A": {"f": {"append": "x", "keep": null}}}',
    '{"A": {"f": {"copy": "x", "keep": 1}}}',
    '{"A": {"": {"set": 1}}}',
    '{"A": {"f.": {"set": 1}}}',
    '{"A": {"f..g": {"set": 1}}}',
    -- Fields that lie within each other, in one type or in two.
    '{"A": {"f": {"set": 1}, "f.g": {"set": 1}}}',
    '{"A": {"f.g.h": {"set": 1}}, "B": {"f.g": {"set": 1}}}',
    -- The second of two types, the second of two fields.
    '{"A": {"f": {"set": 1}, "g": {"set": 2}}, "B": {"f": {"set": 1}, "ge": {"add": 7}}}'
    ]::jsonb[]) WITH ORDINALITY u (r, i)
ORDER BY i;
-- These are rules.
DO $$
DECLARE
    v_rules jsonb;
BEGIN
    FOREACH v_rules IN ARRAY ARRAY[
        '{"A": {}}',
        '{"A": {"f": {"append": "x", "keep": 2147483647}}}',
        '{"A": {"f": {"append": "x", "keep": 2.0}}}',
        '{"A": {"f.g": {"set": 1}, "f.gg": {"set": 1}, "ff": {"set": 1}}, "B": {"f.g": {"set": 2}}}']::jsonb[] LOOP
        RAISE NOTICE '%', refusal(v_rules);
        PERFORM alvyn.drop_snapshot('Bad');
    END LOOP;
END
$$;
-- check_rules is the same check.
SELECT alvyn.check_rules('{"A": {}}'), alvyn.check_rules(NULL) IS NULL;
\pset format aligned
SELECT alvyn.check_rules('{"A": {"f": {"set": 1}, "g": {"set": 1, "keep": 5}}}');

-- A rule set is replaced by one that is good, or not at all.
SELECT alvyn.create_snapshot('Sum', 'sum', 3, '{"sum": 0, "log": []}',
                             rules => '{"A": {"sum": {"add": "n.m"}, "log": {"append": "t"}}, "B": {"last": {"copy": "t"}}, "C": {"sum": {"max": "n"}}, "D": {"sum": {"increment": 1}}}');
\set VERBOSITY terse
SELECT alvyn.alter_snapshot('Sum', rules => '{"A": {"sum": {"multiply": "n"}}}');
\set VERBOSITY default
SELECT schema_version, rules -> 'D' AS d FROM alvyn.snapshots;

-- Payloads: which path, which stream, which version; nothing is written.
SELECT (alvyn.append('sum-1', 0, 'A', '{"n": {"m": 1}, "t": 1}')).version;
SELECT alvyn.append('sum-1', 1, 'A', '{"n": {"m": 1}}');
SELECT alvyn.append('sum-1', 1, 'A', '{"n": {"m": "1"}, "t": 1}');
SELECT alvyn.append_batch('sum-1', NULL, ARRAY['B', 'X', 'C'], ARRAY['{"t": null}', '{}', '{"n": null}']::jsonb[]);
SELECT alvyn.append_streams(ARRAY['sum-1', 'sum-2', 'sum-1', 'other-1', 'sum-2'], ARRAY['D', 'D', 'D', 'C', 'C'],
                            ARRAY['{}', '{}', '{}', '{}', '{"n": {}}']::jsonb[]);
SELECT alvyn.try_append('sum-3', 0, 'C', '{}');
DO $$
DECLARE
    v_payload jsonb;
    v_refused int := 0;
BEGIN
    FOREACH v_payload IN ARRAY ARRAY['1', '"n"', '[]', '[{"n": {"m": 1}}]', '{"n": [{"m": 1}], "t": 1}', '{"n": {"m": {"m": 1}}, "t": 1}',
                                     '{"n": {"m": [1]}, "t": 1}', '{"n": {"m": true}, "t": 1}', '{"n.m": 1, "t": 1}', '{"N": {"m": 1}, "t": 1}']::jsonb[] LOOP
        BEGIN
            PERFORM alvyn.append('sum-1', 1, 'A', v_payload);
            RAISE NOTICE 'taken: %', v_payload;
        EXCEPTION WHEN invalid_parameter_value THEN
            v_refused := v_refused + 1;
        END;
    END LOOP;
    RAISE NOTICE '% refused', v_refused;
END
$$;
-- A conflict comes first.
\set VERBOSITY sqlstate
SELECT alvyn.append('sum-1', 5, 'C', '{}');
\set VERBOSITY default
SELECT stream_id, version FROM alvyn.list_streams();
SELECT last_value FROM alvyn.events_position_seq;
SELECT stored_events, ok FROM alvyn.verify();
-- Streams that no rule covers take everything.
SELECT (alvyn.append('sumer-1', 0, 'C', '{}')).version, (alvyn.append('Sum-1', 0, 'C', '{}')).version, (alvyn.append('sum', 0, 'C', '{}')).version;

-- A state that the rules cannot go on with fails the append that makes the
-- snapshot due, with where it is stuck; the events before it stay.
SELECT alvyn.create_snapshot('Mixed', 'mixed', 3, '{}', rules => '{"A": {"f": {"copy": "x"}}, "B": {"f": {"increment": 1}}}');
SELECT (alvyn.append_batch('mixed-1', 0, ARRAY['A', 'B'], ARRAY['{"x": "text"}', '{}']::jsonb[])).version;
SELECT alvyn.append('mixed-1', 2, 'B', '{}');
SELECT alvyn.state('mixed-1', 'Mixed');
SELECT state FROM alvyn.state('mixed-1', 'Mixed', 1);
SELECT alvyn.alter_snapshot('Mixed', rules => '{"A": {"f": {"copy": "x"}}, "B": {"g": {"increment": 1}}}');
SELECT (alvyn.append('mixed-1', 2, 'B', '{}')).version;
SELECT state FROM alvyn.state('mixed-1', 'Mixed');

-- A number that grows beyond all bounds.
SELECT alvyn.create_snapshot('Huge', 'huge', 2, '{}', rules => '{"A": {"f": {"add": "n"}}}');
\set VERBOSITY sqlstate
SELECT (alvyn.append_batch('huge-1', 0, ARRAY['A', 'A'], ARRAY[jsonb_build_object('n', ('9e' || 131071)::numeric), jsonb_build_object('n', ('9e' || 131071)::numeric)])).version;
SELECT alvyn.stream_version('huge-1');
DROP FUNCTION refusal;
