
# A run in trouble ends, says why in its report, and leaves nothing behind.
#
# The trouble is made while the traffic runs: a lock that nobody gets past, a
# deadline, killed connections, an interrupt, a server that goes away.
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
$node->append_conf('postgresql.conf',
	"max_connections = 60\nrestart_after_crash = on\n");
$node->start;
my $dsn = $node->connstr('postgres');
my $dir = PostgreSQL::Test::Utils::tempdir;
my $traffic = "application_name = 'alvyn_bench traffic'";

# Begin a long run, make trouble once the traffic runs, and look how it ends.
sub in_trouble
{
	my ($name, $options, $trouble, $reason) = @_;
	my $file = "$dir/report.json";
	my $output = '';

	unlink $file;
	my $run = IPC::Run::start(
		[
			'bench/alvyn_bench', qw(daily --accounts 20 --requests 20000
			  --duration-seconds 100 --clients 2), '--dsn', $dsn,
			'--output', $file, @$options
		],
		'>&', \$output,
		IPC::Run::timeout(120));
	$node->poll_query_until('postgres',
		"SELECT count(*) >= 6 FROM pg_stat_activity WHERE $traffic")
	  or die "no traffic\n";
	my $keep = $trouble->($run);
	$run->finish;
	is($run->full_result(0) >> 8, 1, "$name: the run fails");
	my $report = JSON::PP->new->utf8->decode(slurp_file($file));
	is($report->{status}, 'failed', "$name: the report says so");
	like($report->{failure}, $reason, "$name: and why");
	is(scalar(glob("$ENV{TMPDIR}/alvyn_bench.*")),
		undef, "$name: no directory is left")
	  if $ENV{TMPDIR};
	return ($report, $keep);
}

sub nothing_left
{
	my ($name) = @_;
	is( $node->safe_psql(
			'postgres',
			"SELECT (SELECT count(*) FROM pg_database WHERE datname ~ 'alvyn'),
					(SELECT count(*) FROM pg_stat_activity WHERE $traffic)"),
		'0|0',
		"$name: no database and no connection is left");
	return;
}

# The run's database.
sub database
{
	return $node->safe_psql('postgres',
		"SELECT datname FROM pg_database WHERE datname ~ '^alvyn_bench'");
}

my ($report) = in_trouble(
	'a lock that lasts',
	[qw(--operation-timeout 1)],
	sub {
		return IPC::Run::start(
			[
				'psql', '-Xq', '-d', $node->connstr(database()),
				'-c', 'BEGIN; LOCK TABLE alvyn.events; SELECT pg_sleep(60)'
			],
			'>&', \my $output);
	},
	qr/canceling statement due to statement timeout/);
nothing_left('a lock that lasts');
ok(scalar(@{ $report->{errors} }) > 0, 'a lock that lasts: errors are told');
ok(scalar(@{ $report->{errors} }) <= 100, 'but not too many');
ok($report->{request}{attempted} > 0,
	'a lock that lasts: what was done until then is reported');

in_trouble(
	'a deadline', [qw(--run-timeout 3)],
	sub { },
	qr/the run did not end within its time limit/);
nothing_left('a deadline');

in_trouble(
	'lost connections',
	[],
	sub {
		$node->safe_psql('postgres',
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $traffic"
		);
	},
	qr/pgbench .* failed .*terminat/);
nothing_left('lost connections');

in_trouble(
	'an interrupt',
	[],
	sub { shift->signal('INT') },
	qr/interrupted by signal 2/);
nothing_left('an interrupt');

in_trouble(
	'a crash of the server',
	[],
	sub {
		my $pid = $node->safe_psql('postgres',
			"SELECT min(pid) FROM pg_stat_activity WHERE $traffic");
		kill 'KILL', $pid;
	},
	qr/pgbench .* failed/);
nothing_left('a crash of the server');

in_trouble(
	'a server that goes away',
	[],
	sub { $node->stop('immediate') },
	qr/pgbench .* failed/);

done_testing();
