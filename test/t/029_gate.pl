# Only so many transactions append at the same time.
#
# The next ones wait in order, the others are refused at once with 53000.  A
# place is kept to the end of the transaction, whatever that is; who waits and
# is cancelled or terminated leaves nothing behind.  Whoever does not append is
# not asked.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
my $append = "SELECT (alvyn.append('%s', NULL, 'A', '1')).version";
my $overloaded = qr/ERROR:  53000: too many appends in flight\n.*CONSTRAINT NAME:  overloaded/s;
my $free = '0|0';

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

# In flight and queued.
sub status
{
	return query('SELECT in_flight, queued FROM alvyn.gate_status()');
}

sub becomes
{
	my ($expected, $name) = @_;
	ok($node->poll_query_until('postgres', 'SELECT in_flight, queued FROM alvyn.gate_status()', $expected), $name);
	return;
}

# The error of a statement, or its result.
sub attempt
{
	my ($sql, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database // 'postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	return $rc == 0 ? $out : $err;
}

# Statements in a session of their own.
sub start
{
	my ($name, @statements) = @_;
	my $session = { out => '' };

	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'),
		map { ('-c', $_) } "SET application_name = '$name'", @statements ],
		'<', '/dev/null', '>&', \$session->{out}, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $session;
}

sub result
{
	my ($session) = @_;
	IPC::Run::finish($session->{run});
	chomp $session->{out};
	return $session->{out};
}

sub set
{
	my ($name, $value) = @_;
	query("LOAD 'alvyn';\nALTER SYSTEM SET alvyn.$name = $value");
	query('SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', "SELECT $name = $value FROM alvyn.gate_status()") or BAIL_OUT("$name is not set");
	return;
}

$node->init;
$node->append_conf('postgresql.conf', "max_prepared_transactions = 5\nautovacuum = off\nrestart_after_crash = on\n");
$node->start;
foreach my $database ('postgres', 'other')
{
	$node->safe_psql('postgres', 'CREATE DATABASE other') if $database eq 'other';
	$node->safe_psql($database, 'CREATE EXTENSION alvyn');
}
query(q{SELECT alvyn.create_snapshot('Last', 'e', 100, '{"last": 0}', rules => '{"A": {"last": {"set": 1}}}');
	CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE AS
		$$ SELECT 'A', '1'::jsonb, NULL::jsonb, NULL, NULL::timestamptz, NULL::int $$;
	SELECT alvyn.create_decider('e', 'e', 'Last', 'decide(jsonb, jsonb)')});

# Not preloaded: no gate, and it says so.
is(query('SELECT * FROM alvyn.gate_status()'), 'f|||64|128|||||', 'not preloaded: the gate is not active');
like(attempt("LOAD 'alvyn'; SET alvyn.queue_timeout = '1s'"), qr/^$/, 'not preloaded: a time-out can be set');
my ($rc, $out, $err) = $node->psql('postgres', "LOAD 'alvyn';\nALTER SYSTEM SET alvyn.max_concurrent = 1");
like($err, qr/WARNING:  the limit has no effect\n.*shared_preload_libraries/s, 'not preloaded: setting a limit warns');
$node->reload;
my $a = $node->background_psql('postgres');
$a->query_safe('BEGIN; ' . sprintf($append, 'a'));
is(query(sprintf($append, 'b')), '1', 'not preloaded: nobody waits');
$a->quit;

# Preloaded: two places, one may wait.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'alvyn'\n");
$node->restart;
set('max_concurrent', 2);
set('max_queued', 1);
is(status(), $free, 'nobody is inside');
$a = $node->background_psql('postgres');
my $b = $node->background_psql('other');
$a->query_safe('BEGIN; ' . sprintf($append, 'a'));
$a->query_safe(sprintf($append, 'a2'));
is(status(), '1|0', 'a transaction takes one place');
is(query('SELECT oldest_pid, oldest_since < clock_timestamp() FROM alvyn.gate_status()'), $a->query_safe('SELECT pg_backend_pid()') . '|t', 'the oldest is known');
$b->query_safe('BEGIN; SAVEPOINT s; ' . sprintf($append, 'b') . '; ROLLBACK TO s');
is(status(), '2|0', 'it keeps it over a rollback to a savepoint, and databases share the places');
my $c = start('c', sprintf($append, 'c'));
becomes('2|1', 'the third waits');
like(attempt(sprintf($append, 'd')), $overloaded, 'the fourth is refused');
like(attempt(sprintf($append, 'd')), qr/DETAIL:  2 are in flight and 1 wait.*HINT:  Retry in \d+ ms\./s, 'and told when to come again');
like(attempt(sprintf($append, 'd'), 'other'), $overloaded, 'also in another database');
foreach my $call ("alvyn.try_append('d', NULL, 'A', '1')", "alvyn.append_batch('d', NULL, '{A}', '{1}')",
	"alvyn.append_streams('{d}', '{A}', '{1}')", "alvyn.execute('e-1', '{}')", "alvyn.execute_streams('{e-1}', '{1}')")
{
	like(attempt("SELECT $call"), $overloaded, "so is $call");
}
like(attempt("CREATE ROLE app SUPERUSER; SET ROLE app; " . sprintf($append, 'd')), $overloaded, 'so is a superuser');
cmp_ok(query(q{LOAD 'alvyn'; DO $$
	DECLARE
		v_start timestamptz := clock_timestamp();
	BEGIN
		FOR i IN 1 .. 100 LOOP
			BEGIN
				PERFORM alvyn.append('d', NULL, 'A', '1');
				RAISE EXCEPTION 'not refused';
			EXCEPTION WHEN insufficient_resources THEN NULL;
			END;
		END LOOP;
		PERFORM set_config('test.ms', (extract(epoch FROM clock_timestamp() - v_start) * 10)::text, false);
	END $$; SELECT current_setting('test.ms')}), '<', 1, 'a refusal takes less than a millisecond');
is(query("SELECT count(*) FROM alvyn.load('a'); SELECT count(*) FROM alvyn.read(wait => false); SELECT state FROM alvyn.state('e-1', 'Last'); SELECT ok FROM alvyn.verify(); SELECT active FROM alvyn.gate_status()"),
	"0\n1\n{\"last\": 0}\nt\nt", 'loads, the feed, states and status are not asked');

# The end of a transaction lets the first of the queue in.
set('max_queued', 10);
my @queue = ($c);
foreach my $i (1 .. 4)
{
	push @queue, start("q$i", "SET alvyn.queue_timeout = 0", 'BEGIN', sprintf($append, 'q'), "INSERT INTO came VALUES ('q$i')", 'COMMIT');
	query('CREATE TABLE came (name text, no serial)') if $i == 1;
	becomes('2|' . ($i + 1), "$i more wait");
}
$a->query_safe('COMMIT');
is(result($_) =~ s/\n//gr, $_ == $c ? '1' : $queue[1] == $_ ? '1' : $queue[2] == $_ ? '2' : $queue[3] == $_ ? '3' : '4', 'one comes in') foreach @queue;
is(query("SELECT string_agg(name, ' ' ORDER BY no) FROM came"), 'q1 q2 q3 q4', 'all in the order in which they came');
is(status(), '1|0', 'and went');
$b->query_safe('ROLLBACK');
is(status(), $free, 'a rollback gives the place back');

# Other ends of transactions.
set('max_concurrent', 1);
query("BEGIN; " . sprintf($append, 'p') . "; PREPARE TRANSACTION 'gate'");
is(status(), $free, 'a prepared transaction gives its place back');
query("COMMIT PREPARED 'gate'");
$a->query_safe('BEGIN; ' . sprintf($append, 'a'));
my $pid = query("SELECT oldest_pid FROM alvyn.gate_status()");
query("SELECT pg_terminate_backend($pid, 10000)");
$a->{run}->kill_kill;
becomes($free, 'a terminated session gives its place back');

# Waiters that do not wait to the end.
$b->query_safe('BEGIN; ' . sprintf($append, 'b'));
becomes('1|0', 'one is inside');
my $end = "FROM pg_stat_activity WHERE application_name = 'w'";
my $w = start('w', sprintf($append, 'w'));
becomes('1|1', 'one waits');
query("SELECT pg_cancel_backend(pid) $end");
like(result($w), qr/57014/, 'a waiter can be cancelled');
becomes('1|0', 'and does not wait any more');
$w = start('w', sprintf($append, 'w'));
becomes('1|1', 'one waits');
query("SELECT pg_terminate_backend(pid, 10000) $end");
like(result($w), qr/57P01/, 'a waiter can be terminated');
becomes('1|0', 'and does not wait any more');
like(attempt("SET statement_timeout = '50ms'; " . sprintf($append, 'w')), qr/57014/, 'statement_timeout ends a wait');
like(attempt("SET alvyn.queue_timeout = '50ms'; " . sprintf($append, 'w')), $overloaded, 'so does alvyn.queue_timeout');
is(status(), '1|0', 'and nobody waits any more');

# In the middle of the queue, in a transaction that goes on.
my $x = start('x', sprintf($append, 'x'));
becomes('1|1', 'one waits');
$w = start('w', q{DO $$ BEGIN PERFORM alvyn.append('w', NULL, 'A', '1'); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60); END $$});
becomes('1|2', 'another waits');
my $y = start('y', sprintf($append, 'y'));
becomes('1|3', 'and a third');
query("SELECT pg_cancel_backend(pid) $end");
becomes('1|2', 'the second is cancelled and goes on otherwise');
$b->query_safe('COMMIT');
is(result($x) . result($y), '11', 'the others come in');
is(status(), $free, 'and nobody is left');
query("SELECT pg_terminate_backend(pid, 10000) $end");
result($w);

# Many that are cancelled: four sessions that come and go in a queue of two.
set('max_queued', 2);
$b->query_safe('BEGIN; ' . sprintf($append, 'b'));
my $many = q{DO $$ BEGIN FOR i IN 1 .. 2500 LOOP
	BEGIN
		PERFORM set_config('alvyn.queue_timeout', '1', false);
		PERFORM alvyn.append('m', NULL, 'A', '1');
		RAISE EXCEPTION 'came in';
	EXCEPTION WHEN insufficient_resources THEN NULL;
	END;
	IF i % 500 = 0 THEN COMMIT; END IF;
	END LOOP; END $$};
my @many = map { start("m$_", "LOAD 'alvyn'", $many) } 1 .. 4;
is(join('', map { result($_) } @many), '', '10000 give up');
is(status(), '1|0', 'none of them is left');
foreach my $i (1 .. 20)
{
	$node->psql('postgres', "SET statement_timeout = '2ms';\n" . join("\n", map { sprintf($append, 'm') . ';' } 1 .. 20), on_error_stop => 0);
}
is(status(), '1|0', 'so it is after 400 statements that were cancelled');
$b->query_safe('COMMIT');
is(query(sprintf($append, 'm')), '1', 'and the next comes in');
is(status(), $free, 'and goes');

# A limit that is taken away lets all in; a crash leaves nobody inside.
$b->query_safe('BEGIN; ' . sprintf($append, 'b'));
$w = start('w', sprintf($append, 'w'));
becomes('1|1', 'one waits');
set('max_concurrent', 0);
is(query(q{SET alvyn.queue_timeout = 0; SELECT max_concurrent FROM alvyn.gate_status()}), '0', 'no limit');
$b->query_safe('COMMIT');
is(result($w), '1', 'and comes in');
$b->query_safe('BEGIN; ' . sprintf($append, 'b'));
is(query(sprintf($append, 'm')), '2', 'without a limit nobody waits');
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', 'kill', 'KILL', query('SELECT oldest_pid FROM alvyn.gate_status()'));
$b->{run}->kill_kill;
$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('no recovery');
is(status(), $free, 'nobody is inside after a crash');
$node->stop;
done_testing();
