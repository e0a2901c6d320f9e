-- What follows the snapshot, by a client that knows where that stands.
\set stream random(0, 1000000)
\set version :first - :tail + 2
SELECT * FROM alvyn.load(alvyn_bench.benchmark_stream('length-' || :first::int, :stream, (SELECT streams FROM alvyn_bench.length WHERE events = :first)), :version);
