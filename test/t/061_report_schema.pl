
# The reports of small runs are what bench/report.schema.json says.
#
# A run that passes, one that is found out by the verification, and one that
# has no server; each becomes a page, too.  That the schema can refuse is seen
# by taking away, one by one, what it requires.
use strict;
use warnings;

use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'bench is not built' unless -x 'bench/alvyn_bench';
IPC::Run::run([qw(jsonschema --version)], '>&', \my $version)
  or plan skip_all => 'jsonschema of python3-jsonschema is not installed';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 50\n");
$node->start;
my $dsn = $node->connstr('postgres');
my $dir = PostgreSQL::Test::Utils::tempdir;
my @small = qw(--accounts 20 --history 20 --operation-timeout 20);

# What the commands are given, to be done within seconds.
my %commands = (
	daily => [ @small, qw(--operations-per-user 10 --duration-seconds 2) ],
	custom => [ @small, qw(--operations-per-user 10) ],
	capacity => [
		@small, qw(--capacity-start-rps 40 --capacity-step-rps 40
		  --capacity-max-rps 80 --stage-seconds 1.5 --clients 4)
	],
	soak => [
		@small, qw(--rate 50 --duration-seconds 4 --sample-seconds 1
		  --growth-percent 1000 --clients 4)
	],
	direct => [qw(--streams 4 --history 10 --operations 100)],
	snapshot => [qw(--lengths 60,100 --requests 20)]);

# Run a command; returns its exit code, the report and the page.
sub bench
{
	my ($name, $command, @options) = @_;
	my $file = "$dir/$name.json";
	my $output = '';

	IPC::Run::run(
		[
			'bench/alvyn_bench', $command, '--output', $file, '--html',
			"$dir/$name.html", @options
		],
		'>&', \$output);
	my $code = $? >> 8;
	note($output);
	unlike($output, qr/html:/, "$name: the page is made without complaint");
	return ($code, JSON::PP->new->utf8->decode(slurp_file($file)),
		slurp_file("$dir/$name.html"));
}

# What the schema has against a report.
sub complaints
{
	my ($report) = @_;
	my $file = "$dir/checked.json";
	my ($out, $err) = ('', '');

	unlink $file;
	append_to_file($file, JSON::PP->new->utf8->encode($report));
	IPC::Run::run(
		[
			'jsonschema', '--error-format',
			"{error.json_path}: {error.message:.200}\n",
			'-i', $file, 'bench/report.schema.json'
		],
		'>', \$out, '2>', \$err);
	$err =~ s/^.*Warning.*\n(?: .*\n)?//m;
	return $? == 0 ? '' : "not valid\n$out$err";
}

# Write copies of a report, each without one of these parts, and look which of
# them the schema refuses.
sub check_required
{
	my ($report, @paths) = @_;
	my (%lacks, @files);
	my $out = '';

	foreach my $path (@paths)
	{
		my $copy = JSON::PP->new->decode(JSON::PP->new->encode($report));
		my @steps = split / /, $path;
		my $last = pop @steps;
		my $at = $copy;
		$at = ref $at eq 'ARRAY' ? $at->[$_] : $at->{$_} foreach @steps;
		ok(exists $at->{$last}, "$path is in the report");
		delete $at->{$last};

		my $file = "$dir/lacks-" . $path =~ tr/ /-/r . '.json';
		push @files, '-i', $file;
		$lacks{$file} = $path;
		append_to_file($file, JSON::PP->new->utf8->encode($copy));
	}
	IPC::Run::run(
		[ 'jsonschema', '--output', 'pretty', @files, 'bench/report.schema.json' ],
		'>&', \$out);
	ok($out =~ /Error\]=+\(\Q$_\E\)/, "$lacks{$_} is required")
	  foreach sort keys %lacks;
	return;
}

my $day;
foreach my $command (sort keys %commands)
{
	my ($code, $report, $page) =
	  bench($command, $command, '--dsn', $dsn, @{ $commands{$command} });
	is($code == 0 ? 'passed' : 'failed',
		$report->{status}, "$command: exit code and status agree");
	is($report->{configuration}{profile}, $command, "$command: profile");
	is(complaints($report), '', "$command: the report is valid");
	like($page, qr{<figure.*?<svg}s, "$command: the page has charts");
	$day = $report if $command eq 'daily';
	next if $command eq 'snapshot';
	cmp_ok(scalar @{ $report->{timeSeries} },
		'>', 0, "$command: has a series per second");
	like($page, qr{<h2>Over time</h2>}, "$command: the page has it, too");
}

check_required(
	$day,
	qw(status environment configuration schema request read deposit throughput
	  trafficPhases slo capacity snapshotBenchmark errors verification workers
	  durationMs phaseDurations connectionCount),
	(map { "read latency $_" } qw(count p50 p95 p99)),
	(
		map { "trafficPhases 1 $_" }
		  qw(name targetRequestsPerSecond achievedRequestsPerSecond slo)),
	(map { "verification $_" } qw(eventCount finalBalance)),
	(map { "configuration $_" } qw(accountCount seed)),
	(map { "environment $_" } qw(postgresqlVersion settings)));
$day->{status} = 'failed';
ok(complaints($day) ne '', 'a run that failed has to say why');

# An event that disappears is named by the report and by the page.
append_to_file("$dir/tamper.sql",
	"ALTER TABLE alvyn.events DISABLE TRIGGER USER;\n"
	  . "DELETE FROM alvyn.events WHERE position = 100;\n");
my ($code, $report, $page) = bench('tampered', 'daily', '--dsn', $dsn, '--tamper',
	"$dir/tamper.sql", @{ $commands{daily} });
is($code, 1, 'tampered: exit code');
is($report->{status}, 'failed', 'tampered: status');
is(complaints($report), '', 'tampered: the report is valid');
like($page, qr{<span class="bad">failed}, 'tampered: said on top of the page');
my $fault = $report->{verification}{faults}[0]{fault};
ok(defined $fault, 'tampered: there is a fault');
like($page, qr{<td class="bad">\Q$fault\E<}, 'tampered: the page has it');

# A server that is not there.
$node->stop('immediate');
($code, $report, $page) = bench('nowhere', 'daily', '--dsn', $dsn);
is($code, 1, 'no server: exit code');
is(complaints($report), '', 'no server: the report is valid');
like($page, qr{class="reason">[^<]}, 'no server: the page says so');

# The page alone.
IPC::Run::run(
	[ 'bench/alvyn_bench', 'daily', '--dsn', $dsn, '--html', "$dir/alone.html" ],
	'>&', \my $said);
like(slurp_file("$dir/alone.html"), qr{class="reason">[^<]}, 'page without JSON');

done_testing();
