-- The newest snapshot of a stream and what follows it.
\set stream random(0, 1000000)
SELECT * FROM alvyn.load_latest(alvyn_bench.benchmark_stream('length-' || :first::int, :stream, (SELECT streams FROM alvyn_bench.length WHERE events = :first)), 'LoadTestAccountBalance');
