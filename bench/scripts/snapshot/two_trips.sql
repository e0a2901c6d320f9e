-- A deposit as a client makes it: load the state, decide, append.
\set stream random(0, 1000000)
SELECT (s).version, (s).state ->> 'status' AS status
  FROM (SELECT alvyn.state(alvyn_bench.benchmark_stream('command', :stream, :accounts), 'LoadTestAccountBalance') AS s OFFSET 0) AS a \gset
SELECT alvyn.append(alvyn_bench.benchmark_stream('command', :stream, :accounts), :version::bigint, 'MoneyDeposited', '{"amount": 5, "operationToken": "http:42:123456"}');
