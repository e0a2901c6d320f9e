-- All events of a stream, for a client that replays them.
\set stream random(0, 1000000)
SELECT * FROM alvyn.load(alvyn_bench.benchmark_stream('length-' || :first::int, :stream, (SELECT streams FROM alvyn_bench.length WHERE events = :first)));
