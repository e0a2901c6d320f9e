# A server that is stopped in the middle of maintain() loses nothing else.
#
# The floor of a stream is never below what is gone, verify() holds after every
# restart, and the next calls finish the work.  A dump carries what was
# removed and what is to be removed.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION alvyn;
	SELECT count(alvyn.append_batch('log-' || i, 0, array_fill('A'::text, ARRAY[200]), array_fill('1'::jsonb, ARRAY[200])))
	  FROM generate_series(1, 100) i;
	SELECT count(alvyn.append_batch('old-' || i, 0, array_fill('A'::text, ARRAY[2000]), array_fill('1'::jsonb, ARRAY[2000])))
	  FROM generate_series(1, 5) i;
	SELECT alvyn.set_retention('log-', NULL, 10);
	SELECT alvyn.tombstone_stream('old-' || i) FROM generate_series(1, 5) i;
});

# What must hold at any moment: a stream begins right behind its floor.
my $whole = q{
	SELECT (SELECT ok FROM alvyn.verify()), count(*) FILTER (WHERE first <> version_floor + 1), count(*)
	  FROM (SELECT s.version_floor, min(e.version) AS first
	          FROM alvyn.streams s JOIN alvyn.events e USING (stream_no)
	         GROUP BY s.stream_no) AS stream};
my $left = 'SELECT count(*) FROM alvyn.events';

my $calls = $node->basedir . '/calls.sql';
append_to_file($calls, "SELECT count(*) FROM alvyn.maintain(100);\n" x 2000);
my $stopped = 0;
my $before = $node->safe_psql('postgres', $left);
for my $round (1 .. 4)
{
	my $out = '';
	my $at = $before - 5000 * $round;

	my $worker = IPC::Run::start(
		[ 'psql', '-XAtq', '-f', $calls, $node->connstr('postgres') ],
		'>&', \$out);
	$node->poll_query_until('postgres', "SELECT count(*) < $at FROM alvyn.events")
	  or die 'maintain() removes nothing';
	$node->stop('immediate');
	eval { IPC::Run::finish($worker) };
	$node->start;
	my $now = $node->safe_psql('postgres', $left);
	$stopped++ if $now > 1000;
	like($node->safe_psql('postgres', $whole), qr/^t\|0\|/, "round $round: the store is whole");
}
cmp_ok($stopped, '>', 0, 'the server was stopped in the middle of the work');

$node->safe_psql('postgres', 'SELECT alvyn.maintain(1000)') for 1 .. 40;
is($node->safe_psql('postgres', 'SELECT count(*) FROM alvyn.maintain() WHERE more'), 0, 'the next calls finish');
is($node->safe_psql('postgres', $left), 1000, 'what is to be kept is there');
is($node->safe_psql('postgres', $whole), 't|0|100', 'and the store is whole');
is($node->safe_psql('postgres', "SELECT alvyn.stream_version('log-1'), (SELECT version_floor FROM alvyn.streams WHERE stream_id = 'old-1')"),
	'200|2000', 'versions do not restart');

# A dump in the middle of other work.
$node->safe_psql('postgres', q{
	SELECT alvyn.create_consumer('late');
	SELECT count(alvyn.append_batch('old-' || i, 0, array_fill('A'::text, ARRAY[50]), array_fill('1'::jsonb, ARRAY[50])))
	  FROM generate_series(6, 7) i;
	SELECT alvyn.tombstone_stream('old-' || i) FROM generate_series(6, 7) i;
	SELECT alvyn.truncate_stream('log-1', 195);
});
my $report = q{
	SELECT (SELECT md5(string_agg(r::text, ',' ORDER BY removal_no)) FROM alvyn.removals r),
	       (SELECT string_agg(r::text, ',') FROM alvyn.retentions r),
	       (SELECT string_agg(t::text, ',' ORDER BY stream_id) FROM alvyn.tombstones t),
	       (SELECT md5(string_agg(concat(stream_id, state, version_floor), ',' ORDER BY stream_id)) FROM alvyn.streams),
	       (SELECT removal_no FROM alvyn.consumer_partitions WHERE name = 'late')};
my $told = $node->safe_psql('postgres', $report);
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-j', '4', '-d', $node->connstr('copy'), $dump ], 'restore');
is($node->safe_psql('copy', $report), $told, 'a dump carries floors, removals and what is to be removed');
my ($rc, $out, $err) = $node->psql('copy', "SELECT alvyn.consume('late')");
like($err, qr/history that consumer "late" has not read was removed/, 'a restored consumer is told what it missed');
$node->safe_psql('copy', 'SELECT alvyn.maintain()') for 1 .. 3;
is($node->safe_psql('copy', 'SELECT count(*) FROM alvyn.tombstones'), 0, 'and the restored store goes on removing');
$node->stop;
done_testing();
