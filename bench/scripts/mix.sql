-- One operation of the plan.  A read loads the account's state and checks it.
-- A deposit does that too and appends with the loaded version.
--
-- A client takes the operations client_id, client_id + clients, ... of its
-- process.  It steps on when the ticket changes: pgbench repeats a script
-- after a serialization failure with the same random numbers, but leaves
-- variables as they were, so the ticket tells a repetition from a new start.
-- A repetition waits a little, loads again and has the same token.
-- The last round may reach past the last operation; then nothing is done.
--
-- What operation i is, plan.sql says.  A process that replaces another has
-- operations in no regular order and looks them up.
\set ticket random(1, 9000000000000000)
\if :ticket <> :last_ticket
\set last_ticket :ticket
\set k :k + 1
\set try 0
\else
\set pause least(50, 5 * (1 << least(:try, 4))) + (:i * 17 + :try * 13) % 10
\set try :try + 1
\sleep :pause ms
\endif
\set n :k * :clients + :client_id
\if :n < :operations
\if :replacement
SELECT i FROM alvyn_bench.operation WHERE process = :process AND n = :n \gset
\else
\set i :first + :n * :replicas
\endif
\set v abs(:seed * 31 + :i * 17)
\set user (:i % :users + :seed) % :users
\set account case when :daily then :user when :v % 100 < :hot_percent then :v % :hot else :hot + :v % :cold end
\set amount 1 + :v % 10
\set reading (:i / :users + :user) % :per_user < :reads
SELECT a.stream_id,
       a.status,
       a.version,
       a.balance,
       a.deposit_count,
       a.deposit_total,
       concat_ws(':', 'http', :seed::int, :i::int) AS token,
       coalesce(a.stream_id = alvyn_bench.stream_prefix() || :account::int
                AND a.status = 'open'
                AND a.version >= :history
                AND a.version > a.deposit_count
                AND a.deposit_count >= :history - 1
                AND a.balance = a.deposit_total, false) AS ok
  FROM alvyn_bench.account_state(alvyn_bench.stream_prefix() || :account::int) AS a \gset
\if :ok
\else
INSERT INTO alvyn_bench.wrong_answer VALUES (:process, :n, concat_ws(' ', :stream_id::text, :status::text, :version::text, :balance::text, :deposit_count::text, :deposit_total::text));
\endif
\if not :reading
SELECT (r).stream_id AS answer_stream,
       (r).first_version,
       (r).last_version,
       (r).duplicate,
       coalesce((r).stream_id = :stream_id
                AND ((r).first_version = :version::bigint + 1 AND NOT (r).duplicate
                     OR (r).duplicate AND :replacement::boolean)
                AND (r).last_version = (r).first_version
                AND (r).last_position = (r).first_position
                AND (r).version >= (r).last_version
                AND NOT (r).conflict, false) AS ok
  FROM (SELECT alvyn.append(:stream_id, :version::bigint, 'MoneyDeposited',
                            jsonb_build_object('amount', :amount::int, 'operationToken', :token::text),
                            jsonb_build_object('correlationid', :token::text),
                            idempotency_key => CASE WHEN :keyed::boolean THEN :token::text END) AS r OFFSET 0) AS call \gset
\if :ok
\else
INSERT INTO alvyn_bench.wrong_answer VALUES (:process, :n, concat_ws(' ', :answer_stream::text, :first_version::text, :last_version::text));
\endif
\if :duplicate
INSERT INTO alvyn_bench.repeated VALUES (:process, :n);
\endif
\endif
\endif
