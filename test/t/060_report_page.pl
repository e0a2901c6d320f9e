
# The page that bench/html makes of a report.
#
# It stands by itself, marks the knee, shows what the report holds and leaves
# out what it does not, and no value of a report gets further than its text:
# not into the markup, and not into what gnuplot runs.  No server is needed.
use strict;
use warnings;

use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;

# What bench/html makes of a report: page, complaints, exit code.
sub page_of
{
	my ($report, %env) = @_;
	my ($page, $complaints) = ('', '');
	my $json = ref $report ? JSON::PP->new->utf8->encode($report) : $report;

	local %ENV = (%ENV, %env);
	IPC::Run::run([ $^X, 'bench/html' ],
		'<', \$json, '>', \$page, '2>', \$complaints);
	return ($page, $complaints, $? >> 8);
}

sub counts
{
	my ($n, $p50) = @_;
	return {
		attempted => $n,
		succeeded => $n,
		failed => 0,
		conflicts => 0,
		retries => 0,
		latency => {
			count => $n,
			p50 => $p50,
			p95 => $p50 * 3,
			p99 => $p50 * 7,
			p999 => $p50 * 11,
			max => $p50 * 20
		}
	};
}

# A phase of traffic at a rate, and what it missed.
sub part
{
	my ($name, $offered, $served, $p50, @missed) = @_;
	return {
		name => $name,
		requestOffset => 0,
		requestCount => $offered * 10,
		targetRequestsPerSecond => $offered,
		offeredRequestsPerSecond => $offered * 1.01,
		achievedRequestsPerSecond => $served,
		durationMs => 10000,
		sustained => @missed ? JSON::PP::false : JSON::PP::true,
		reasons => \@missed,
		read => counts($offered * 7, $p50),
		deposit => counts($offered * 3, $p50 * 2),
		request => counts($offered * 10, $p50),
		slo => {
			enforced => JSON::PP::true,
			passed => $p50 * 3 <= 250 ? JSON::PP::true : JSON::PP::false,
			checks => [
				{
					metric => 'read_p95_ms',
					actual => $p50 * 3,
					threshold => 250,
					passed => $p50 * 3 <= 250 ? JSON::PP::true : JSON::PP::false
				}
			]
		}
	};
}

# A report of these phases, with one second of the series for each.
sub report_of
{
	my ($profile, @phases) = @_;
	my $all = part('all', 100, 99, 2);
	my $second = 0;
	my @series;

	foreach my $phase (@phases)
	{
		push @series,
		  map {
			{
				second => $second,
				class => $_,
				phase => $phase->{name},
				offered => $phase->{targetRequestsPerSecond},
				succeeded => $phase->{achievedRequestsPerSecond},
				failed => 0,
				%{ $phase->{$_}{latency} }
			}
		  } qw(read deposit);
		$second++;
	}
	return {
		status => 'passed',
		failure => undef,
		environment => {
			cpuModel => 'Abacus',
			cpuCount => 2,
			postgresqlVersion => '15.0',
			revision => 'a1b2c3',
			totalMemoryBytes => 2**32,
			settings => { synchronous_commit => 'on' }
		},
		configuration => {
			profile => $profile,
			accountCount => 10,
			sloReadP95Ms => 250,
			sloDepositP95Ms => 500
		},
		(map { $_ => $all->{$_} } qw(request read deposit slo)),
		throughput => {
			durationMs => 10000,
			successfulRequests => 1000,
			requestsPerSecond => 99
		},
		trafficPhases => \@phases,
		timeSeries => \@series,
		capacity => undef,
		errors => [],
		phaseDurations =>
		  { seedingMs => 2000, httpRequestsMs => 10000, workerStartupMs => undef },
		verification => {
			accountCount => 10,
			eventCount => 700,
			expectedEventCount => 700,
			seedEventCount => 600,
			finalBalance => 1234567,
			expectedBalance => 1234567,
			faults => []
		}
	};
}

sub day
{
	return report_of('daily', part('off-peak', 50, 50, 1),
		part('peak', 200, 199, 3), part('cool-down', 50, 50, 1));
}

sub stages
{
	my $report = report_of('capacity',
		part('capacity-200-rps', 200, 200, 1),
		part('capacity-400-rps', 400, 399, 2),
		part('capacity-600-rps', 600, 590, 300, 'read_p95_ms'),
		part('capacity-800-rps', 800, 600, 900, 'rate', 'read_p95_ms'));
	$report->{capacity} = {
		maximumSustainableRequestsPerSecond => 400,
		firstUnsustainableRequestsPerSecond => 600
	};
	return $report;
}

# What is true of every page.
sub check_page
{
	my ($name, $page) = @_;
	my %defined;

	unlike($page,
		qr/<(script|link|img|iframe|object|embed|base|form)\b|\son\w+=|\@import/i,
		"$name: neither scripts nor parts of its own elsewhere");
	is_deeply([ grep { !/^#/ } $page =~ /\b(?:href|src)\s*=\s*["']?([^"'\s>]*)/g ],
		[], "$name: no links to elsewhere");
	unlike($page, qr/\burl\(|xmlns/, "$name: no addresses in styles");
	unlike($page =~ s{<style>.*?</style>}{}sr,
		qr/rgb\(|(?:stroke|fill|color)=["'](?:black|#)/,
		"$name: no colour but by variable");

	# Each variable in both schemes.
	my @schemes = $page =~ /:root \{(.*?)\}/gs;
	is(scalar @schemes, 2, "$name: a light and a dark scheme");
	my %used = map { $_ => 1 } $page =~ /var\((--\w+)\)/g;
	foreach my $scheme (@schemes)
	{
		my %here = map { $_ => 1 } $scheme =~ /(--\w+):/g;
		is_deeply([ grep { !$here{$_} } sort keys %used ],
			[], "$name: every colour is in the scheme");
	}

	my %targets = map { $_ => 1 } $page =~ /\bid\s*=\s*["']([^"']+)/g;
	is_deeply([ grep { !$targets{$_} } $page =~ /href\s*=\s*["']#([^"']+)/g ],
		[], "$name: every point shape is there");
	foreach my $element (qw(section table tr td th figure svg g text div))
	{
		my $opened = () = $page =~ /<$element\b/g;
		my $closed = () = $page =~ m{</$element>}g;
		is($opened, $closed, "$name: every <$element> is closed");
	}
	return;
}

sub headings
{
	my ($page) = @_;
	return join ' ', $page =~ m{<h2>(.*?)</h2>}g;
}

my ($page, $complaints, $code) = page_of(day());
is($code, 0, 'a day: made');
is($complaints, '', 'a day: nothing to complain about');
check_page('a day', $page);
is( headings($page),
	'Objectives Latency Over time Verification Steps Provenance Configuration',
	'a day: the sections that it has');
like($page, qr{<h1>daily load test <span class="good">passed<}, 'a day: status');
is(scalar(() = $page =~ /<svg\b/g), 3, 'a day: three charts');
like($page, qr{1,234,567}, 'a day: the balance');
like($page, qr{300 events/s}, 'a day: the rate of seeding');
like($page, qr{Abacus}, 'a day: the processor');
like($page, qr{4\.0 GiB}, 'a day: the memory');
like($page, qr{a1b2c3}, 'a day: the revision');
like($page, qr{synchronous_commit}, 'a day: the settings');
like($page, qr{<text>off-peak</text>}, 'a day: the phases in a chart');

($page, $complaints, $code) = page_of(stages());
is("$code $complaints", '0 ', 'capacity: made');
check_page('capacity', $page);
like(headings($page), qr/^Capacity /, 'capacity: a section of its own');
is(scalar(() = $page =~ /<svg\b/g), 5, 'capacity: five charts');
is(scalar(() = $page =~ m{<text>knee: 400/s</text>}g),
	2, 'capacity: the knee is marked in both charts');
like($page, qr{<dt>knee</dt><dd>400/s<}, 'capacity: the knee in the headline');
my @results = $page =~ m{<td class="(?:good|bad)">(sustained|[^<]*rate[^<]*|read p95)</td>}g;
is_deeply(
	\@results,
	[ 'sustained', 'sustained', 'read p95', 'rate, read p95' ],
	'capacity: what each stage missed');

# A run in which nothing was sustained has no knee to mark.
my $report = stages();
$report->{capacity}{maximumSustainableRequestsPerSecond} = undef;
$report->{capacity}{firstUnsustainableRequestsPerSecond} = 200;
($page, $complaints, $code) = page_of($report);
is("$code $complaints", '0 ', 'no knee: made');
unlike($page, qr{<text>knee}, 'no knee: none marked');
like($page, qr{Not even the first stage was sustained}, 'no knee: said so');

# Growth of a soak, and findings that only their profile knows.
$report = report_of('soak', part('soak', 100, 100, 1));
$report->{configuration}{sampleSeconds} = 10;
$report->{soak} = {
	samples => [
		map {
			{
				backend_kb => 4000 + $_,
				connections => 9,
				events => 1000,
				table_bytes => 90_000 * $_,
				index_bytes => 10_000,
				live_tuples => 1000,
				dead_tuples => 0
			}
		} 1 .. 20
	],
	trends => [
		{
			metric => 'bytes per event',
			early => 500,
			late => 1800,
			allowed => 550,
			passed => JSON::PP::false
		},
		{
			metric => 'connections',
			early => 9,
			late => 9,
			allowed => 10,
			passed => JSON::PP::true
		}
	],
	lines => [ { what => 'twice', value => 'no' } ]
};
$report->{directResult} = { lines => [ { what => 'appends/s', value => 77 } ] };
($page, $complaints, $code) = page_of($report);
is("$code $complaints", '0 ', 'soak: made');
check_page('soak', $page);
like(headings($page), qr/Growth Direct result/, 'soak: has its sections');
like($page, qr{<td class="bad">grew</td>}, 'soak: what grew');
like($page, qr{<td class="good">steady</td>}, 'soak: what did not');
like($page, qr{<td>appends/s</td><td class="v">77</td>}, 'soak: a finding');
unlike($page, qr{twice}, 'soak: nothing twice');

# Snapshots, of one length as in the original's report and of several.
sub benefit
{
	my ($events) = @_;
	return {
		historyEventsPerAccount => $events,
		withoutSnapshots => { p50 => $events / 100, p95 => 1, p99 => 2 },
		withSnapshots => { p50 => 0.4, p95 => 0.5, p99 => 0.6 },
		snapshotReplay => { averageEvents => 12.5, maxEvents => 49 }
	};
}
$report = {
	status => 'passed',
	configuration => { profile => 'snapshot' },
	snapshotBenchmark => benefit(12_000)
};
($page, $complaints, $code) = page_of($report);
is("$code $complaints", '0 ', 'snapshot: made');
like($page, qr{<td class="n">12,000</td><td>all events</td><td class="n">120</td>},
	'snapshot: a figure');
unlike($page, qr{<svg|<dt>verified}, 'snapshot: nothing that is not there');
$report->{snapshotBenchmark}{lengths} = [ map { benefit($_) } 60, 12_000 ];
($page, $complaints, $code) = page_of($report);
is("$code $complaints", '0 ', 'snapshots: made');
check_page('snapshots', $page);
like($page, qr{<svg.*<text>all events</text>}s, 'snapshots: a chart');

# Whatever a report holds stays text.
my $trap = "$dir/trap";
my $evil = qq{<script>alert("1")</script>'"; system("touch $trap"); "`touch $trap`};
$report = day();
$report->{status} = 'failed';
$report->{failure} = $evil;
$report->{$_}{$evil} = $evil foreach qw(environment configuration);
$report->{environment}{$_} = $evil
  foreach qw(generatedAt alvynVersion cpuCount cpuModel);
$report->{configuration}{$_} = $evil foreach qw(profile sloReadP95Ms);
$report->{trafficPhases}[1]{name} = $evil;
$report->{trafficPhases}[1]{slo}{checks}[0]{metric} = $evil;
$report->{errors} = [ { answer => $evil, $evil => 1 }, $evil, [$evil] ];
$report->{verification}{faults} =
  [ { fault => $evil, occurrences => 1, sample => $evil } ];
($page, $complaints, $code) = page_of($report);
is("$code $complaints", '0 ', 'hostile: made');
check_page('hostile', $page);
like($page, qr{&lt;script&gt;alert\(&quot;1&quot;\)}, 'hostile: shown as text');
like($page, qr{<td class="bad">&lt;script}, 'hostile: the fault is listed');
ok(!-e $trap, 'hostile: nothing was run');

# A run without a server has a reason and nothing else.
($page, $complaints, $code) =
  page_of({ status => 'failed', failure => 'no server' });
is("$code $complaints", '0 ', 'next to nothing: made');
check_page('next to nothing', $page);
is(headings($page), '', 'next to nothing: no sections');
like($page, qr{no server}, 'next to nothing: the reason');
like($page, qr{did not get that far}, 'next to nothing: nothing is verified');

# Hours of seconds are drawn as the worst of several.
$report = day();
$report->{timeSeries} = [
	map {
		{
			second => $_,
			class => 'read',
			succeeded => 10,
			failed => 0,
			p50 => 1,
			p95 => $_ == 7777 ? 4000 : 2,
			p99 => $_ == 7777 ? 5000 : 3
		}
	} 0 .. 9999
];
($page, $complaints, $code) = page_of($report);
is("$code $complaints", '0 ', 'hours: made');
like($page, qr{Of every 12 seconds, the worst is shown}, 'hours: says so');
cmp_ok(length $page, '<', 200_000, 'hours: the page stays small');

# Without gnuplot the page lacks its charts and nothing else.
mkdir "$dir/bin" or die;
($page, $complaints, $code) = page_of(day(), PATH => "$dir/bin");
is($code, 0, 'no gnuplot: made');
like($complaints, qr/gnuplot-nox/, 'no gnuplot: the package is named');
check_page('no gnuplot', $page);
like($page, qr{Without gnuplot}, 'no gnuplot: said in the page');

($page, $complaints, $code) = page_of('[1]');
ok($code != 0, 'something else: refused');
like($complaints, qr/no report of alvyn_bench/, 'something else: says why');

done_testing();
