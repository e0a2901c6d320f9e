# Who waits for events is woken by the transaction that brings them.
#
# No event falls between looking and sleeping; a wait ends only when there is
# something final to read, also when a rollback or another process has made it
# so; whoever waited leaves nothing behind, however it ended.  All of that
# holds without preloading too, only later.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
my $preloaded;
my $waiting = "(SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter' AND state = 'active' AND wait_event_type = 'Extension')";

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

# Start statements in a session of their own.
sub start
{
	my ($sql, $database) = @_;
	my $session = { out => '' };

	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($database // 'postgres'), '-c', "SET application_name = 'waiter'", map { ('-c', $_) } split /;;/, $sql ],
		'<', '/dev/null', '>&', \$session->{out}, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $session;
}

# Start one that waits, and let it fall asleep.
sub start_waiter
{
	my $session = start(@_);

	$node->poll_query_until('postgres', "SELECT $waiting = 1") or BAIL_OUT('the waiter does not sleep');
	return $session;
}

sub result
{
	my ($session) = @_;
	IPC::Run::finish($session->{run});
	chomp $session->{out};
	return $session->{out};
}

# That a waiter sleeps on although it was woken: it has looked at what was
# committed, so it cannot take it for new any more.
sub sleeps_on
{
	my ($session, $name) = @_;
	query("SELECT pg_sleep(0.1)");
	IPC::Run::pump_nb($session->{run});
	is($session->{out} . query("SELECT $waiting"), '1', $name);
	return;
}

# Two sessions in turns, each waiting for the event of the other and answering
# at once: that is when it may come between the look and the sleep.
sub ping_pong
{
	my ($rounds) = @_;
	my $turn = q{DO $do$
		DECLARE
			p bigint := %d;
			e record;
		BEGIN
			FOR i IN 1 .. %d LOOP
				%s
				COMMIT;
				IF NOT alvyn.wait_position(p, '30 seconds', types => '{%s}') THEN
					RAISE EXCEPTION 'nothing came';
				END IF;
				SELECT position INTO STRICT e FROM alvyn.read(p, 1, types => '{%s}');
				p := e.position;
				%s
				COMMIT;
			END LOOP;
		END $do$};
	my $from = query('SELECT alvyn.last_position()');
	my $ping = "PERFORM alvyn.append('ping-1', NULL, 'Ping', '1');";
	my $pong = "PERFORM alvyn.append('pong-1', NULL, 'Pong', '1');";
	my $a = start(sprintf($turn, $from, $rounds, '', 'Ping', 'Ping', $pong));
	my $b = start(sprintf($turn, $from, $rounds, $ping, 'Pong', 'Pong', ''));

	is(result($a) . result($b), '', "$rounds turns");

	# How many answers came only with the next look of the waiter itself.
	return query("SELECT count(*) FROM (SELECT time - lag(time) OVER (ORDER BY position) AS pause FROM alvyn.read($from, NULL, types => '{Ping,Pong}')) p WHERE pause > '0.9 s'");
}

# What must hold with and without preloading.
sub check_waits
{
	my $how = $preloaded ? 'preloaded' : 'not preloaded';
	my ($p, $w);

	query("TRUNCATE alvyn.events, alvyn.streams");
	$p = query('SELECT alvyn.last_position()');
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	is(query('SELECT alvyn.waiters()'), $preloaded ? 1 : '', "$how: waiters are counted");
	query("SELECT alvyn.append('a-1', NULL, 'A', '1')");
	is(result($w), 't', "$how: an append ends a wait");
	is(query('SELECT alvyn.waiters()'), $preloaded ? 0 : '', "$how: and then nobody waits");

	# What others append, elsewhere or behind, is not waited for.
	$p = query('SELECT alvyn.last_position()');
	$w = start_waiter("SELECT alvyn.wait_position($p, '60 seconds', category => 'b')");
	query("SELECT alvyn.append('a-1', NULL, 'A', '2')");
	sleeps_on($w, "$how: an event of another category does not end it");
	query("SELECT alvyn.append('b-1', NULL, 'B', '1')");
	is(result($w), 't', "$how: one of its own does");
	$p = query('SELECT alvyn.last_position()');
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	$node->safe_psql('other', "SELECT count(alvyn.append('o-1', NULL, 'O', '1')) FROM generate_series(1, $p + 10)");
	sleeps_on($w, "$how: an event of another database does not end it");

	# An event behind one that is not final, and behind a hole.
	my $open = $node->background_psql('postgres');
	$open->query_safe("BEGIN; SELECT alvyn.append('c-1', NULL, 'C', '1')");
	query("SELECT alvyn.append('a-1', NULL, 'A', '3')");
	sleeps_on($w, "$how: nor one behind an event that is not committed");
	$open->query_safe('COMMIT');
	is(result($w), 't', "$how: the commit of that does");
	$p = query('SELECT alvyn.last_position()');
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	$open->query_safe("BEGIN; SAVEPOINT s; SELECT alvyn.append('c-1', NULL, 'C', '2'); ROLLBACK TO s");
	query("SELECT setval('alvyn.events_position_seq', alvyn.last_position() + 1)");
	query("SELECT alvyn.append('a-1', NULL, 'A', '4')");
	sleeps_on($w, "$how: nor one behind a hole that may be filled");
	$open->query_safe('ROLLBACK');
	is(result($w), 't', "$how: the rollback that closes the hole does");
	$p = query('SELECT alvyn.last_position()');
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	$open->query_safe("BEGIN; SELECT alvyn.append('c-1', NULL, 'C', '3'); ROLLBACK");
	sleeps_on($w, "$how: a rollback that brings nothing does not");

	# A waiter that is cancelled goes on, one that is terminated is gone.
	query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'");
	like(result($w), qr/canceling statement/, "$how: a wait can be cancelled");
	is(query('SELECT alvyn.waiters()'), $preloaded ? 0 : '', "$how: the cancelled one is gone");
	$w = start_waiter("DO \$\$ BEGIN PERFORM alvyn.wait($p, '60 seconds'); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60); END \$\$");
	query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'waiter' AND wait_event = 'PgSleep'");
	is(query('SELECT alvyn.waiters()'), $preloaded ? 0 : '', "$how: also when its transaction goes on");
	query("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'waiter'");
	result($w);
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	query("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'waiter'");
	like(result($w), qr/terminating connection/, "$how: a waiter can be terminated");
	is(query('SELECT alvyn.waiters()'), $preloaded ? 0 : '', "$how: the terminated one is gone");

	# Prepared transactions end in another process.
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	query("BEGIN; SELECT alvyn.append('p-1', NULL, 'P', '1'); PREPARE TRANSACTION 'wake'");
	sleeps_on($w, "$how: a prepared transaction does not end a wait");
	query("COMMIT PREPARED 'wake'");
	is(result($w), 't', "$how: its commit does");

	# A killed one takes the server down, which comes up with nobody waiting.
	$p = query('SELECT alvyn.last_position()');
	$w = start_waiter("SELECT alvyn.wait($p, '60 seconds')");
	my $pid = query("SELECT pid FROM pg_stat_activity WHERE application_name = 'waiter'");
	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', 'kill', 'KILL', $pid);
	result($w);
	$open->{run}->kill_kill;
	$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('no recovery');
	is(query('SELECT alvyn.waiters()'), $preloaded ? 0 : '', "$how: a killed one is gone after recovery");
	$w = start_waiter("SELECT alvyn.wait(alvyn.last_position(), '60 seconds')");
	query("SELECT alvyn.append('a-1', NULL, 'A', '5')");
	is(result($w), 't', "$how: and waiting goes on");
	return;
}

$node->init;
$node->append_conf('postgresql.conf', "max_prepared_transactions = 0\nautovacuum = off\nrestart_after_crash = on\n");
$node->start;
foreach my $database ('postgres', 'other')
{
	$node->safe_psql('postgres', 'CREATE DATABASE other') if $database eq 'other';
	$node->safe_psql($database, 'CREATE EXTENSION alvyn');
}
ping_pong(20);

# A wake-up that is lost costs the second until the next look by itself.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'alvyn'\n");
$node->restart;
my $lost = ping_pong(1000);
cmp_ok($lost, '<=', 1, "no wake-up is lost: $lost of 1000 turns waited for a look");

# The end of a transaction that leaves a hole wakes too, after its locks are gone.
my $open = $node->background_psql('postgres');
my $late = 0;
foreach my $round (1 .. 10)
{
	my $p = query('SELECT alvyn.last_position()');
	my $w = start_waiter("SELECT alvyn.wait($p, '60 seconds');; SELECT clock_timestamp()");
	$open->query_safe("BEGIN; SAVEPOINT s; SELECT alvyn.append('c-1', NULL, 'C', '2'); ROLLBACK TO s");
	query("SELECT setval('alvyn.events_position_seq', alvyn.last_position() + 1)");
	query("SELECT alvyn.append('a-1', NULL, 'A', '4')");
	sleeps_on($w, "round $round: a hole");
	my $end = $open->query_safe($round % 2 ? 'SELECT clock_timestamp(); ROLLBACK' : 'SELECT clock_timestamp(); COMMIT');
	my ($found, $time) = split /\n/, result($w);
	$late += query("SELECT extract(epoch FROM '$time'::timestamptz - '$end')");
}
cmp_ok($late, '<', 2, "10 holes are closed and seen within $late s");
$open->quit;

$node->append_conf('postgresql.conf', "max_prepared_transactions = 2\n");
$node->restart;
$preloaded = 1;
check_waits();
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$preloaded = 0;
check_waits();
$node->stop;
done_testing();
