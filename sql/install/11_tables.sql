-- The log.  C code writes these tables by column number and finds their
-- indexes by name: src/stream.h, src/event.h and src/idempotency.c.

CREATE SEQUENCE alvyn.streams_stream_no_seq AS bigint;
COMMENT ON SEQUENCE alvyn.streams_stream_no_seq IS
    'Numbers of streams';

CREATE TABLE alvyn.streams (
    stream_no bigint NOT NULL DEFAULT pg_catalog.nextval('alvyn.streams_stream_no_seq'),
    version_floor bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    slot smallint NOT NULL,
    state "char" NOT NULL DEFAULT 'a',
    stream_id text COLLATE "C" NOT NULL,
    snapshots bigint[],
    CONSTRAINT streams_pkey PRIMARY KEY (stream_no),
    CONSTRAINT streams_stream_id_key UNIQUE (stream_id)
);
COMMENT ON TABLE alvyn.streams IS
    'The streams; an append locks the row of its stream and does not change it';
COMMENT ON COLUMN alvyn.streams.slot IS
    'stream_slot(stream_id)';
COMMENT ON COLUMN alvyn.streams.state IS
    'a = active, z = archived, t = tombstoned';
COMMENT ON COLUMN alvyn.streams.version_floor IS
    'Versions up to here were removed';
COMMENT ON COLUMN alvyn.streams.snapshots IS
    'For each snapshot: its number, schema version, version of the newest, version counted up to, handled events since';

CREATE SEQUENCE alvyn.events_position_seq AS bigint CACHE 1;
COMMENT ON SEQUENCE alvyn.events_position_seq IS
    'Positions of events; its lock tells the feed which positions are pending';

-- Columns of fixed width stand first, so that none is padded.
CREATE TABLE alvyn.events (
    position bigint NOT NULL DEFAULT pg_catalog.nextval('alvyn.events_position_seq'),
    stream_no bigint NOT NULL,
    version bigint NOT NULL,
    "time" timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    schema_version int NOT NULL DEFAULT 1,
    slot smallint NOT NULL,
    snapshot boolean NOT NULL DEFAULT false,
    type text COLLATE "C" NOT NULL,
    data jsonb NOT NULL,
    metadata jsonb,
    id text COLLATE "C",
    CONSTRAINT events_pkey PRIMARY KEY (position) INCLUDE (stream_no),
    CONSTRAINT events_stream_version_key UNIQUE (stream_no, version)
);
COMMENT ON TABLE alvyn.events IS
    'The log: one row an event';
COMMENT ON COLUMN alvyn.events.slot IS
    'Slot of the stream, here so that logical replication can filter on it';
COMMENT ON COLUMN alvyn.events.snapshot IS
    'Was the event generated as a snapshot?';
COMMENT ON COLUMN alvyn.events.id IS
    'Id that the caller gave; null stands for stream_id/version';

CREATE TABLE alvyn.idempotency_keys (
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    result bigint[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CONSTRAINT idempotency_key PRIMARY KEY (key)
);
CREATE INDEX idempotency_keys_created_at_idx ON alvyn.idempotency_keys (created_at);
COMMENT ON TABLE alvyn.idempotency_keys IS
    'Keys of appends and their results, so that a repeated call returns the first one';
COMMENT ON COLUMN alvyn.idempotency_keys.fingerprint IS
    'SHA-256 of the streams and events of the call';
COMMENT ON COLUMN alvyn.idempotency_keys.result IS
    'For each stream: first and last version, first and last position, head';

SELECT pg_catalog.pg_extension_config_dump('alvyn.streams_stream_no_seq', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.streams', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.events_position_seq', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.events', '');
SELECT pg_catalog.pg_extension_config_dump('alvyn.idempotency_keys', '');
