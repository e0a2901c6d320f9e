-- Privileges.  Readers may look, writers may also append, the administrator
-- may also maintain.  Nobody is granted a privilege that writes a table:
-- events come in through the functions only.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA alvyn FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA alvyn FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA alvyn FROM PUBLIC;

GRANT USAGE ON SCHEMA alvyn TO alvyn_reader;
GRANT SELECT ON alvyn.streams, alvyn.events TO alvyn_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA alvyn TO alvyn_reader;

REVOKE EXECUTE ON FUNCTION
    alvyn.append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.try_append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.try_append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.try_append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.purge_idempotency_keys(int)
FROM alvyn_reader;
GRANT EXECUTE ON FUNCTION
    alvyn.append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.try_append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.try_append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.try_append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text)
TO alvyn_writer;

GRANT EXECUTE ON FUNCTION alvyn.purge_idempotency_keys(int) TO alvyn_admin;
