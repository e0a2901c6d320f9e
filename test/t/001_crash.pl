# A server that is stopped hard under load loses no acknowledged append.
#
# I1, I3: after each crash every answer that a client received is in the log
# as it was told, versions have no hole, a batch is there or not, and the
# call whose answer was lost can be repeated with its key.
use strict;
use warnings;

use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $writers = 4;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "restart_after_crash = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION alvyn');
my $dir = $node->basedir;

# The calls of a writer in one round, numbered.  Streams are shared, so that
# writers wait for each other; each event tells its call.
sub calls
{
	my ($round, $writer) = @_;
	my @calls;
	for my $i (0 .. 4999)
	{
		my $data = qq({"w": $writer, "r": $round, "i": $i});
		my $key = "$round-$writer-$i";
		my $shared = 'shared-' . $i % 3;
		push @calls,
		  $i % 3 == 0
		  ? "alvyn.append('$shared', NULL, 'A', '$data', idempotency_key => '$key')"
		  : $i % 3 == 1
		  ? "alvyn.append_batch('own-$writer', NULL, ARRAY['A', 'B', 'C'],
			array_fill('$data'::jsonb, ARRAY[3]), idempotency_key => '$key')"
		  : "alvyn.append_streams(ARRAY['$shared', 'new-$key', '$shared'], ARRAY['A', 'B', 'C'],
			array_fill('$data'::jsonb, ARRAY[3]), idempotency_key => '$key')";
	}
	return @calls;
}

# Start a psql that makes its calls one after the other and notes each answer.
sub start_writer
{
	my ($round, $writer) = @_;
	my $script = "$dir/calls-$round-$writer.sql";
	my $n = 0;
	append_to_file($script,
		join('', map { "SELECT " . $n++ . ", r.* FROM $_ r;\n" } calls($round, $writer)));
	my ($in, $err) = ('', '');
	return start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
			$node->connstr('postgres') . ' application_name=writer',
			'-f', $script ],
		'<', \$in, '>', "$dir/answers-$round-$writer", '2>', \$err);
}

# The whole lines of a file of answers; psql may have died in one.
sub answers
{
	my ($round, $writer) = @_;
	my $text = slurp_file("$dir/answers-$round-$writer");
	$text =~ s/[^\n]*\z//;
	return split /\n/, $text;
}

# Crash the server in one way or the other.
sub crash
{
	my ($round) = @_;
	if ($round % 2)
	{
		$node->stop('immediate');
		return;
	}
	my $pid = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE application_name = 'writer' LIMIT 1");
	BAIL_OUT('no writer') unless $pid =~ /^\d+$/;
	system_or_bail('pg_ctl', 'kill', 'KILL', $pid);
}

$node->safe_psql('postgres',
	'CREATE TABLE answers (round int, writer int, i int, stream_id text, first_version bigint, last_version bigint,
		first_position bigint, last_position bigint, version bigint, duplicate boolean, conflict boolean)');

for my $round (1 .. 4)
{
	my @psql = map { start_writer($round, $_) } 1 .. $writers;

	# Long enough for each to have some answers.
	for (1 .. 1800)
	{
		last unless grep { scalar(answers($round, $_)) < 100 } 1 .. $writers;
		usleep(100_000);
	}
	crash($round);
	$_->finish for @psql;
	$node->start if $round % 2;
	$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('no recovery');

	my @last;
	for my $writer (1 .. $writers)
	{
		my @answers = answers($round, $writer);
		note "round $round, writer $writer: " . scalar(@answers) . ' answers';
		($last[$writer]) = $answers[-1] =~ /^(\d+)/;
		append_to_file("$dir/copy-$round", map { "$round|$writer|$_\n" } @answers);
	}
	$node->safe_psql('postgres', "COPY answers FROM '$dir/copy-$round' (DELIMITER '|')");

	is( $node->safe_psql('postgres', qq{
		SELECT count(*) FROM answers a WHERE round = $round AND NOT EXISTS (
			SELECT FROM alvyn.streams s JOIN alvyn.events e USING (stream_no)
			WHERE s.stream_id = a.stream_id AND e.version BETWEEN a.first_version AND a.last_version
			HAVING count(*) = a.last_version - a.first_version + 1
			   AND min(e.position) = a.first_position AND max(e.position) = a.last_position
			   AND bool_and(e.data = jsonb_build_object('w', a.writer, 'r', a.round, 'i', a.i)))}),
		'0', "round $round: every acknowledged append is there");
	is($node->safe_psql('postgres', 'SELECT broken_streams, ok FROM alvyn.verify()'),
		'0|t', "round $round: the store is whole");
	is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM (
			SELECT data FROM alvyn.events GROUP BY data
			HAVING count(*) <> CASE (data->>'i')::int % 3 WHEN 0 THEN 1 ELSE 3 END) half}),
		'0', "round $round: each call is there once, as a whole");

	# The client comes back and repeats what it had no answer to.
	for my $writer (1 .. $writers)
	{
		my @calls = calls($round, $writer);
		my $again = $calls[ $last[$writer] ];
		is( $node->safe_psql('postgres', "SELECT bool_and(duplicate) FROM $again"),
			't', "round $round, writer $writer: the last answer comes again");
		my $next = $calls[ $last[$writer] + 1 ];
		$node->safe_psql('postgres', "SELECT * FROM $next");
		is($node->safe_psql('postgres', "SELECT bool_and(duplicate) FROM $next"),
			't', "round $round, writer $writer: the lost answer can be had");
	}
	is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM (
			SELECT data FROM alvyn.events GROUP BY data
			HAVING count(*) <> CASE (data->>'i')::int % 3 WHEN 0 THEN 1 ELSE 3 END) half}),
		'0', "round $round: nothing was written twice");
}

# Positions never start again.
is( $node->safe_psql('postgres',
		"SELECT (SELECT max(position) FROM alvyn.events) < first_position FROM alvyn.append('after-1', 0, 'A', '{}')"),
	't', 'positions go on');
$node->stop;
done_testing();
