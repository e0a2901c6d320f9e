-- One append or load of the plan (sql/plan_direct.sql).  An append asks for
-- the version first and appends with it; after a conflict it asks again.  Of
-- a load the last row is kept, whose version says how many events came.
-- How a client finds its operation is explained in mix.sql.
\set ticket random(1, 9000000000000000)
\if :ticket <> :last_ticket
\set last_ticket :ticket
\set k :k + 1
\endif
\set n :k * :clients + :client_id
\if :n < :operations
\set v abs(:seed * 31 + :first * 17 + :n * 13)
\set stream case when :v % 100 < :hot_percent then :v % :hot else :hot + :v % :cold end
\if :v % 100 < :append_percent
SELECT alvyn.stream_version('load-test-stream-' || :stream::int) AS version \gset
SELECT (r).stream_id AS answer_stream,
       (r).first_version,
       (r).last_version,
       coalesce((r).stream_id = 'load-test-stream-' || :stream::int
                AND (r).first_version = :version::bigint + 1
                AND (r).last_version = :version::bigint + :batch
                AND (r).version = (r).last_version
                AND NOT (r).duplicate
                AND NOT (r).conflict, false) AS ok
  FROM (SELECT alvyn.append_batch('load-test-stream-' || :stream::int, :version::bigint,
                                  e.types, e.data, e.metadata) AS r
          FROM (SELECT array_agg('LoadTestEvent'::text) AS types,
                       array_agg(jsonb_build_object(
                           'phase', 'live', 'seed', :seed::bigint, 'workerId', :first::int,
                           'operationIndex', :n::int, 'eventIndex', n,
                           'token', concat_ws(':', 'live', :seed::bigint, :first::int, :n::int, n))
                           ORDER BY n) AS data,
                       array_agg('{"source": "alvyn-load-test"}'::jsonb) AS metadata
                  FROM generate_series(0, :batch::int - 1) AS n) AS e OFFSET 0) AS call \gset
\if :ok
\else
INSERT INTO alvyn_bench.wrong_answer VALUES (:process, :n, concat_ws(' ', :answer_stream::text, :first_version::text, :last_version::text));
\endif
\else
\set e_version 0
SELECT * FROM alvyn.load('load-test-stream-' || :stream::int) \aset e_
\set loaded :loaded + :e_version
\endif
\if :n + :clients >= :operations
INSERT INTO alvyn_bench.loaded VALUES (:process, :client_id, :loaded);
\endif
\endif
