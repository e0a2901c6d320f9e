-- One read of the plan: load the account's stream, replay it, check the state.
--
-- A client takes the operations client_id, client_id + clients, ... of its
-- process.  It steps on when the ticket changes: pgbench repeats a script
-- after a serialization failure with the same random numbers, but leaves
-- variables as they were, so the ticket tells a repetition from a new start.
-- The last round may reach past the last operation; then nothing is done.
\set ticket random(1, 9000000000000000)
\if :ticket <> :last_ticket
\set k :k + 1
\set last_ticket :ticket
\endif
\set n :k * :clients + :client_id
\if :n < :operations
SELECT a.stream_id,
       a.status,
       a.version,
       a.balance,
       a.deposit_count,
       a.deposit_total,
       coalesce(a.stream_id = alvyn_bench.stream_prefix() || o.account
                AND a.status = 'open'
                AND a.version >= :history
                AND a.version > a.deposit_count
                AND a.deposit_count >= :history - 1
                AND a.balance = a.deposit_total, false) AS ok
  FROM alvyn_bench.operation o
 CROSS JOIN LATERAL alvyn_bench.account_state(alvyn_bench.stream_prefix() || o.account) a
 WHERE o.process = :process AND o.n = :n \gset
\if :ok
\else
INSERT INTO alvyn_bench.wrong_answer VALUES (:process, :n, concat_ws(' ', :stream_id::text, :status::text, :version::text, :balance::text, :deposit_count::text, :deposit_total::text));
\endif
\endif
