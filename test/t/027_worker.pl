# The background worker.
#
# It runs enabled projections to the end of the feed; one that fails is tried
# again later and later and holds up no other.  It survives being killed, ends
# when it is told to or the extension is gone, and is alone in its database.
# It sends at most one NOTIFY per interval, of nothing that is not final, and
# who listens, catches up and waits misses nothing.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "autovacuum = off\nmax_worker_processes = 8\nrestart_after_crash = on\n");
$node->start;

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

sub failure
{
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$_[0]");
	return join ' ', $err =~ /ERROR:\s+(\w+)/, $err =~ /CONSTRAINT NAME:\s+(\w+)/;
}

sub until_true
{
	my ($condition, $name) = @_;
	ok($node->poll_query_until('postgres', "SELECT $condition"), $name);
	return;
}

sub append
{
	my ($stream, $count) = @_;
	return query("SELECT max((alvyn.append('$stream', NULL, 'A', to_jsonb(i))).last_position) FROM generate_series(1, $count) i");
}

query(q{
	CREATE EXTENSION alvyn;
	CREATE TABLE handled (projection text, position bigint, PRIMARY KEY (projection, position));
	CREATE TABLE broken (position bigint);
	CREATE FUNCTION good(event alvyn.event) RETURNS void LANGUAGE sql AS $$INSERT INTO handled VALUES ('good', event.position)$$;
	CREATE FUNCTION batch(events alvyn.event[]) RETURNS void LANGUAGE sql AS $$INSERT INTO handled SELECT 'batch', e.position FROM unnest(events) e$$;
	CREATE FUNCTION fragile(event alvyn.event) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF EXISTS (SELECT FROM broken b WHERE b.position = event.position) THEN
			RAISE EXCEPTION USING ERRCODE = 'ZZZZZ', MESSAGE = 'broken';
		END IF;
		INSERT INTO handled VALUES ('fragile', event.position);
	END $$;
	SELECT alvyn.create_projection('good', 'good(alvyn.event)'), alvyn.create_projection('batch', 'batch(alvyn.event[])'),
		alvyn.create_projection('fragile', 'fragile(alvyn.event)'), alvyn.create_projection('idle', 'good(alvyn.event)');
	SELECT alvyn.enable_projection(n) FROM unnest(ARRAY['good', 'batch', 'fragile']) n});

sub complete
{
	my ($projection, $name) = @_;
	until_true("(SELECT count(*) FROM handled WHERE projection = '$projection') = (SELECT count(*) FROM alvyn.events)", $name);
	return;
}

# To the end, and from then on.
append('s-1', 1200);
is(query('SELECT alvyn.worker_pid() IS NULL, alvyn.stop_worker()'), 't|f', 'there is no worker');
my $pid = query('SELECT alvyn.start_worker()');
is(query('SELECT alvyn.worker_pid()'), $pid, 'there is one');
is(query("SELECT backend_type, usename = current_user, datname FROM pg_stat_activity WHERE pid = $pid"), 'alvyn worker|t|postgres',
	'in this database, as who started it');
complete($_, "$_ is run to the end") foreach 'good', 'batch', 'fragile';
append('s-2', 10);
complete('good', 'and goes on when events come');
is(query("SELECT position FROM alvyn.projection_status WHERE name = 'idle'"), '0', 'a projection that is not enabled is left alone');
is(failure('SELECT alvyn.start_worker()'), '55000 worker', 'a second worker is refused');

# Several start one at the same time: one is started.
ok(query('SELECT alvyn.stop_worker()') eq 't' && query('SELECT alvyn.worker_pid() IS NULL') eq 't', 'it ends when it is told to');
my $starts = "DO \$do\$ BEGIN PERFORM alvyn.start_worker(); RAISE NOTICE 'started'; EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END \$do\$";
my @starters = map {
	my $out = '';
	[ IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $starts ], '<', '/dev/null', '>&', \$out), \$out ]
} 1 .. 4;
IPC::Run::finish($_->[0]) foreach @starters;
is(scalar(grep { ${ $_->[1] } =~ /started/ } @starters), 1, 'of four that start a worker one does');

# A failing handler.
my $bad = append('s-1', 1);
query("BEGIN; INSERT INTO broken VALUES ($bad + 1); COMMIT");
append('s-1', 5);
complete('good', 'the others go on');
until_true("failures >= 2 FROM alvyn.projection_status WHERE name = 'fragile'", 'it is tried again');
is(query("SELECT state, error_sqlstate, error_message, error_position - $bad, retry_at > now() - interval '1 minute' FROM alvyn.projection_status WHERE name = 'fragile'"),
	'stopped|ZZZZZ|broken|1|t', 'the error is recorded');
is(query("SELECT max(position) < $bad + 1 FROM handled WHERE projection = 'fragile'"), 't', 'what failed is rolled back');
# The log tells how often it was really tried.
my $tried = () = slurp_file($node->logfile) =~ /ERROR:  broken/g;
is(query("SELECT failures BETWEEN $tried AND $tried + 1 FROM alvyn.projection_status WHERE name = 'fragile'"), 't', 'and not more often than recorded');
cmp_ok($tried, '<=', 4, 'with growing pauses');
query('DELETE FROM broken');
complete('fragile', 'it goes on once it can');
until_true("state = 'active' AND failures = 0 FROM alvyn.projection_status WHERE name = 'fragile'", 'and is forgiven');

# A rebuild is carried through.
query("UPDATE handled SET projection = 'old' WHERE projection = 'good'; SELECT alvyn.rebuild_projection('good')");
until_true("generation = 2 AND building IS NULL FROM alvyn.projection_status WHERE name = 'good'", 'a rebuild is carried through');
complete('good', 'and has every event');

# The worker is killed: the server starts it again.
$pid = query('SELECT alvyn.worker_pid()');
kill 'KILL', $pid;
$node->poll_query_until('postgres', "SELECT alvyn.worker_pid() <> $pid");
append('s-2', 100);
complete($_, "$_: every event once after the worker was killed") foreach 'good', 'batch';

# A restart of the server ends it.
$node->restart;
is(query('SELECT alvyn.worker_pid() IS NULL'), 't', 'there is none after a restart of the server');
append('s-2', 100);
query("SELECT alvyn.start_worker('300 ms', '1 s')");
complete($_, "$_: every event once after a restart") foreach 'good', 'batch';

# Notifications: not more than one per interval, and the last one tells all.
my $listener = $node->background_psql('postgres');
my @payloads;
sub received
{
	push @payloads, $listener->query('SELECT 1') =~ /payload "(\d+)"/g;
	return;
}

sub until_received
{
	my ($position, $name) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	received();
	while ((!@payloads || $payloads[-1] < $position) && time < $end)
	{
		query('SELECT pg_sleep(0.01)');
		received();
	}
	cmp_ok($payloads[-1] // 0, '>=', $position, $name);
	return;
}

$listener->query('LISTEN alvyn');
my $start = time;
my $last = 0;
$last = append('n-1', 1) while time < $start + 2;
until_received($last, 'the last event is notified of');
my $most = int((time - $start) / 0.3) + 2;
cmp_ok(scalar(@payloads), '<=', $most, 'at most one notification per interval');
cmp_ok(scalar(@payloads), '>=', 3, 'and not only one');
is_deeply(\@payloads, [ sort { $a <=> $b } @payloads ], 'positions grow');

# Who listens, then catches up, then waits, is told of what came in between.
my $catch_up = query("SELECT max(position) FROM alvyn.read($last - 1)");
my $between = append('n-1', 1);
@payloads = ();
until_received($between, 'an event between catching up and waiting is notified of');
cmp_ok($between, '>', $catch_up, 'it was not read before');

# Nothing that is not final.
my $open = $node->background_psql('postgres');
$open->query("BEGIN; SELECT alvyn.append('open-1', NULL, 'A', '1')");
query(q{CREATE FUNCTION n(event alvyn.event) RETURNS void LANGUAGE sql AS $$INSERT INTO handled VALUES ('n', event.position)$$;
	SELECT alvyn.create_projection('n', 'n(alvyn.event)', category => 'n', start => 'now'), alvyn.enable_projection('n')});
@payloads = ();
my $behind = append('n-1', 1);
until_true("EXISTS (SELECT FROM handled WHERE projection = 'n' AND position = $behind)", 'the worker has seen an event behind an open one');
# A round has gone by since, and a whole interval.
query('SELECT pg_sleep(0.4)');
append('n-1', 1);
until_true("(SELECT count(*) FROM handled WHERE projection = 'n') = 2", 'and looked again');
received();
is(scalar(grep { $_ >= $behind - 1 } @payloads), 0, 'but notified of nothing behind what is open');
$open->query('COMMIT');
until_received($behind, 'only when it has committed');
$open->quit;

# A listener dies; the others are told.
my $dying = $node->background_psql('postgres');
$dying->query('LISTEN alvyn');
my $dying_pid = $dying->query('SELECT pg_backend_pid()');
query("SELECT pg_terminate_backend($dying_pid, 10000)");
@payloads = ();
until_received(append('n-1', 1), 'a listener that dies takes nothing from others');
eval { $dying->quit };
# One that comes late is told of the next event.
$listener->quit;
append('n-1', 1);
$listener = $node->background_psql('postgres');
$listener->query('LISTEN alvyn');
@payloads = ();
until_received(append('n-1', 1), 'one that comes late is told of the next event');
$listener->quit;

# It maintains: what is due goes, in one interval however many batches of the
# worker that takes, and usage is added up before.
query('SELECT alvyn.stop_worker()');
my $due = append('old-1', 2500);
query(q{SELECT alvyn.set_quota('acme', 'month', 1000000), alvyn.set_retention('old-', NULL, 10)});
query(q{SET alvyn.tenant = 'acme'; SELECT alvyn.append('old-2', NULL, 'A', '1')});
query("SELECT alvyn.start_worker(maintain_interval => '1 hour')");
until_true("(SELECT count(*) FROM alvyn.load('old-1')) = 10", 'the worker applies retention');
until_true("(SELECT sum(events) FROM alvyn.usage) = 1", 'and adds usage up');
query("SELECT alvyn.tombstone_stream('old-1'), alvyn.stop_worker()");
query("SELECT alvyn.start_worker(maintain_interval => '1 hour')");
until_true("NOT EXISTS (SELECT FROM alvyn.read(prefix => 'old-1')) AND NOT EXISTS (SELECT FROM alvyn.tombstones)", 'and removes what is tombstoned');
is(query('SELECT (alvyn.verify()).ok'), 't', 'and leaves a store that is whole');
query("SELECT alvyn.set_retention('old-', NULL, NULL)");
query('SELECT alvyn.stop_worker()');
query("SELECT alvyn.start_worker('300 ms', '1 s')");

# Arguments, roles, room.
is(failure("SELECT alvyn.start_worker('0 s')"), '22023', 'an interval is more than nothing');
is(failure("SELECT alvyn.start_worker(NULL, '2 days')"), '22023', 'and at most a day');
query('SELECT alvyn.stop_worker(); CREATE ROLE nobody_in IN ROLE alvyn_admin');
is(failure('SET ROLE nobody_in; SELECT alvyn.start_worker()'), '55000', 'a role that may not log in has no worker');
is(query('SELECT alvyn.worker_pid() IS NULL'), 't', 'and leaves none behind');

# A worker of a role has its rights and no more.
query(q{CREATE ROLE admin LOGIN IN ROLE alvyn_admin; GRANT INSERT, SELECT ON handled TO admin; SET ROLE admin; SELECT alvyn.start_worker()});
is(query("SELECT usename FROM pg_stat_activity WHERE pid = alvyn.worker_pid()"), 'admin', 'a worker runs as who started it');
$last = append('n-1', 1);
until_true("EXISTS (SELECT FROM handled WHERE projection = 'n' AND position = $last)", 'projections of superusers included');
query('SELECT alvyn.stop_worker()');
query(q{SET ROLE admin; SELECT alvyn.create_projection('trap', 'n(alvyn.event)', owner => 'admin'), alvyn.enable_projection('trap'); RESET ROLE; SELECT alvyn.start_worker()});
until_true("error_sqlstate = '42501' FROM alvyn.projection_status WHERE name = 'trap'", 'a worker of a superuser lends its rights to nobody');

# The extension is dropped, and the worker ends.
$pid = query('SELECT alvyn.worker_pid()');
query('DROP EXTENSION alvyn CASCADE');
until_true("NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)", 'it ends with the extension');
query('CREATE EXTENSION alvyn');
is(query('SELECT alvyn.worker_pid() IS NULL, alvyn.start_worker() > 0'), 't|t', 'and can be started again');
query('SELECT alvyn.stop_worker()');

# A standby has none.
$node->stop;
$node->append_conf('postgresql.conf', 'hot_standby = on');
$node->append_conf('standby.signal', '');
$node->start;
is(failure('SELECT alvyn.start_worker()'), '55000', 'no worker is started during recovery');
$node->promote;

# No room for a worker.
$node->append_conf('postgresql.conf', "max_worker_processes = 1\nmax_logical_replication_workers = 1\n");
$node->restart;
is(failure('SELECT alvyn.start_worker()'), '53400', 'no process is left for a worker');
$node->stop;
done_testing();
