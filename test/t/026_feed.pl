# The feed around prepared transactions, other databases, crashes, standbys,
# dumps, and with much to remember.
#
# I4, I5: what is pending is known over restarts, and nothing else delays a
# reader.  I6: a dump is read on in a younger cluster.  A position that a
# reader has passed is never given again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "max_prepared_transactions = 10\nwal_writer_delay = 10s\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION alvyn');

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

# The positions that a reader gets, relative to $start; "blocked" when it
# would have to wait.
my $start = 0;
sub positions
{
	my ($options) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '100ms';
		SELECT coalesce(string_agg((position - $start)::text, ' ' ORDER BY position), 'none') FROM alvyn.read($start$options)");
	return $rc == 0 ? $out : $err =~ /lock timeout/ ? 'blocked' : $err;
}

# One event behind a hole, so that every reader looks for who is pending.
sub begin_with_hole
{
	$start = query('SELECT alvyn.last_position()');
	query("SELECT alvyn.append('a-1', NULL, 'A', '1')");
	query("SELECT setval('alvyn.events_position_seq', $start + 4)");
	query("SELECT alvyn.append('a-1', NULL, 'A', '2')");
	return;
}

# Prepared transactions, before and after a crash.
begin_with_hole();
query('CREATE TABLE elsewhere (a int)');
query("BEGIN; INSERT INTO elsewhere VALUES (1); PREPARE TRANSACTION 'orphan'");
is(positions(''), '1 5', 'a prepared transaction that does not append delays nobody');
query("BEGIN; SELECT alvyn.append('p-1', NULL, 'P', '1'); PREPARE TRANSACTION 'append'");
query("SELECT alvyn.append('a-1', NULL, 'A', '3')");
is(positions(''), '1 5', 'one that appends delays nobody before its event');
is(positions(', wait => false'), '1 5', 'nor those that may not wait');
is(positions(", category => 'a'"), '1 5 7', 'nor those that want no event of its stream');
$node->stop('immediate');
$node->start;
is(positions(''), '1 5', 'so it is after a crash');
query("SELECT alvyn.append('a-1', NULL, 'A', '4')");
is(positions(", wait => false, category => 'a'"), '1 5 7', 'and behind its own event it may have taken more positions');
query("COMMIT PREPARED 'append'");
like(positions(''), qr/^1 5 6 7 \d+$/, 'its event is delivered once it is committed');

# A prepared transaction that has taken a position, and may have it for a hole.
begin_with_hole();
query("BEGIN; SAVEPOINT s; SELECT alvyn.append('p-1', NULL, 'P', '1'); ROLLBACK TO s; PREPARE TRANSACTION 'position'");
is(positions(''), 'blocked', 'rolled back to a savepoint and prepared: readers wait');
is(positions(', wait => false'), '1', 'or stop');
$node->stop('immediate');
$node->start;
is(positions(''), 'blocked', 'so they do after a crash');
query("ROLLBACK PREPARED 'position'");
is(positions(''), '1 5', 'and not after its end');
query("ROLLBACK PREPARED 'orphan'");

# Another database has a sequence of its own.
begin_with_hole();
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION alvyn');
$node->safe_psql('other', "BEGIN; SELECT alvyn.append('o-1', NULL, 'O', '1'); PREPARE TRANSACTION 'other'");
is(positions(''), '1 5', 'an append in another database delays nobody');
$node->safe_psql('other', "ROLLBACK PREPARED 'other'");

# A crash makes the sequence jump; a checkpoint can lie in the hole.
query("SELECT alvyn.create_consumer('c', start => 'now')");
query("BEGIN; SELECT alvyn.append('a-1', NULL, 'A', '5'); ROLLBACK; SELECT count(*) FROM alvyn.consume('c')");
my $before = query('SELECT alvyn.last_position()');
is(query("SELECT position FROM alvyn.consumers WHERE name = 'c'"), $before, 'the checkpoint lies behind a rolled back event');
$node->stop('immediate');
$node->start;
my $event = query("SELECT (alvyn.append('a-1', NULL, 'A', '6')).first_position");
cmp_ok($event, '>', $before + 1, 'the sequence has jumped');
is(query("SELECT position FROM alvyn.consume('c')"), $event, 'the first poll delivers what is behind the hole');

# A crash between reading and checkpoint: read again, handled once.
query('CREATE TABLE handled (position bigint PRIMARY KEY)');
my $work = q{
	WITH h AS (INSERT INTO handled SELECT position FROM alvyn.consume('c', 10) RETURNING position)
	SELECT max(position) AS last FROM h \gset
	SELECT alvyn.checkpoint('c', :last)};
query("SELECT count(alvyn.append('a-1', NULL, 'A', to_jsonb(i))) FROM generate_series(1, 30) i");
foreach my $end ('ROLLBACK', 'COMMIT', 'crash', 'COMMIT', 'COMMIT')
{
	if ($end ne 'crash')
	{
		query("BEGIN;$work;\n$end");
		next;
	}
	$node->psql('postgres', "SET synchronous_commit = off;\nBEGIN;$work;\nCOMMIT");
	$node->stop('immediate');
	$node->start;
}
query($work) while query("SELECT count(*) FROM alvyn.consume('c', 1)");
is(query("SELECT count(*), count(*) = (SELECT count(*) FROM alvyn.events WHERE position >= $event) FROM handled"), '31|t',
	'work is done exactly once over rollbacks and crashes');

# With synchronous_commit = off a crash can lose an event that was read.  Its
# position is not given again, so a cursor kept elsewhere misses nothing.
query("SELECT count(alvyn.append('a-1', NULL, 'A', '7')) FROM generate_series(1, 3) i; CHECKPOINT");
my $cursor = query(q{
	SET synchronous_commit = off;
	DO $$ BEGIN FOR i IN 1 .. 70 LOOP PERFORM alvyn.append('lost-1', NULL, 'Lost', '1'); COMMIT; END LOOP; END $$;
	SELECT max(position) FROM alvyn.read(alvyn.last_position() - 10)});
$node->stop('immediate');
$node->start;
cmp_ok(query("SELECT (alvyn.append('after-1', 0, 'A', '1')).first_position"), '>', $cursor, 'a position that was read is not given again');
is(query("SELECT string_agg(stream_id, ' ') FROM alvyn.read($cursor)"), 'after-1', 'so the cursor misses nothing');

# A standby loads streams and says that it has no feed.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT count(*) FROM alvyn.load('after-1')"), '1', 'a standby loads streams');
foreach my $call ('read()', 'read(wait => false)', 'resolved_position()', 'skip(0)', "wait(0, '0')", "wait('c', '0')")
{
	my ($rc, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM alvyn.$call");
	like($err, qr/ERROR:  55000: cannot read the feed during recovery/, "a standby refuses $call");
}
foreach my $call ("consume('c')", "checkpoint('c', 1)", "lease('c', 'ada')")
{
	my ($rc, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT * FROM alvyn.$call");
	like($err, qr/ERROR:  25006/, "a standby refuses $call");
}
cmp_ok($standby->safe_psql('postgres', "SELECT position FROM alvyn.consumers WHERE name = 'c'"), '>', 0, 'a standby shows where consumers are');
$standby->promote;
$standby->safe_psql('postgres', "SELECT alvyn.append('promoted-1', 0, 'A', '1')");
is($standby->safe_psql('postgres', "SELECT string_agg(stream_id, ' ' ORDER BY position) FROM alvyn.read($cursor)"), 'after-1 promoted-1', 'promoted: the feed goes on');
$standby->stop;

# Case 20: a younger cluster reads on from the dump, positions and
# checkpoints included.
query(q{
	DO $$ BEGIN FOR i IN 1 .. 5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$;
	SELECT alvyn.create_consumer('g', category => 'a', types => ARRAY['A'], partitions => 2, key => 'k');
	SELECT alvyn.reset_consumer('g', '17')});
$node->command_ok([ 'pg_dump', '-Fc', '-f', $node->basedir . '/dump', '-d', $node->connstr('postgres') ], 'dump');
my $young = PostgreSQL::Test::Cluster->new('young');
$young->init;
$young->start;
$young->safe_psql('postgres', 'CREATE DATABASE restored');
$young->command_ok([ 'pg_restore', '-j', '2', '-d', $young->connstr('restored'), $node->basedir . '/dump' ], 'restore');
my $xid = 'SELECT pg_snapshot_xmax(pg_current_snapshot())';
cmp_ok($young->safe_psql('postgres', $xid), '<', query($xid) - 4000, 'the cluster is younger');
my $report = q{
	SELECT count(*), max(position), md5(string_agg(r::text, '|' ORDER BY position)) FROM alvyn.read(0, NULL, snapshots => true) r;
	SELECT alvyn.last_position(), alvyn.resolved_position();
	SELECT name, category, types, partitions, partition, position FROM alvyn.consumers ORDER BY name, partition};
is($young->safe_psql('restored', $report), query($report), 'restored: the feed and the consumers are the same');
is($young->safe_psql('restored', "SELECT count(*) FROM alvyn.consume('c')"), query("SELECT count(*) FROM alvyn.consume('c')"), 'restored: a consumer reads on');
my $next = $young->safe_psql('restored', "SELECT (alvyn.append('next-1', 0, 'A', '1')).first_position");
is($young->safe_psql('restored', "SELECT position FROM alvyn.consume('c') OFFSET (SELECT count(*) - 1 FROM alvyn.consume('c'))"), $next,
	'restored: and then the events that come');
$young->stop;

# Memory: a page whose filter looks into large payloads, and more streams
# than are remembered.
sub peak_memory
{
	my ($sql) = @_;
	my ($peak) = query("$sql;\nSELECT pg_read_file('/proc/' || pg_backend_pid() || '/status')") =~ /VmHWM:\s+(\d+) kB/;
	return $peak / 1024;
}
SKIP:
{
	skip 'no /proc', 2 unless -e '/proc/self/status';
	query("SELECT count(alvyn.append('large-' || i, 0, 'A', jsonb_build_object('k', i, 'pad', repeat('x', 1000000)))) FROM generate_series(1, 300) i");
	my $plain = peak_memory("SELECT count(*) FROM alvyn.read_slots(0, NULL, 'large', NULL, NULL, false, NULL, 0, 1023, true)");
	my $keyed = peak_memory("SELECT count(*) FROM alvyn.read_slots(0, NULL, 'large', NULL, NULL, false, ARRAY['k'], 0, 1, true)");
	cmp_ok($keyed, '<', $plain + 50, "payloads that a key is taken from are not kept: $keyed MB, without a key $plain MB");

	query("SELECT count(*) FROM alvyn.append_streams(ARRAY(SELECT 'many-' || i FROM generate_series(1, 35000) i),
		array_fill('A'::text, ARRAY[35000]), array_fill('1'::jsonb, ARRAY[35000]))");
	query("SELECT count(*) FROM alvyn.append_streams(ARRAY(SELECT 'more-' || i FROM generate_series(1, 35000) i),
		array_fill('A'::text, ARRAY[35000]), array_fill('1'::jsonb, ARRAY[35000]))");
	is(query("SELECT sum(n), sum(names) FROM generate_series(1, 3) i,
		LATERAL (SELECT count(*) AS n, count(DISTINCT stream_id) AS names FROM alvyn.read(i * 0, NULL, prefix => 'm')) r"),
		'210000|210000', 'more streams than a session remembers');
}
$node->stop;
done_testing();
