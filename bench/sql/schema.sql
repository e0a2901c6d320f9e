--
-- schema.sql
--    Where a run keeps its options, its plan, its log and its findings.
--
-- Everything lives in the schema alvyn_bench of the run's own database, so
-- that the analysis is SQL and the report is built by the server.  Tables
-- are ordinary ones: they outlive a crash of the server under test.
--

CREATE SCHEMA alvyn_bench;

-- What the run was told: one row per option, defaults included.
CREATE TABLE alvyn_bench.setting (
    name text PRIMARY KEY,
    value text
);

-- Where it ran; the driver adds what only the client's machine knows.
CREATE TABLE alvyn_bench.environment (
    name text PRIMARY KEY,
    value text
);

-- How long each step of the run took.
CREATE TABLE alvyn_bench.step (
    number smallint PRIMARY KEY,
    name text NOT NULL,
    duration_ms numeric NOT NULL
);

-- The phases of the traffic.  The duration is after the time scale, and null
-- where operations are not due at a time but follow one another.  A run may
-- end before its last phases; these are skipped.
CREATE TABLE alvyn_bench.phase (
    phase smallint PRIMARY KEY,
    name text NOT NULL UNIQUE,
    request_offset integer NOT NULL,
    request_count integer NOT NULL,
    duration_seconds numeric,
    skipped boolean NOT NULL DEFAULT false
);

-- One pgbench process per phase and replica.  Its n-th operation is operation
-- first + n * replicas of the run, unless it took over from another process.
CREATE TABLE alvyn_bench.process (
    process smallint PRIMARY KEY,
    phase smallint NOT NULL REFERENCES alvyn_bench.phase,
    replica smallint NOT NULL,
    scripts text NOT NULL,
    first integer NOT NULL,
    operations integer NOT NULL,
    clients smallint NOT NULL,
    rate numeric,
    replaces smallint REFERENCES alvyn_bench.process
);

-- What pgbench's scripts have to know of the options.
CREATE TABLE alvyn_bench.variable (
    name text PRIMARY KEY,
    value text NOT NULL
);

-- The plan: the n-th operation of a process is operation i of the run.
CREATE TABLE alvyn_bench.operation (
    process smallint,
    n integer,
    i integer NOT NULL,
    class text NOT NULL,
    account integer NOT NULL,
    amount integer NOT NULL,
    PRIMARY KEY (process, n)
);

-- pgbench's transaction logs, and what it prints; the driver sets the process
-- before each COPY.
CREATE TABLE alvyn_bench.log (
    process smallint DEFAULT current_setting('alvyn_bench.process')::smallint,
    client_id integer,
    transaction_no bigint,
    outcome text,
    script_no integer,
    epoch bigint,
    epoch_us bigint,
    lag_us bigint,
    retries integer
);
CREATE TABLE alvyn_bench.output (
    process smallint DEFAULT current_setting('alvyn_bench.process')::smallint,
    line text
);

-- Answers that the scripts refused.
CREATE TABLE alvyn_bench.wrong_answer (
    process smallint,
    n integer,
    answer text
);

-- Operations that a process took over and that turned out to be done.
CREATE TABLE alvyn_bench.repeated (
    process smallint,
    n integer
);

-- How many events the loads of a client returned.
CREATE TABLE alvyn_bench.loaded (
    process smallint,
    client_id integer,
    events bigint
);

-- What became of each operation.
CREATE TABLE alvyn_bench.request (
    process smallint,
    n integer,
    i integer,
    phase smallint,
    class text,
    replica smallint,
    answered boolean,
    succeeded boolean,
    latency_us bigint,
    finished_us bigint,
    retries integer,
    conflicts integer
);

-- Counts and latency per phase and class; null stands for all of them.
-- Percentiles are p50, p95, p99 and p99.9.  The offered rate is the one at
-- which operations came to be due.
CREATE TABLE alvyn_bench.latency (
    phase smallint,
    class text,
    attempted bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    conflicts bigint NOT NULL,
    retries bigint NOT NULL,
    samples bigint NOT NULL,
    percentiles numeric[],
    slowest numeric,
    begin_us numeric,
    duration_ms numeric,
    offered_ms numeric
);

-- What the verification found, one row per kind of fault.
CREATE TABLE alvyn_bench.fault (
    fault text PRIMARY KEY,
    occurrences bigint NOT NULL,
    sample text
);

-- What the store adds up to, and what it should.
CREATE TABLE alvyn_bench.checked (
    line smallint PRIMARY KEY,
    name text NOT NULL,
    found numeric,
    expected numeric
);

-- Parts of the report that belong to one profile or one step.
CREATE TABLE alvyn_bench.part (
    name text PRIMARY KEY,
    value jsonb
);

CREATE FUNCTION alvyn_bench.setting(name text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT s.value FROM alvyn_bench.setting s WHERE s.name = setting.name);

CREATE FUNCTION alvyn_bench.setting_number(name text) RETURNS numeric
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN alvyn_bench.setting(name)::numeric;

CREATE FUNCTION alvyn_bench.setting_is_on(name text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN alvyn_bench.setting(name) IS NOT DISTINCT FROM 'true';

CREATE FUNCTION alvyn_bench.stream_prefix() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 'LoadTestAccount-account-'::text;

-- An account's state, by loading its whole stream and replaying it.  The
-- planner inlines it into the statement that calls it.
CREATE FUNCTION alvyn_bench.account_state(account_stream text)
    RETURNS TABLE (
        stream_id text,
        status text,
        version bigint,
        balance bigint,
        deposit_count bigint,
        deposit_total bigint
    )
    LANGUAGE sql STABLE PARALLEL SAFE
    BEGIN ATOMIC
        SELECT max(e.stream_id),
               CASE WHEN bool_or(e.type = 'AccountOpened') THEN 'open' END,
               max(e.version),
               sum(CASE e.type
                       WHEN 'AccountOpened' THEN (e.data ->> 'initialBalance')::bigint
                       WHEN 'MoneyDeposited' THEN (e.data ->> 'amount')::bigint
                   END)::bigint,
               count(*) FILTER (WHERE e.type = 'MoneyDeposited'),
               coalesce(sum((e.data ->> 'amount')::bigint)
                        FILTER (WHERE e.type = 'MoneyDeposited'), 0)::bigint
          FROM alvyn.load(account_stream) e;
    END;
