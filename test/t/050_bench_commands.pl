
# Every command of alvyn_bench passes on a sound store, and its report says so.
#
# Small runs against one server.  What the options mean is checked by what the
# report tells of the run.
use strict;
use warnings;

use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'bench is not built' unless -x 'bench/alvyn_bench';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 60\n");
$node->start;
my $dsn = $node->connstr('postgres');
my $dir = PostgreSQL::Test::Utils::tempdir;

# Run a command; returns its report and what it printed.
sub bench
{
	my ($command, @options) = @_;
	my $file = "$dir/report.json";
	my $output = '';

	unlink $file;
	IPC::Run::run(
		[
			'bench/alvyn_bench', $command, '--dsn', $dsn,
			'--output', $file, @options
		],
		'>&', \$output);
	is($? >> 8, 0, "$command passes") or diag($output);
	my $report = JSON::PP->new->utf8->decode(slurp_file($file));
	is($report->{status}, 'passed', "$command reports that it passed")
	  if defined $report->{status};
	return ($report, $output);
}

# Some fields of a report's part.
sub fields_are
{
	my ($part, $expected, $name) = @_;
	is_deeply({ map { $_ => $part->{$_} } keys %$expected }, $expected, $name);
	return;
}

# The original's figures, a thousandth of them.
my ($day, $text) = bench('daily', qw(--accounts 100 --seed 42 --duration-seconds 3));
fields_are(
	$day->{verification},
	{
		accountCount => 100,
		eventCount => 6300,
		storedEventCount => 6400,
		snapshotEventCount => 100,
		successfulDeposits => 300,
		finalBalance => 7550,
		faults => []
	},
	'a day writes what it is planned to');
is_deeply(
	[ map { [ $_->{name}, $_->{requestCount} ] } @{ $day->{trafficPhases} } ],
	[ [ 'off-peak', 100 ], [ 'peak', 800 ], [ 'cool-down', 100 ] ],
	'a day has three phases');
is($day->{read}{succeeded}, 700, 'seven of ten operations are reads');
ok($day->{deposit}{latency}{p999} <= $day->{deposit}{latency}{max}
	  && $day->{deposit}{latency}{p50} <= $day->{deposit}{latency}{p999},
	'percentiles are in order');
my $seconds = 0;
$seconds += $_->{succeeded} foreach @{ $day->{timeSeries} };
is($seconds, 1000, 'the time series has every request');
like($text, qr/^snapshot events|^ snapshot events +\| +100 \| +100$/m,
	'the text shows snapshots');
rename "$dir/report.json", "$dir/a.json";

my ($plain) = bench('daily',
	qw(--accounts 50 --active-users 20 --requests 100 --history 10
	  --duration-seconds 1 --no-snapshots --max-tries 1
	  --enforce-slos=false));
fields_are(
	$plain->{verification},
	{
		snapshotEventCount => 0,
		eventCount => 500 + $plain->{deposit}{succeeded}
	},
	'without snapshots there are none');
is($plain->{configuration}{maxRetries}, 0, 'one try is no retry');
rename "$dir/report.json", "$dir/b.json";

# The environment decides unless the command line does.
{
	local $ENV{ALVYN_BENCH_ACCOUNTS} = '30';
	local $ENV{ALVYN_BENCH_READ_PERCENT} = '10';
	local $ENV{ALVYN_BENCH_TIME_SCALE} = '5';
	my ($custom) =
	  bench('custom', qw(--read-percent 50 --operations-per-user 4));
	fields_are(
		$custom->{configuration},
		{
			accountCount => 30,
			hotAccountCount => 3,
			hotTrafficPercent => 75,
			readPercent => 50,
			requestCount => 120,
			concurrency => 16
		},
		'options come from the environment and the command line');
	is($custom->{read}{attempted}, 60, 'and decide the plan');
}

my ($replaced) = bench('custom',
	qw(--accounts 200 --operations-per-user 20 --replace-replica));
ok($replaced->{replacement}{operationsTakenOver} > 0,
	'a replica that was killed has a successor');
is($replaced->{request}{attempted},
	4000, 'which does what the other left, and nothing twice');

my ($capacity) = bench('capacity',
	qw(--accounts 100 --capacity-start-rps 100 --capacity-step-rps 100
	  --capacity-max-rps 300 --stage-seconds 1 --stages-beyond 0
	  --slo-error-rate-percent 100));
my @stages = @{ $capacity->{trafficPhases} };
is($stages[0]{name}, 'capacity-100-rps', 'stages have their rate as a name');
ok($capacity->{capacity}{maximumSustainableRequestsPerSecond} >= 100,
	'the first stage is sustained');

my ($soak) = bench('soak',
	qw(--accounts 50 --rate 100 --duration-seconds 5 --sample-seconds 1
	  --clients 2 --growth-percent 50));
ok($soak->{soak}{sampleCount} >= 4, 'samples are taken meanwhile');
ok($soak->{soak}{samples}[-1]{backend_kb} > 0, 'of the memory, too')
  if -e '/proc/self/smaps_rollup';

my ($direct) = bench('direct',
	qw(--operations 60 --batch-size 3 --history 10 --seed 7 --clients 2));
fields_are(
	$direct->{verification},
	{
		streamCount => 20,
		eventCount => 200 + 3 * $direct->{append}{succeeded},
		faults => []
	},
	'direct writes what it is planned to');
is($direct->{append}{eventCount},
	3 * $direct->{append}{succeeded}, 'appends count their events');
ok($direct->{load}{eventCount} >= 10 * $direct->{load}{succeeded},
	'loads count theirs');

my ($snapshot) =
  bench('snapshot', qw(--lengths 60,3000 --requests 30 --tail 5));
fields_are(
	$snapshot->{snapshotBenchmark}{snapshotReplay},
	{ maxEvents => 5, averageEvents => 5 },
	'a read by snapshot replays the tail');
ok($snapshot->{snapshotBenchmark}{stateImprovementPercent}{p50} > 0,
	'a state is faster than a replay');

my ($compared, $table) = bench('compare', "$dir/a.json", "$dir/b.json");
ok(scalar(grep { $_->{figure} eq 'read p95, ms' && defined $_->{ratio} }
			@{ $compared->{figures} }) > 0,
	'reports are compared figure by figure');
like($table, qr/^ accountCount +\| 100 +\| 50 *$/m,
	'and what else differs is told');

is( $node->safe_psql(
		'postgres', "SELECT count(*) FROM pg_database WHERE datname ~ 'alvyn'"),
	0,
	'no database is left');

foreach my $command (
	qw(daily custom capacity soak direct snapshot compare limits))
{
	my $help = '';
	IPC::Run::run([ 'bench/alvyn_bench', $command, '--help' ], '>&', \$help);
	is($?, 0, "$command --help");
	like($help, qr/--\w/, "$command --help shows options");
}

$node->stop;
done_testing();
