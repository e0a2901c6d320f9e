
# The arithmetic of the load test: plans, capacity, trends.
#
# Each is SQL, which is given made-up input here.  The plans are computed a
# second time, as the specification of the original words it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
my $database = 0;

# A database with the tables of a run, these options, and these files.
sub prepare
{
	my ($settings, @files) = @_;
	my $name = 'rules' . $database++;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, 'CREATE EXTENSION alvyn');
	my $sql = slurp_file('bench/sql/schema.sql');
	$sql .= "INSERT INTO alvyn_bench.setting VALUES ('$_', '$settings->{$_}');"
	  foreach sort keys %$settings;
	$sql .= slurp_file("bench/sql/$_") foreach @files;
	$node->safe_psql($name, $sql);
	return $name;
}

# Operation i as the original's suite chooses it.
sub operation
{
	my ($o, $i) = @_;
	my $v = abs($o->{seed} * 31 + $i * 17);
	my $users = $o->{'active-users'};
	my $hot = $o->{'hot-accounts'} // 0;
	my $user = ($i % $users + $o->{seed}) % $users;
	my $reads =
	  int($o->{'operations-per-user'} * $o->{'read-percent'} / 100 + 0.5);
	my $is_hot = $hot == $o->{accounts}
	  || $hot > 0 && $v % 100 < $o->{'hot-traffic-percent'};
	my $account =
		$o->{profile} eq 'daily' ? $user
	  : $is_hot                  ? $v % $hot
	  :                            $hot + $v % ($o->{accounts} - $hot);
	my $class =
	  (int($i / $users) + $user) % $o->{'operations-per-user'} < $reads
	  ? 'read'
	  : 'deposit';
	return join '|', $i, $class, $account, 1 + $v % 10, $i % $o->{replicas};
}

sub check_plan
{
	my ($name, %options) = @_;
	my $in = prepare(\%options, 'plan.sql');
	my $count = $node->safe_psql($in,
		'SELECT sum(request_count) FROM alvyn_bench.phase');
	is( $node->safe_psql(
			$in,
			'SELECT i, class, account, amount, replica
			   FROM alvyn_bench.operation JOIN alvyn_bench.process USING (process)
			  ORDER BY i'),
		join("\n", map { operation(\%options, $_) } 0 .. $count - 1),
		"$name: the plan is the original's");
	is( $node->safe_psql(
			$in,
			'SELECT count(*) FROM alvyn_bench.operation o
			   JOIN alvyn_bench.process p USING (process)
			   JOIN alvyn_bench.phase f USING (phase)
			  WHERE o.i <> p.first + o.n * ' . $options{replicas} . '
				 OR o.i < f.request_offset
				 OR o.i >= f.request_offset + f.request_count'),
		0,
		"$name: processes compute their operations from the first");
	return $in;
}

check_plan(
	'daily',
	profile => 'daily', accounts => 30, 'active-users' => 17, requests => 173,
	'operations-per-user' => 10, 'read-percent' => 70, seed => 42,
	replicas => 3, clients => 2, history => 60,
	'duration-seconds' => 10, 'time-scale' => 2);
check_plan(
	'custom',
	profile => 'custom', accounts => 20, 'active-users' => 20, requests => 101,
	'operations-per-user' => 5, 'read-percent' => 40, seed => 1,
	replicas => 2, concurrency => 16, history => 20,
	'hot-accounts' => 2, 'hot-traffic-percent' => 75);
check_plan(
	'custom, all hot',
	profile => 'custom', accounts => 20, 'active-users' => 7, requests => 100,
	'operations-per-user' => 5, 'read-percent' => 33, seed => 5,
	replicas => 4, concurrency => 3, history => 20,
	'hot-accounts' => 20, 'hot-traffic-percent' => 75);
my $capacity = check_plan(
	'capacity',
	profile => 'capacity', accounts => 40, 'active-users' => 40,
	'operations-per-user' => 32, 'read-percent' => 70, seed => 3,
	replicas => 3, clients => 10, history => 60,
	'hot-accounts' => 1, 'hot-traffic-percent' => 10,
	'capacity-start-rps' => 10, 'capacity-step-rps' => 10,
	'capacity-max-rps' => 40, 'stage-seconds' => 3, 'stages-beyond' => 1,
	'slo-read-p95-ms' => 250, 'slo-deposit-p95-ms' => 500,
	'slo-error-rate-percent' => 0.1);
is( $node->safe_psql(
		$capacity,
		'SELECT name, request_offset, request_count FROM alvyn_bench.phase
		  ORDER BY phase'),
	join("\n",
		'capacity-10-rps|0|30', 'capacity-20-rps|30|60',
		'capacity-30-rps|90|90', 'capacity-40-rps|180|120'),
	'capacity: stages of a rising rate');

# Stages: the second misses an objective, the third holds, the fourth is too
# slow.  Only the unbroken run from the start counts.
$node->safe_psql($capacity,
		slurp_file('bench/sql/analyse.sql')
	  . slurp_file('bench/sql/report.sql')
	  . "INSERT INTO alvyn_bench.latency
			SELECT phase, class, 100, 100, 0, 0, 0, 100,
				   ARRAY[1, CASE WHEN phase = 1 AND class = 'read'
								 THEN 251 ELSE 250 END, 300, 400],
				   500, 0, CASE phase WHEN 3 THEN 1060 ELSE 1050 END, 1000
			  FROM generate_series(0, 3) AS phase
			 CROSS JOIN (VALUES ('read'), ('deposit'), (NULL)) AS c (class)"
);
is( $node->safe_psql(
		$capacity, 'SELECT * FROM alvyn_bench.sustained ORDER BY phase'),
	"0|{}\n1|{read_p95_ms}\n2|{}\n3|{rate}",
	'capacity: a stage is sustained with its objectives and its rate');
is( $node->safe_psql(
		$capacity,
		"SELECT o ->> 'maximumSustainableRequestsPerSecond',
				o ->> 'firstUnsustainableRequestsPerSecond', o -> 'reasons'
		   FROM alvyn_bench.capacity_object() AS o"),
	'10.000|20.000|["read_p95_ms"]',
	'capacity: the knee is the last of the unbroken run from the start');
is( $node->safe_psql(
		$capacity, 'SELECT alvyn_bench.next_stage(1::smallint)'),
	't',
	'capacity: one stage is run beyond the knee');
is( $node->safe_psql(
		$capacity, 'SELECT alvyn_bench.next_stage(2::smallint)'),
	'f',
	'capacity: and no more');
is( $node->safe_psql(
		$capacity, 'SELECT phase FROM alvyn_bench.phase WHERE skipped'),
	'3',
	'capacity: the rest is skipped');

# Trends: a hundred samples in which one measure grows.
sub trends
{
	my (%growing) = @_;
	my $in = prepare({ 'growth-percent' => 10 }, 'sample.sql');
	my %column = (
		connections => 10, backend_kb => 3000, index_bytes => 1000000,
		dead_tuples => 0, %growing);
	$node->safe_psql(
		$in, "INSERT INTO alvyn_bench.sample
				SELECT now() + n * interval '1 second', $column{connections}, 8,
					   $column{backend_kb}, 10000, 1000000, $column{index_bytes},
					   10000, $column{dead_tuples}
				  FROM generate_series(1, 100) AS n;
			  SELECT alvyn_bench.judge_samples()");
	return $node->safe_psql($in,
		"SELECT value ->> 'failure' FROM alvyn_bench.part");
}

is(trends(), '', 'soak: what stays, passes');
is(trends(backend_kb => '3000 + n'), '', 'soak: so does what grows a little');
like(trends(backend_kb => '3000 + 20 * n'),
	qr/^backend memory, kB grew from /, 'soak: memory that grows');
like(trends(connections => '10 + n / 10'),
	qr/^connections grew from /, 'soak: connections that grow');
like(trends(index_bytes => '1000000 + 10000 * n'),
	qr/^bytes per event grew from /, 'soak: an index that swells');
like(trends(dead_tuples => '100 * n'),
	qr/^dead tuples, % grew from /, 'soak: dead tuples that nobody removes');

$node->stop;
done_testing();
