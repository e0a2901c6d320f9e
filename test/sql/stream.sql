-- The slot of a stream.
--
-- Consumer partitions, shards and replication filters are ranges of slots,
-- so the numbers below never change, on no version and on no machine: 64-bit
-- FNV-1a over the bytes of the id, folded to 16 bits, modulo 1024.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset null (null)

SELECT id, alvyn.stream_slot(id) AS slot
FROM unnest(ARRAY[
    '', 'a', 'b', 'foobar', 'account-1', 'account-2', 'account-10', 'Account-1',
    'order-00000000-0000-0000-0000-000000000000', 'é', E'e\u0301', '日本-1', E'\U0001F600',
    ' ', 'a ', 'a_b-1', 'a%b-1']) WITH ORDINALITY v (id, i)
ORDER BY i;
SELECT alvyn.stream_slot(repeat('x', 512)) AS longest, alvyn.stream_slot(NULL) AS none,
       pg_typeof(alvyn.stream_slot('a'));

-- The same computed in SQL, by the definition above.
CREATE FUNCTION fnv_slot(id text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_hash numeric := 14695981039346656037;
    v_byte int;
BEGIN
    FOR i IN 0 .. octet_length(convert_to(id, 'UTF8')) - 1 LOOP
        v_byte := get_byte(convert_to(id, 'UTF8'), i);
        v_hash := v_hash - v_hash % 256 + ((v_hash % 256)::int # v_byte);
        v_hash := v_hash * 1099511628211 % 18446744073709551616;
    END LOOP;
    RETURN ((v_hash % 65536)::int # (div(v_hash, 65536) % 65536)::int
            # (div(v_hash, 4294967296) % 65536)::int # div(v_hash, 281474976710656)::int) % 1024;
END
$$;
SELECT count(*) FILTER (WHERE fnv_slot(id) = alvyn.stream_slot(id)) AS agree, count(*)
FROM (SELECT 'account-' || i * i AS id FROM generate_series(1, 300) i) s;

-- Ids of every common form are spread evenly: of 102,400 ids, 100 a slot.
SELECT form, count(*) AS slots, min(n) > 50 AS none_empty, max(n) < 160 AS none_crowded,
       sum((n - 100.0) ^ 2 / 100) BETWEEN 850 AND 1200 AS chi_square
FROM (SELECT form, alvyn.stream_slot(id) AS slot, count(*) AS n
      FROM generate_series(1, 102400) i,
           LATERAL (VALUES ('number', 'account-' || i),
                           ('padded', 'account-' || lpad(i::text, 9, '0')),
                           ('uuid', 'account-' || md5(i::text)::uuid),
                           ('short', i::text)) f (form, id)
      GROUP BY form, slot) s
GROUP BY form
ORDER BY form;
-- Ranges of slots, as partitions use them, are even too.
SELECT p, n BETWEEN 12300 AND 13300 AS even
FROM (SELECT alvyn.stream_slot('account-' || i) / 128 AS p, count(*) AS n
      FROM generate_series(1, 102400) i GROUP BY p) s
ORDER BY p;

-- The registry and the log carry the slot.
SELECT count(*) FROM alvyn.append_streams(ARRAY['account-1', 'account-2', 'account-1'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[]);
SELECT s.stream_id, s.slot, array_agg(e.slot ORDER BY version) AS events
FROM alvyn.streams s JOIN alvyn.events e USING (stream_no)
GROUP BY s.stream_no ORDER BY s.stream_id;

-- An index or a generated column can be built on it.
CREATE TABLE slots (id text, slot smallint GENERATED ALWAYS AS (alvyn.stream_slot(id)) STORED);
CREATE INDEX slots_idx ON slots (alvyn.stream_slot(id));
INSERT INTO slots VALUES ('account-1') RETURNING slot;
DROP TABLE slots;

-- The version of a stream: of the statement's snapshot, 0 when there is none.
SELECT alvyn.stream_version('account-1'), alvyn.stream_version('account-3');
SELECT (alvyn.append('account-1', 2, 'D', '4')).version AS appended, alvyn.stream_version('account-1') AS as_of_the_statement;
SELECT alvyn.stream_version('account-1');
DROP FUNCTION fnv_slot;
