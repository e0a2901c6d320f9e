-- One deposit of the plan: load the account and replay it, append with the
-- loaded version, check the result.  A version conflict makes pgbench repeat
-- the whole script, so that the repetition loads again and has the same
-- token.  How a client finds its operation is explained in read.sql.
\set ticket random(1, 9000000000000000)
\if :ticket <> :last_ticket
\set k :k + 1
\set last_ticket :ticket
\endif
\set n :k * :clients + :client_id
\if :n < :operations
SELECT alvyn_bench.stream_prefix() || o.account AS stream_id,
       a.version,
       o.amount,
       concat_ws(':', 'http', :seed::text, o.i) AS token
  FROM alvyn_bench.operation o
 CROSS JOIN LATERAL alvyn_bench.account_state(alvyn_bench.stream_prefix() || o.account) a
 WHERE o.process = :process AND o.n = :n \gset
SELECT (r).stream_id AS answer_stream,
       (r).first_version,
       (r).last_version,
       coalesce((r).stream_id = :stream_id
                AND (r).first_version = :version::bigint + 1
                AND (r).last_version = (r).first_version
                AND (r).last_position = (r).first_position
                AND (r).version >= (r).last_version
                AND NOT (r).duplicate
                AND NOT (r).conflict, false) AS ok
  FROM (SELECT alvyn.append(:stream_id, :version::bigint, 'MoneyDeposited',
                            jsonb_build_object('amount', :amount::int, 'operationToken', :token::text),
                            jsonb_build_object('correlationid', :token::text)) AS r OFFSET 0) AS call \gset
\if :ok
\else
INSERT INTO alvyn_bench.wrong_answer VALUES (:process, :n, concat_ws(' ', :answer_stream::text, :first_version::text, :last_version::text));
\endif
\endif
