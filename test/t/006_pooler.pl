# Every function through every protocol, and through a transaction pooler.
#
# Case 22: the simple, extended and prepared protocol give the same results,
# also in the many executions after which a plan is kept; a pooler that gives
# each transaction another connection changes nothing, because no function
# leaves anything in its session.
use strict;
use warnings;

use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 30\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION alvyn');
my $dir = $node->basedir;

# One round of a client: seven events for its stream :m/:client_id, each
# function once, and a division by zero if anything is not as it must be.
append_to_file("$dir/round.sql", q{
\set r :r + 1
\set v 7 * (:r - 1)
SELECT 1 / (version = (:v)::bigint + 1)::int FROM alvyn.append(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint, 'A', to_jsonb((:v)::bigint + 1), idempotency_key => concat((:m)::int, '/', (:client_id)::int, '/', (:r)::int));
SELECT 1 / duplicate::int FROM alvyn.append(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint, 'A', to_jsonb((:v)::bigint + 1), idempotency_key => concat((:m)::int, '/', (:client_id)::int, '/', (:r)::int));
SELECT 1 / (conflict AND version = (:v)::bigint + 1)::int FROM alvyn.try_append(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint, 'X', '{}');
SELECT 1 / (NOT conflict)::int FROM alvyn.try_append(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint + 1, 'B', to_jsonb((:v)::bigint + 2), '{"m": 1}', NULL, '2024-01-01 00:00+00', 2);
BEGIN;
SELECT 1 / (version = (:v)::bigint + 4)::int FROM alvyn.append_batch(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint + 2, ARRAY['C', 'D'], ARRAY[to_jsonb((:v)::bigint + 3), to_jsonb((:v)::bigint + 4)]);
SELECT 1 / (version = (:v)::bigint + 5)::int FROM alvyn.try_append_batch(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint + 4, ARRAY['E'], ARRAY[to_jsonb((:v)::bigint + 5)]);
COMMIT;
SELECT 1 / (version = (:v)::bigint + 6)::int FROM alvyn.append_streams(ARRAY[concat((:m)::int, '/', (:client_id)::int)], ARRAY['F'], ARRAY[to_jsonb((:v)::bigint + 6)], NULL, ARRAY[concat((:m)::int, '/', (:client_id)::int)], ARRAY[(:v)::bigint + 5]);
SELECT 1 / (conflict)::int FROM alvyn.try_append_streams(ARRAY['x'], ARRAY['X'], ARRAY['{}'::jsonb], NULL, ARRAY[concat((:m)::int, '/', (:client_id)::int)], ARRAY[(:v)::bigint]);
SELECT 1 / (NOT conflict)::int FROM alvyn.try_append_streams(ARRAY[concat((:m)::int, '/', (:client_id)::int)], ARRAY['G'], ARRAY[to_jsonb((:v)::bigint + 7)]);
SELECT 1 / (alvyn.stream_version(concat((:m)::int, '/', (:client_id)::int)) = (:v)::bigint + 7)::int;
SELECT 1 / (count(*) = 5 AND min(version) = (:v)::bigint + 3)::int FROM alvyn.load(concat((:m)::int, '/', (:client_id)::int), (:v)::bigint + 3);
SELECT 1 / (array_agg(data)::text = concat('{', (:v)::bigint + 7, ',', (:v)::bigint + 6, '}'))::int FROM alvyn.load(concat((:m)::int, '/', (:client_id)::int), 1, 2, true);
SELECT 1 / (version = (:v)::bigint + 7)::int FROM alvyn.list_streams(concat((:m)::int, '/', (:client_id)::int), NULL, 1);
SELECT 1 / (ok AND stored_events = (:v)::bigint + 7)::int FROM alvyn.verify(concat((:m)::int, '/', (:client_id)::int));
SELECT 1 / (count(*) = 0)::int FROM alvyn.verify_streams(concat((:m)::int, '/', (:client_id)::int));
SELECT 1 / (starts_with(alvyn.store_digest(concat((:m)::int, '/', (:client_id)::int)), concat((:v)::bigint + 7, ':')))::int;
SELECT 1 / ((alvyn.contiguous(version)).ok AND alvyn.sum_number(data, VARIADIC '{}') = sum(version))::int FROM alvyn.load(concat((:m)::int, '/', (:client_id)::int));
SELECT 1 / (alvyn.stream_slot('account-1') = 927)::int;
});

# What the streams of a run hold, but for their names, times and positions.
sub content
{
	my ($m) = @_;
	return $node->safe_psql('postgres', qq{
		SELECT count(DISTINCT s.stream_id), count(*), md5(string_agg(concat_ws('|', substr(s.stream_id, 3), e.version, e.type, e.data,
			e.metadata, e.schema_version, e.id = concat(s.stream_id, '/', e.version)), E'\\n' ORDER BY s.stream_id, e.version))
		FROM alvyn.list_streams('$m/') s, LATERAL alvyn.load(s.stream_id) e});
}

my $pooler;
END { $pooler->kill_kill if $pooler; }

my $run = 0;
my $expected;
sub rounds
{
	my ($name, $host, $port, @options) = @_;
	$run++;
	my ($out, $err);
	my $ok = run_log([ 'pgbench', '-n', '-D', 'r=0', '-D', "m=$run", '-c', '4', '-j', '2', '-t', '25', @options,
			'-f', "$dir/round.sql", '-h', $host, '-p', $port, 'postgres' ], '>', \$out, '2>', \$err);
	ok($ok && $out =~ m{actually processed: 100/100\b} && $out !~ /failed transactions: [1-9]/, "$name: every result is right")
	  or diag($out . $err);
	$expected //= content($run);
	is(content($run), $expected, "$name: the streams are the same");
	return;
}

rounds($_, $node->host, $node->port, '-M', $_) for qw(simple extended prepared);
like($expected, qr/^4\|700\|/, '25 rounds of 4 clients');
$node->safe_psql('postgres', 'UPDATE alvyn.idempotency_keys SET created_at = now() - interval $$8 days$$');
is($node->safe_psql('postgres', 'SELECT alvyn.purge_idempotency_keys(200), alvyn.purge_idempotency_keys(200)'), '200|100', 'keys are purged');

SKIP:
{
	my ($pgbouncer) = grep { -x $_ } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';
	skip 'there is no pgbouncer', 1 unless $pgbouncer;

	# Two connections for all clients, so that they change all the time.
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $sockets = PostgreSQL::Test::Utils::tempdir_short();
	my $user = $node->safe_psql('postgres', 'SELECT current_user');
	append_to_file("$dir/pgbouncer.ini", qq{
[databases]
postgres = host=@{[ $node->host ]} port=@{[ $node->port ]} user=$user
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $sockets
logfile = $dir/pgbouncer.log
auth_type = any
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = extra_float_digits
});
	$pooler = start([ $pgbouncer, '-q', "$dir/pgbouncer.ini" ]);
	for (1 .. 300)
	{
		last if -S "$sockets/.s.PGSQL.$port";
		usleep(100_000);
	}
	my ($version) = `$pgbouncer --version` =~ /PgBouncer (\d+\.\d+)/;
	my @protocols = qw(simple extended);
	push @protocols, 'prepared' if $version =~ /^1\.(\d+)/ && $1 >= 21 || $version =~ /^[2-9]/;
	note "pgbouncer $version";
	rounds("pooled, $_", $sockets, $port, '-M', $_) for @protocols;
	is( $node->safe_psql('postgres', q{
		SELECT count(*) BETWEEN 1 AND 2 FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}), 't', 'pooled: clients shared two connections');
	is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE a.backend_type = 'client backend' AND pid <> pg_backend_pid()}), '0', 'pooled: nothing is left locked');
	$pooler->kill_kill;
	undef $pooler;
}

is($node->safe_psql('postgres', 'SELECT broken_streams, ok FROM alvyn.verify()'), '0|t', 'the store is whole');
$node->stop;
done_testing();
