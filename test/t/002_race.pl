# Many sessions at once on the same streams.
#
# I1: versions have no hole and no repeat.  I2: of the appends with the same
# expected version exactly one succeeds, each other gets 40001, constraint
# expected_version; "any version" never conflicts under READ COMMITTED.
use strict;
use warnings;

use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 60\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION alvyn;
	CREATE TABLE outcomes (level text, stream text, state text, constraint_name text);
	CREATE FUNCTION race(stream text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		v_constraint text;
	BEGIN
		BEGIN
			PERFORM alvyn.append(stream, expected, 'A', '1');
			INSERT INTO outcomes VALUES (current_setting('transaction_isolation'), stream, 'ok');
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME;
			INSERT INTO outcomes VALUES (current_setting('transaction_isolation'), stream, SQLSTATE, v_constraint);
		END;
	END
	$$;
	-- Round n of the races for old streams starts at version 1.
	SELECT count(*) FROM alvyn.append_streams(
		ARRAY(SELECT l || '-old-' || i FROM unnest(ARRAY['rc', 'rr', 'sz']) l, generate_series(1, 100) i),
		ARRAY(SELECT 'A' FROM generate_series(1, 300)), ARRAY(SELECT '0'::jsonb FROM generate_series(1, 300)));
});

# Run a script in many clients, and fail when one of its transactions does.
# Each client counts its transactions in :r, so that all of them go through
# the same rounds.
sub pgbench
{
	my ($name, $script, @options) = @_;
	my $file = $node->basedir . "/$name.sql";
	append_to_file($file, "\\set r :r + 1\n$script\n");
	my ($out, $err);
	my $ok = run_log([ 'pgbench', '-n', '-D', 'r=0', '-j', '2', @options, '-f', $file,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
	ok($ok && $out =~ m{actually processed: (\d+)/\1\b} && $out !~ /failed transactions: [1-9]/,
		"$name: no transaction failed") or diag($out . $err);
	return;
}

# One winner a round, at each isolation level.
my %levels = (
	rc => 'read committed',
	rr => 'repeatable read',
	sz => 'serializable');
for my $level (sort keys %levels)
{
	my $begin = "BEGIN ISOLATION LEVEL $levels{$level};";

	# What a transaction has seen makes it serializable or not, so that its
	# commit may fail too; pgbench repeats it.
	pgbench("same version, $level", qq{
		$begin
		SELECT race('$level-new-' || :r, 0);
		COMMIT;
		$begin
		SELECT race('$level-old-' || :r, 1);
		COMMIT;}, '-c', '32', '-t', '100', '--max-tries', '100');
	is( $node->safe_psql('postgres', qq{
		SELECT count(*), min(n), max(n) FROM (
			SELECT count(*) FILTER (WHERE state = 'ok') AS n FROM outcomes
			WHERE level = '$levels{$level}' GROUP BY stream) s}),
		'200|1|1', "same version, $level: one winner in each of 200 rounds");
	is( $node->safe_psql('postgres', qq{
		SELECT string_agg(DISTINCT concat_ws(' ', state, nullif(constraint_name, '')), ', ') FROM outcomes
		WHERE level = '$levels{$level}' AND state <> 'ok'
		  AND NOT (level = 'serializable' AND state = '40001' AND constraint_name = '')}),
		'40001 expected_version', "same version, $level: everybody else gets a conflict");
	is( $node->safe_psql('postgres', qq{
		SELECT stored_events, broken_streams FROM alvyn.verify('$level-')}),
		'300|0', "same version, $level: the streams are whole");
}

# Any version: everybody succeeds, on streams that all of them create.
pgbench('any version', q{SELECT alvyn.append('any-' || :r, NULL, 'A', '1');}, '-c', '16', '-t', '100');
is( $node->safe_psql('postgres', q{
	SELECT count(*), min(version), max(version) FROM alvyn.list_streams('any-', NULL, NULL)}),
	'100|16|16', 'any version: versions 1 to 16 in each stream');
pgbench('any version, one stream', q{SELECT alvyn.append_batch('one', NULL, ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[]);},
	'-c', '16', '-t', '50');
is($node->safe_psql('postgres', q{SELECT alvyn.contiguous(version), count(*) FILTER (WHERE type = CASE version % 2 WHEN 1 THEN 'A' ELSE 'B' END) FROM alvyn.load('one')}),
	'(1600,1,1600,0,t)|1600', 'any version, one stream: batches stay together');

# The same key from 16 sessions: one writes, the others learn what it wrote.
$node->safe_psql('postgres', 'CREATE TABLE answers (r int, version bigint, position bigint, duplicate boolean)');
pgbench('same key', q{
	INSERT INTO answers SELECT :r, a.version, a.first_position, a.duplicate
	FROM alvyn.append('key-' || :r, NULL, 'A', '1', idempotency_key => 'key-' || :r) a;}, '-c', '16', '-t', '100');
is( $node->safe_psql('postgres', q{
	SELECT count(*), min(n), max(n) FROM (
		SELECT count(*) FILTER (WHERE NOT duplicate) AS n FROM answers
		GROUP BY r HAVING count(*) = 16 AND count(DISTINCT (version, position)) = 1) s}),
	'100|1|1', 'same key: one writes in each of 100 rounds, all get the same answer');
is($node->safe_psql('postgres', q{SELECT streams, stored_events FROM alvyn.verify('key-')}),
	'100|100', 'same key: one event in each stream');

# Opposite orders in one call each, 500 rounds: no deadlock, no waiting for
# more than the other call.
pgbench('opposite order', q{
	SELECT count(*) FROM alvyn.append_streams(
		CASE :client_id % 2 WHEN 0 THEN ARRAY['opp-a', 'opp-c-' || :r, 'opp-b'] ELSE ARRAY['opp-b', 'opp-c-' || :r, 'opp-a'] END,
		ARRAY['A', 'A', 'A'], ARRAY['1', '1', '1']::jsonb[]);}, '-c', '8', '-t', '125');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'opposite order: no deadlock');
is($node->safe_psql('postgres', q{SELECT streams, stored_events, broken_streams FROM alvyn.verify('opp-')}),
	'127|3000|0', 'opposite order: everything is written');

# 50,000 streams in one call, twice, with the default number of locks, while
# an application holds advisory locks on small numbers.
is($node->safe_psql('postgres', 'SHOW max_locks_per_transaction'), '64', 'number of locks is the default');
my ($in, $out, $err) = ('', '', '');
my $holder = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
$in = "SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 1000) i;\n";
$holder->pump until $out =~ /1000/;
for my $version (1 .. 2)
{
	is( $node->safe_psql('postgres', q{
		SET lock_timeout = '10s';
		SELECT count(*), min(version), max(version) FROM alvyn.append_streams(
			ARRAY(SELECT 'wide-' || i FROM generate_series(1, 50000) i),
			ARRAY(SELECT 'A' FROM generate_series(1, 50000)),
			ARRAY(SELECT '1'::jsonb FROM generate_series(1, 50000)))}),
		"50000|$version|$version", "50,000 streams in one call, version $version");
}
$in = "\\q\n";
$holder->finish;

# REINDEX CONCURRENTLY exchanges the indexes that appends find their streams
# and heads with; nobody notices.
{
	my $file = $node->basedir . '/rebuild.sql';
	append_to_file($file, q{SELECT alvyn.append(concat('new-', floor(extract(epoch FROM clock_timestamp()) * 400)), NULL, 'A', '1');
SELECT alvyn.append('rebuild-' || :client_id % 3, NULL, 'A', '1', idempotency_key => gen_random_uuid()::text);
});
	my ($bench_out, $bench_err) = ('', '');
	my $bench = start([ 'pgbench', '-n', '-c', '8', '-j', '2', '-t', '1000', '-f', $file,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$bench_out, '2>', \$bench_err);
	my $rebuilds = 0;
	while ($bench->pumpable && $rebuilds < 1000)
	{
		$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY alvyn.$_")
		  for qw(streams_stream_id_key events_stream_version_key idempotency_key);
		$rebuilds++;
		$bench->pump_nb;
	}
	ok($bench->finish && $bench_out =~ m{actually processed: 8000/8000\b}, 'rebuilt indexes: no append failed')
	  or diag($bench_out . $bench_err);
	cmp_ok($rebuilds, '>', 2, 'rebuilt indexes: there were some');
}

# A waiting append whose session is ended lets go at once.
($in, $out, $err) = ('', '', '');
my $owner = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
$in = "BEGIN; SELECT version FROM alvyn.append('held', 0, 'A', '1');\n";
$owner->pump until $out =~ /1/;
my ($waiter_out, $waiter_err) = ('', '');
my $waiter = start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=waiter',
		'-c', "SELECT alvyn.append('held', NULL, 'A', '2')" ], '>', \$waiter_out, '2>', \$waiter_err);
$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE application_name = 'waiter'")
	or die 'nobody waits';
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'");
$waiter->finish;
like($waiter_err, qr/terminating connection due to administrator command/, 'the waiting session ends');
$in = "COMMIT;\n\\q\n";
$owner->finish;
is($node->safe_psql('postgres', "SELECT version FROM alvyn.append('held', 1, 'A', '3')"), '2', 'the stream works afterwards');

is($node->safe_psql('postgres', 'SELECT broken_streams, ok FROM alvyn.verify()'), '0|t', 'the store is whole');
$node->stop;
done_testing();
