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

-- The phases of the traffic.  duration_seconds is after the time scale.
CREATE TABLE alvyn_bench.phase (
    phase smallint PRIMARY KEY,
    name text NOT NULL UNIQUE,
    request_offset integer NOT NULL,
    request_count integer NOT NULL,
    duration_seconds numeric NOT NULL
);

-- One pgbench process per phase, class and replica.
CREATE TABLE alvyn_bench.process (
    process smallint PRIMARY KEY,
    phase smallint NOT NULL REFERENCES alvyn_bench.phase,
    class text NOT NULL,
    replica smallint NOT NULL,
    operations integer NOT NULL,
    clients smallint NOT NULL,
    rate numeric NOT NULL
);

-- The plan: the n-th operation of a process is operation i of the run.
CREATE TABLE alvyn_bench.operation (
    process smallint,
    n integer,
    i integer NOT NULL,
    account integer NOT NULL,
    amount integer NOT NULL,
    PRIMARY KEY (process, n)
);

-- pgbench's transaction log; the driver sets the process before each COPY.
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

-- Answers that the scripts refused.
CREATE TABLE alvyn_bench.wrong_answer (
    process smallint,
    n integer,
    answer text
);

-- What the verification found, one row per kind of fault.
CREATE TABLE alvyn_bench.fault (
    fault text PRIMARY KEY,
    occurrences bigint NOT NULL,
    sample text
);

-- Counts and latency per phase and class; null stands for all of them.
-- Percentiles are p50, p95, p99 and p99.9.
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
    duration_ms numeric
);

-- What the store adds up to, and what it should; one row.
CREATE TABLE alvyn_bench.total (
    accounts bigint NOT NULL,
    stored_events bigint NOT NULL,
    snapshot_events bigint NOT NULL,
    seeded_events bigint NOT NULL,
    balance numeric NOT NULL,
    deposits bigint NOT NULL,
    expected_events bigint NOT NULL,
    expected_balance numeric NOT NULL,
    expected_snapshots bigint NOT NULL
);

CREATE FUNCTION alvyn_bench.setting(name text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT s.value FROM alvyn_bench.setting s WHERE s.name = setting.name);

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
