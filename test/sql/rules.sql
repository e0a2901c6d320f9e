-- Rules: what each operation does to a field, that is there or not.
--
-- The state is the same whether it is folded in one go or from a snapshot
-- after every event, so each case is run in both ways.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)
\pset format unaligned
\pset tuples_only on

-- The state after events [[type, data], ...], once from the first event on,
-- once from the snapshot before the last; both when they differ.
CREATE SEQUENCE case_no;
CREATE FUNCTION fold(initial jsonb, rules jsonb, VARIADIC events jsonb[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_no bigint := nextval('case_no');
    v_event jsonb;
    v_one jsonb;
    v_each jsonb;
BEGIN
    PERFORM alvyn.create_snapshot('One' || v_no, 'one' || v_no, 1000, initial, rules => fold.rules);
    PERFORM alvyn.create_snapshot('Each' || v_no, 'each' || v_no, 1, initial, rules => fold.rules);
    FOREACH v_event IN ARRAY events LOOP
        PERFORM alvyn.append('one' || v_no || '-1', NULL, v_event ->> 0, v_event -> 1);
        PERFORM alvyn.append('each' || v_no || '-1', NULL, v_event ->> 0, v_event -> 1);
    END LOOP;
    SELECT s.state INTO v_one FROM alvyn.state('one' || v_no || '-1', 'One' || v_no) s;
    SELECT s.state INTO v_each FROM alvyn.state('each' || v_no || '-1', 'Each' || v_no) s WHERE s.replayed_events = 0;
    RETURN CASE WHEN v_one::text = v_each::text THEN v_one
                ELSE jsonb_build_object('one', v_one, 'each', v_each) END;
END
$$;

-- set: a constant of any kind.
SELECT fold('{}', '{"A": {"f": {"set": "open"}}}', '["A", {}]');
SELECT fold('{"f": 1, "g": 2}', '{"A": {"f": {"set": null}}}', '["A", {}]');
SELECT fold('{}', '{"A": {"f": {"set": {"a": [1, {"b": null}]}}, "g": {"set": false}, "h": {"set": 1.50}}}', '["A", 1]');
SELECT fold('{}', '{"A": {"f": {"set": [1]}}, "B": {"f": {"set": []}}}', '["A", {}]', '["B", {}]');

-- copy: whatever the payload has there.
SELECT fold('{}', '{"A": {"f": {"copy": "x"}}}', '["A", {"x": "one"}]', '["A", {"x": "two"}]');
SELECT fold('{}', '{"A": {"f": {"copy": "x.y.z"}}}', '["A", {"x": {"y": {"z": [1, 2]}}}]');
SELECT fold('{"f": 1}', '{"A": {"f": {"copy": "x"}}}', '["A", {"x": null}]');
SELECT fold('{}', '{"A": {"f": {"copy": "x"}}}', '["A", {"x": {"a": 1}}]', '["A", {"x": true}]', '["A", {"x": 1.10}]');

-- add and subtract: numeric, so no digit is lost; absent and null count as 0.
SELECT fold('{"f": 0}', '{"A": {"f": {"add": "n"}}}', '["A", {"n": 1.10}]', '["A", {"n": 2.2}]');
SELECT fold('{}', '{"A": {"f": {"add": "n"}}}', '["A", {"n": 0.1}]', '["A", {"n": 0.2}]');
SELECT fold('{"f": null}', '{"A": {"f": {"add": "n"}}}', '["A", {"n": 12345678901234567890.123456789}]', '["A", {"n": 1e-20}]');
SELECT fold('{"f": 10}', '{"A": {"f": {"subtract": "n"}}}', '["A", {"n": 0.50}]', '["A", {"n": 11}]');
SELECT fold('{}', '{"A": {"f": {"subtract": "n.m"}}}', '["A", {"n": {"m": 7}}]');

-- increment: by a constant.
SELECT fold('{}', '{"A": {"f": {"increment": 1}}, "B": {"f": {"increment": -0.5}}}', '["A", {}]', '["A", null]', '["B", []]');

-- min and max: the first number counts when there was none.
SELECT fold('{}', '{"A": {"lo": {"min": "n"}, "hi": {"max": "n"}}}', '["A", {"n": 5}]', '["A", {"n": -2.50}]', '["A", {"n": 5.0}]', '["A", {"n": 9}]', '["A", {"n": 3}]');
SELECT fold('{"lo": null, "hi": 100}', '{"A": {"lo": {"min": "n"}, "hi": {"max": "n"}}}', '["A", {"n": 5}]', '["A", {"n": 6}]');

-- Sums of small integers, of large ones, and of decimals are exact and keep
-- their digits, in whatever order they come and however large they get.
SELECT fold('{"f": 0.00}', '{"A": {"f": {"add": "n"}}, "S": {"f": {"subtract": "n"}}}',
            '["A", {"n": 2147483647}]', '["A", {"n": 2147483648}]', '["A", {"n": 1.5}]', '["S", {"n": 2147483648}]', '["S", {"n": -1}]', '["A", {"n": 1e3}]');
SELECT fold('{"f": 9223372036854775807}', '{"A": {"f": {"add": "n"}}, "M": {"f": {"max": "n"}}, "B": {"g": {"increment": 1}, "f": {"increment": 0.10}}}',
            '["A", {"n": 1}]', '["M", {"n": 7}]', '["A", {"n": 100000000000000000000000000000}]', '["A", {"n": -3}]', '["B", {}]', '["B", {}]');
SELECT fold('{"f": null}', '{"A": {"f": {"add": "n"}}, "S": {"f": {"subtract": "n"}}, "R": {"f": {"remove": true}}, "L": {"f": {"min": "n"}}}',
            '["S", {"n": 4}]', '["L", {"n": -9}]', '["A", {"n": 0}]', '["R", {}]', '["A", {"n": 0}]', '["L", {"n": 3}]');
SELECT fold('{}', '{"A": {"f": {"add": "n"}}, "T": {"f": {"append": "n"}}}', '["A", {"n": 1}]', '["T", {"n": 2}]');
-- The order of keys and what no rule names stay as jsonb has them.
SELECT fold('{"zz": 1, "b": {"x": [1, {"y": null}]}, "a": true}', '{"A": {"b2": {"add": "n"}, "zz": {"remove": true}, "a": {"copy": "n"}}}', '["A", {"n": 1}]');

-- append: to what is there, or to nothing; with only the last ones kept.
SELECT fold('{}', '{"A": {"f": {"append": "x"}}}', '["A", {"x": 1}]', '["A", {"x": {"a": [1]}}]', '["A", {"x": null}]', '["A", {"x": [2, 3]}]');
SELECT fold('{"f": [0, {}]}', '{"A": {"f": {"append": "x", "keep": 3}}}', '["A", {"x": 1}]', '["A", {"x": 2}]', '["A", {"x": 3}]');
SELECT fold('{"f": [0, 0, 0, 0]}', '{"A": {"f": {"append": "x", "keep": 1}}}', '["A", {"x": 1}]', '["A", {"x": 2}]');
SELECT fold('{"f": "text"}', '{"A": {"f": {"append": "x"}}}', '["A", {"x": 1}]');
-- Also to an array that came by another operation.
SELECT fold('{}', '{"S": {"f": {"set": [1, 2]}}, "C": {"f": {"copy": "x"}}, "A": {"f": {"append": "x", "keep": 3}}}', '["S", {}]', '["A", {"x": 3}]');
SELECT fold('{}', '{"S": {"f": {"set": [1, 2]}}, "C": {"f": {"copy": "x"}}, "A": {"f": {"append": "x", "keep": 3}}}', '["A", {"x": 0}]', '["C", {"x": [[7], 8]}]', '["A", {"x": 9}]', '["A", {"x": 10}]');

-- remove: the field is gone, and can come back.
SELECT fold('{"f": 1, "g": 2}', '{"A": {"f": {"remove": true}}}', '["A", {}]');
SELECT fold('{"g": 2}', '{"A": {"f": {"remove": true}}, "B": {"f": {"increment": 5}}}', '["A", {}]', '["B", {}]', '["B", {}]', '["A", {}]', '["B", {}]');

-- time: of the event, in UTC whatever the session's zone is.
SET timezone = 'Asia/Kolkata';
SELECT alvyn.create_snapshot('Time', 'time', 2, '{"first": null}', rules => '{"A": {"last": {"time": true}}, "B": {"first": {"time": true}}}');
SELECT (alvyn.append('time-1', 0, 'B', '{}', "time" => '2024-02-29 23:59:59.123456+05:30')).version;
SELECT state FROM alvyn.state('time-1', 'Time');
SET timezone = 'America/New_York';
SELECT (alvyn.append('time-1', 1, 'A', '{}', "time" => '0001-01-01 00:00:00+00')).version;
SELECT state FROM alvyn.state('time-1', 'Time');
RESET timezone;

-- Dotted fields: what they lie in is created, and may hold other things.
SELECT fold('{}', '{"A": {"a.b.c": {"add": "n"}, "a.d": {"set": 1}}}', '["A", {"n": 2}]', '["A", {"n": 3}]');
SELECT fold('{"a": {"x": 1}, "b": null}', '{"A": {"a.b": {"increment": 1}, "b.c": {"append": "n"}}}', '["A", {"n": 2}]');
SELECT fold('{"a": {"b": 1, "c": 2}}', '{"A": {"a.b": {"remove": true}}, "B": {"z.b": {"remove": true}}}', '["A", {}]', '["B", {}]');

-- Several fields at once; types without a rule leave the state alone; a type
-- with no field only counts.
SELECT fold('{"status": "new", "balance": 0, "count": 0, "last": []}',
            '{"Opened": {"status": {"set": "open"}},
              "Deposited": {"balance": {"add": "amount"}, "count": {"increment": 1}, "largest": {"max": "amount"}, "last": {"append": "amount", "keep": 2}},
              "Withdrawn": {"balance": {"subtract": "amount"}, "last": {"append": "amount", "keep": 2}},
              "Closed": {"status": {"set": "closed"}, "last": {"remove": true}}}',
            '["Opened", {"by": "me"}]', '["Deposited", {"amount": 10.50}]', '["Looked", {}]', '["Deposited", {"amount": 4.50}]', '["Withdrawn", {"amount": 1}]', '["opened", {}]', '["Closed", {}]');
SELECT alvyn.create_snapshot('Counting', 'counting', 2, '{}', rules => '{"A": {}}');
SELECT (alvyn.append_batch('counting-1', 0, ARRAY['A', 'X', 'A'], ARRAY['{}', '{}', '{}']::jsonb[])).version;
SELECT type, snapshot, data FROM alvyn.load('counting-1');

-- Names of all kinds, in the payload and in the state.
SELECT fold('{}', '{"Geändert": {"größe": {"copy": "größe"}, "''\"": {"set": "x''\"y"}, "a b.c": {"increment": 1}}}', '["Geändert", {"größe": "µ"}]');

-- A rule set for all operations, and many values: the payload's other parts
-- are not looked at, and large ones are read from their own table.
SELECT length(fold('{}', '{"A": {"f": {"copy": "x"}, "n": {"add": "n"}}}',
                   jsonb_build_array('A', jsonb_build_object('x', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 5000) i), 'n', 1)),
                   jsonb_build_array('A', jsonb_build_object('x', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 6000) i), 'n', 1.5))) ->> 'f');

-- The wrong kind.  State fields come from other events: they are found wrong
-- when the state is computed.
\set VERBOSITY terse
SELECT fold('{"f": "text"}', '{"A": {"f": {"add": "n"}}}', '["A", {"n": 1}]');
SELECT fold('{"f": [1]}', '{"A": {"f": {"max": "n"}}}', '["A", {"n": 1}]');
SELECT fold('{"f": false}', '{"A": {"f": {"increment": 1}}}', '["A", {"n": 1}]');
SELECT fold('{"a": 5}', '{"A": {"a.b": {"increment": 1}}}', '["A", {}]');
SELECT fold('{"a": [{}]}', '{"A": {"a.0.b": {"increment": 1}}}', '["A", {}]');

DROP FUNCTION fold;
DROP SEQUENCE case_no;
