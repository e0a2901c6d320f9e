-- The same deposit, decided on the server.
\set stream random(0, 1000000)
SELECT alvyn.execute(alvyn_bench.benchmark_stream('command', :stream, :accounts), '{"amount": 5, "operationToken": "http:42:123456"}');
