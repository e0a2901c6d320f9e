-- The state of a stream, computed on the server.
\set stream random(0, 1000000)
SELECT * FROM alvyn.state(alvyn_bench.benchmark_stream('length-' || :first::int, :stream, (SELECT streams FROM alvyn_bench.length WHERE events = :first)), 'LoadTestAccountBalance');
