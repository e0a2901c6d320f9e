-- Types that functions take and return.

CREATE TYPE alvyn.event AS (
    position bigint,
    stream_id text COLLATE "C",
    version bigint,
    id text COLLATE "C",
    type text COLLATE "C",
    "time" timestamptz,
    data jsonb,
    metadata jsonb,
    schema_version int,
    snapshot boolean
);
COMMENT ON TYPE alvyn.event IS
    'An event as loads and reads return it';

CREATE TYPE alvyn.page_event AS (
    position bigint,
    stream_id text COLLATE "C",
    version bigint,
    id text COLLATE "C",
    type text COLLATE "C",
    "time" timestamptz,
    data jsonb,
    metadata jsonb,
    schema_version int,
    snapshot boolean,
    cursor text COLLATE "C"
);
COMMENT ON TYPE alvyn.page_event IS
    'An event of a page, with the cursor behind it';

CREATE TYPE alvyn.new_event AS (
    type text COLLATE "C",
    data jsonb,
    metadata jsonb,
    id text COLLATE "C",
    "time" timestamptz,
    schema_version int
);
COMMENT ON TYPE alvyn.new_event IS
    'An event that is still to be appended';

CREATE TYPE alvyn.append_result AS (
    stream_id text COLLATE "C",
    first_version bigint,
    last_version bigint,
    first_position bigint,
    last_position bigint,
    version bigint,
    duplicate boolean,
    conflict boolean
);
COMMENT ON TYPE alvyn.append_result IS
    'What an append did to a stream; version is the head of the stream after the call';

CREATE TYPE alvyn.version_report AS (
    count bigint,
    first bigint,
    last bigint,
    missing bigint,
    ok boolean
);
COMMENT ON TYPE alvyn.version_report IS
    'Result of the aggregate contiguous';

CREATE TYPE alvyn.verification AS (
    streams bigint,
    source_events bigint,
    stored_events bigint,
    snapshot_events bigint,
    first_position bigint,
    last_position bigint,
    broken_streams bigint,
    ok boolean
);
COMMENT ON TYPE alvyn.verification IS
    'Result of verify: what the events themselves add up to';

CREATE TYPE alvyn.problem AS (
    stream_no bigint,
    stream_id text COLLATE "C",
    problem text,
    version bigint,
    position bigint,
    detail text
);
COMMENT ON TYPE alvyn.problem IS
    'One fault that verify_streams found';
