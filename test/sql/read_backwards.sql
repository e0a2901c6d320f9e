-- The feed backwards is the feed in reverse, whatever the filter.  position_at
-- is exact although times do not rise with positions.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT count(alvyn.append((ARRAY['order-', 'order', 'invoice-', 'orders-'])[1 + n % 4] || n % 7, NULL, 'T' || n % 3, to_jsonb(n),
                          "time" => '2020-01-01 UTC'::timestamptz + make_interval(hours => n * 37 % 100)))
FROM generate_series(1, 200) n;
BEGIN;
SELECT count(alvyn.append('order-1', NULL, 'T', '1')) FROM generate_series(1, 3);
ROLLBACK;
SELECT (alvyn.append('order-1', NULL, 'T1', '1', "time" => '2020-01-01 UTC')).first_position;

SELECT position, stream_id, version, id, type FROM alvyn.read_backwards(max_count => 3);
SELECT position FROM alvyn.read_backwards(101, 2);
SELECT count(*) FROM alvyn.read_backwards(1);
SELECT max(position) FROM alvyn.read_backwards(9223372036854775807, 1);

-- Each filter gives what read gives, in reverse; and so does a walk by pages.
CREATE FUNCTION walk(category text, prefix text, types text[], page int) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_all bigint[] := '{}';
    v_page bigint[];
BEGIN
    LOOP
        v_page := ARRAY(SELECT position FROM alvyn.read_backwards(v_all[cardinality(v_all)], page, category, prefix, types));
        EXIT WHEN v_page = '{}';
        v_all := v_all || v_page;
    END LOOP;
    RETURN v_all;
END
$$;
SELECT category, prefix, types, cardinality(w.walk) AS events,
       w.walk = ARRAY(SELECT position FROM alvyn.read(0, NULL, category, prefix, types) ORDER BY position DESC) AS same
FROM (VALUES (NULL, NULL, NULL::text[]), ('order', NULL, NULL), (NULL, 'order', NULL), (NULL, 'order-1', '{T1}'), ('invoice', 'in', '{T0,T2}'),
             ('order-', NULL, NULL), (NULL, NULL, '{none}')) v (category, prefix, types), LATERAL walk(category, prefix, types, 7) w (walk);

-- Snapshots only when they are asked for.
SELECT alvyn.create_snapshot('n', 'account', 2, '{"n": 0}', rules => '{"T": {"n": {"increment": 1}}}');
SELECT count(alvyn.append('account-1', NULL, 'T', '1')) FROM generate_series(1, 2);
SELECT type FROM alvyn.read_backwards(max_count => 2);
SELECT type FROM alvyn.read_backwards(max_count => 2, snapshots => true);

-- The last position before all events of a time: by definition.
SELECT count(*), bool_and(alvyn.position_at(t) = coalesce((SELECT min(position) - 1 FROM alvyn.events WHERE "time" >= t), alvyn.resolved_position())) AS exact
FROM (SELECT '2020-01-01 UTC'::timestamptz + make_interval(mins => n * 53) AS t FROM generate_series(-1, 120) n) v;
SELECT alvyn.position_at('-infinity') AS beginning, alvyn.position_at('infinity') = alvyn.resolved_position() AS at_the_end;
