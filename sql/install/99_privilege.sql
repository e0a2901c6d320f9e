-- Privileges.  Readers may look, writers may also append, the administrator
-- may also maintain.  Nobody is granted a privilege that writes a table:
-- events come in through the functions only.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA alvyn FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA alvyn FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA alvyn FROM PUBLIC;

GRANT USAGE ON SCHEMA alvyn TO alvyn_reader;
GRANT SELECT ON
    alvyn.streams,
    alvyn.events,
    alvyn.snapshots,
    alvyn.deciders,
    alvyn.consumer_definitions,
    alvyn.consumer_partitions,
    alvyn.consumers,
    alvyn.inbox_sources,
    alvyn.inbox_counts,
    alvyn.inbox_status,
    alvyn.governor_definitions,
    alvyn.governor_states,
    alvyn.governors,
    alvyn.snapshot_marks,
    alvyn.snapshot_status
TO alvyn_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA alvyn TO alvyn_reader;

REVOKE EXECUTE ON FUNCTION
    alvyn.append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.try_append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.try_append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.try_append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.execute(text, jsonb, bigint, text, int),
    alvyn.execute_streams(text[], jsonb[], text, int),
    alvyn.create_snapshot(text, text, int, jsonb, regprocedure, jsonb, int),
    alvyn.alter_snapshot(text, int, jsonb, regprocedure, jsonb, int),
    alvyn.drop_snapshot(text),
    alvyn.take_snapshot(text, text),
    alvyn.rebuild_snapshots(text, int),
    alvyn.create_decider(text, text, text, regprocedure),
    alvyn.drop_decider(text),
    alvyn.definition_changed(),
    alvyn.create_consumer(text, text, text, text[], text, int, text, boolean),
    alvyn.drop_consumer(text),
    alvyn.reset_consumer(text, text),
    alvyn.lock_partition(text, int, bigint),
    alvyn.lease_end(double precision),
    alvyn.consume(text, int, bigint, int),
    alvyn.consume(text, int),
    alvyn.checkpoint(text, int, bigint, bigint),
    alvyn.checkpoint(text, bigint),
    alvyn.lease(text, text, double precision),
    alvyn.renew(text, int, bigint, double precision),
    alvyn.release(text, int, bigint),
    alvyn.receive(text, text, text, text, jsonb, jsonb, text, timestamptz, int, bytea, text),
    alvyn.check_message(text, bigint, bytea, text),
    alvyn.count_message(text, int),
    alvyn.create_source(text, boolean, text, int, interval),
    alvyn.alter_source(text, boolean, text, int, interval),
    alvyn.drop_source(text),
    alvyn.add_secret(text, bytea, timestamptz, timestamptz),
    alvyn.expire_secret(text, bigint, timestamptz),
    alvyn.remove_secrets(text),
    alvyn.hmac_matches(bytea, bytea[], bytea),
    alvyn.check_governor(text, double precision, double precision),
    alvyn.create_governor(text, double precision, double precision),
    alvyn.alter_governor(text, double precision, double precision),
    alvyn.drop_governor(text),
    alvyn.acquire(text, double precision, interval),
    alvyn.take_tokens(text, int),
    alvyn.return_tokens(text, int),
    alvyn.stretch_tokens(text, double precision),
    alvyn.purge_idempotency_keys(int)
FROM alvyn_reader;
GRANT EXECUTE ON FUNCTION
    alvyn.append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.try_append(text, bigint, text, jsonb, jsonb, text, timestamptz, int, text),
    alvyn.try_append_batch(text, bigint, text[], jsonb[], jsonb[], text[], timestamptz[], int[], text),
    alvyn.try_append_streams(text[], text[], jsonb[], jsonb[], text[], bigint[], text),
    alvyn.execute(text, jsonb, bigint, text, int),
    alvyn.execute_streams(text[], jsonb[], text, int),
    alvyn.consume(text, int, bigint, int),
    alvyn.consume(text, int),
    alvyn.checkpoint(text, int, bigint, bigint),
    alvyn.checkpoint(text, bigint),
    alvyn.lease(text, text, double precision),
    alvyn.renew(text, int, bigint, double precision),
    alvyn.release(text, int, bigint),
    alvyn.receive(text, text, text, text, jsonb, jsonb, text, timestamptz, int, bytea, text),
    alvyn.check_message(text, bigint, bytea, text),
    alvyn.count_message(text, int),
    alvyn.acquire(text, double precision, interval)
TO alvyn_writer;

GRANT EXECUTE ON FUNCTION
    alvyn.create_snapshot(text, text, int, jsonb, regprocedure, jsonb, int),
    alvyn.alter_snapshot(text, int, jsonb, regprocedure, jsonb, int),
    alvyn.drop_snapshot(text),
    alvyn.take_snapshot(text, text),
    alvyn.rebuild_snapshots(text, int),
    alvyn.create_decider(text, text, text, regprocedure),
    alvyn.drop_decider(text),
    alvyn.create_consumer(text, text, text, text[], text, int, text, boolean),
    alvyn.drop_consumer(text),
    alvyn.reset_consumer(text, text),
    alvyn.create_source(text, boolean, text, int, interval),
    alvyn.alter_source(text, boolean, text, int, interval),
    alvyn.drop_source(text),
    alvyn.add_secret(text, bytea, timestamptz, timestamptz),
    alvyn.expire_secret(text, bigint, timestamptz),
    alvyn.remove_secrets(text),
    alvyn.create_governor(text, double precision, double precision),
    alvyn.alter_governor(text, double precision, double precision),
    alvyn.drop_governor(text),
    alvyn.purge_idempotency_keys(int)
TO alvyn_admin;

-- The only table that readers may not look into.
GRANT SELECT ON alvyn.inbox_secrets TO alvyn_admin;
