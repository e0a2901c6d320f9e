# Readers and consumers follow the feed while many sessions append, and the
# feed notices when its algorithm is broken on purpose.
#
# I4: every committed event exactly once, in the order of positions, and the
# events of a stream in the order of versions, whatever the writers do:
# savepoints, rollbacks, early transaction ids, pauses, batches, prepared
# transactions, a crash.  Must bite: every mutation that src/feed.c can be
# built with turns an isolation spec or a round of the same load red.
use strict;
use warnings;

use File::Basename qw(dirname);
use IPC::Run qw(run start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 100\nmax_prepared_transactions = 50\nrestart_after_crash = on\n");
$node->start;
my $dir = $node->basedir;

# What writers do, and how often.  Each transaction locks its streams in one
# order, so that none ends in a deadlock.
my @writers = (
	[ 4, "SELECT alvyn.append('s-' || :s, NULL, 'A', '1');" ],
	[ 2, "SELECT alvyn.append_batch('s-' || :s, NULL, ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[]);" ],
	[ 2, "SELECT count(*) FROM alvyn.append_streams(ARRAY['s-1', 's-' || :s, 't-' || :s, 's-1'], ARRAY['A', 'B', 'C', 'D'], ARRAY['1', '2', '3', '4']::jsonb[]);" ],
	[ 2, "BEGIN;\nINSERT INTO elsewhere VALUES (:s);\n\\sleep 2 ms\nSELECT alvyn.append('s-' || :s, NULL, 'Early', '1');\nCOMMIT;" ],
	[ 2, "BEGIN;\nSELECT alvyn.append('s-' || :s, NULL, 'A', '1');\nSELECT alvyn.append('s-' || :s, NULL, 'B', '2');\nCOMMIT;" ],
	[ 2, "BEGIN;\nSAVEPOINT a;\nSELECT alvyn.append('s-' || :s, NULL, 'Lost', '1');\nROLLBACK TO a;\nSELECT alvyn.append('s-' || :s, NULL, 'Kept', '1');
SAVEPOINT b;\nSELECT alvyn.append('s-' || :s, NULL, 'Kept', '2');\nRELEASE b;\nCOMMIT;" ],
	[ 2, "BEGIN;\nSELECT alvyn.append('s-' || :s, NULL, 'Lost', '1');\n\\sleep 1 ms\nROLLBACK;" ],
	[ 1, "BEGIN;\nSELECT alvyn.append('p-' || :s, NULL, 'Paused', '1');\n\\sleep 20 ms\nCOMMIT;" ],
	[ 1, "BEGIN;\nSELECT alvyn.append('p-' || :s, NULL, 'Prepared', '1');\nPREPARE TRANSACTION 'p:client_id';\n\\sleep 3 ms\nCOMMIT PREPARED 'p:client_id';" ],
	[ 1, "BEGIN;\nSELECT alvyn.append('p-' || :s, NULL, 'Lost', '1');\nPREPARE TRANSACTION 'p:client_id';\nROLLBACK PREPARED 'p:client_id';" ]);

my $setup = q{
	CREATE EXTENSION IF NOT EXISTS alvyn;
	CREATE TABLE elsewhere (a int);
	CREATE TABLE control (over boolean);
	INSERT INTO control VALUES (false);
	-- The rows of each reader in the order in which it got them.
	CREATE TABLE seen (n bigint GENERATED ALWAYS AS IDENTITY, reader text, position bigint, stream_id text, version bigint);
	CREATE INDEX ON seen (reader, position);
	CREATE PROCEDURE follow(reader text, size int, wait boolean) LANGUAGE plpgsql AS $$
	DECLARE
		v_after bigint := coalesce((SELECT max(s.position) FROM seen s WHERE s.reader = follow.reader), 0);
		v_over boolean;
	BEGIN
		LOOP
			SELECT over INTO v_over FROM control;
			INSERT INTO seen (reader, position, stream_id, version)
			SELECT follow.reader, r.position, r.stream_id, r.version
			FROM alvyn.read(v_after, size, snapshots => true, wait => follow.wait) r;
			IF FOUND THEN
				SELECT max(s.position) INTO v_after FROM seen s WHERE s.reader = follow.reader;
			ELSE
				EXIT WHEN v_over;
				PERFORM pg_sleep(0.0005);
			END IF;
			COMMIT;
		END LOOP;
	END
	$$;
	-- A worker of a group loses its work now and then, and its lease.
	CREATE PROCEDURE work(consumer text, worker text) LANGUAGE plpgsql AS $$
	DECLARE
		v_lease record;
		v_last bigint;
	BEGIN
		WHILE EXISTS (SELECT FROM control WHERE NOT over)
		      OR EXISTS (SELECT FROM alvyn.consumer_partitions p WHERE p.name = consumer AND p.position < alvyn.last_position()) LOOP
			SELECT * INTO v_lease FROM alvyn.lease(consumer, worker, 0.05);
			COMMIT;
			IF v_lease.fence IS NULL THEN
				PERFORM pg_sleep(0.01);
				CONTINUE;
			END IF;
			BEGIN
				WITH h AS (
					INSERT INTO seen (reader, position, stream_id, version)
					SELECT work.consumer, c.position, c.stream_id, c.version
					FROM alvyn.consume(consumer, v_lease.partition, v_lease.fence, 50) c RETURNING position)
				SELECT max(position) INTO v_last FROM h;
				IF v_last IS NOT NULL THEN
					PERFORM alvyn.checkpoint(consumer, v_lease.partition, v_lease.fence, v_last);
				END IF;
				PERFORM alvyn.release(consumer, v_lease.partition, v_lease.fence);
			EXCEPTION WHEN object_not_in_prerequisite_state THEN
				-- The lease was over, and the other one was faster.
				v_last := 0;
			END;
			IF random() < 0.2 THEN
				ROLLBACK;
				CONTINUE;
			END IF;
			COMMIT;
		END LOOP;
	END
	$$;
	SELECT alvyn.create_consumer('group', partitions => 3), alvyn.create_consumer('streams', category => 's');
	-- Reads that begin a page of the index before the end, and take their time over each row, so that much
	-- happens between the reading of the index and that of the rows.
	CREATE TABLE reads (start bigint, last bigint, events bigint);
	CREATE PROCEDURE read_again(seconds double precision) LANGUAGE plpgsql AS $$
	DECLARE
		v_start bigint;
		v_end timestamptz := clock_timestamp() + make_interval(secs => seconds);
	BEGIN
		WHILE clock_timestamp() < v_end LOOP
			v_start := greatest(alvyn.last_position() - 300, 0);
			INSERT INTO reads
			SELECT v_start, coalesce(max(r.position), v_start), count(*)
			FROM alvyn.read_slots(v_start, 1000, NULL, NULL, NULL, true, ARRAY['k'], 0, 1023, random() < 0.5) r;
			COMMIT;
		END LOOP;
	END
	$$;
	-- A check constraint that keeps an append between its position and its row.
	CREATE FUNCTION pause(type text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		IF type = 'Slow' THEN
			PERFORM pg_sleep(random() * 0.004);
		END IF;
		RETURN true;
	END
	$$;
	-- What went wrong, for each reader; the positions of a group are in order in each stream only.
	CREATE VIEW faults AS
	SELECT r.reader,
	       (SELECT count(*) FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
	        WHERE (r.reader <> 'streams' OR starts_with(s.stream_id, 's-'))
	          AND NOT EXISTS (SELECT FROM seen WHERE seen.reader = r.reader AND seen.position = e.position)) AS missed,
	       count(*) - count(DISTINCT r.position) AS doubled,
	       count(*) FILTER (WHERE r.reader <> 'group' AND r.position < r.before) AS disordered,
	       count(*) FILTER (WHERE r.version <> r.row_number) AS broken_streams
	FROM (SELECT *, lag(position) OVER (PARTITION BY reader ORDER BY n) AS before,
	             row_number() OVER (PARTITION BY reader, stream_id ORDER BY n) FROM seen) r
	GROUP BY r.reader;
};
my @calls = (
	"CALL follow('page of 1', 1, true)",
	"CALL follow('waits', 50, true)",
	"CALL follow('waits not', 7, false)",
	"CALL work('group', 'ada')",
	"CALL work('group', 'bob')",
	"CALL work('streams', 'cy')");

sub start_psql
{
	my ($db, $call) = @_;
	my $in = '';
	return start([ 'psql', '-XAtq', '-d', $node->connstr($db), '-c', $call ], '<', \$in, '>', "$dir/out", '2>', "$dir/err");
}

# One round of the load in a database.  Returns the faults of all readers.
sub load
{
	my ($db, $seconds, $crash) = @_;
	my @scripts = map {
		my $file = "$dir/writer-$_.sql";
		append_to_file($file, "\\set s random(1, 12)\n$writers[$_][1]\n") unless -e $file;
		('-f', "$file\@$writers[$_][0]");
	} 0 .. $#writers;
	my ($in, $out) = ('', '');

	$node->safe_psql($db, 'UPDATE control SET over = false');
	my @readers = map { start_psql($db, $_) } @calls;
	my $writers = start([ 'pgbench', '-n', '-c', '32', '-j', '2', '-T', $seconds, @scripts,
			'-h', $node->host, '-p', $node->port, $db ], '<', \$in, '>&', \$out);
	if ($crash)
	{
		usleep(1_000_000 * $seconds / 2);
		$node->stop('immediate');
		$writers->finish;
		$_->finish foreach @readers;
		$node->start;
		@readers = map { start_psql($db, $_) } @calls;
	}
	else
	{
		$writers->finish;
		like($out, qr/number of failed transactions: 0 /, "$db: no writer failed") or diag($out);
	}

	# What a crash has left prepared is ended in either way.
	my $n = 0;
	foreach my $gid (split /\n/, $node->safe_psql($db, 'SELECT gid FROM pg_prepared_xacts'))
	{
		$node->safe_psql($db, ($n++ % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
	}
	$node->safe_psql($db, 'UPDATE control SET over = true');
	$_->finish foreach @readers;
	return $node->safe_psql($db, 'SELECT * FROM faults WHERE missed + doubled + disordered + broken_streams > 0 ORDER BY reader');
}

# Rows of one page of the index are updated while it is read.  Returns how
# many reads missed one or got one twice.
sub update_rows
{
	my ($db) = @_;
	my $file = "$dir/update.sql";
	my $in = '';

	append_to_file($file, "\\set p random(1, 300)\nUPDATE alvyn.events SET metadata = to_jsonb(random()) WHERE position = :p;\n") unless -e $file;
	$node->safe_psql($db, q{
		TRUNCATE alvyn.events, alvyn.streams;
		ALTER SEQUENCE alvyn.events_position_seq RESTART;
		CREATE INDEX edited ON alvyn.events (metadata);
		SELECT count(alvyn.append('u-' || i % 9, NULL, 'A', '1')) FROM generate_series(1, 300) i});
	my $writers = start([ 'pgbench', '-n', '-c', '2', '-T', '2', '-f', $file, '-h', $node->host, '-p', $node->port, $db ],
		'<', \$in, '>', "$dir/out", '2>', "$dir/err");
	my $faults = $node->safe_psql($db, q{
		SELECT count(*) FROM generate_series(1, 400) i,
			LATERAL (SELECT count(*), count(DISTINCT position) AS positions FROM alvyn.read(i * 0, 1000)) r
		WHERE r.count <> 300 OR r.positions <> 300});
	$writers->finish;
	$node->safe_psql($db, 'DROP INDEX alvyn.edited');
	return $faults;
}

# Reads while rows come late.  Returns how many reads missed an event or got
# one twice.
sub read_late_rows
{
	my ($db) = @_;
	my $file = "$dir/late.sql";
	my $in = '';

	append_to_file($file, q{\set s random(1, 1000000)
		SELECT alvyn.append('l-' || :s, NULL, 'Quick', jsonb_build_object('k', 1, 'pad', repeat('x', 20000)));
		SELECT alvyn.append('l-' || :s, NULL, 'Slow', jsonb_build_object('k', 2, 'pad', repeat('x', 20000)));
	}) unless -e $file;
	$node->safe_psql($db, 'ALTER TABLE alvyn.events ADD CONSTRAINT pause CHECK (pause(type)) NOT VALID; TRUNCATE reads');
	my $writers = start([ 'pgbench', '-n', '-c', '8', '-T', '2', '-f', $file, '-h', $node->host, '-p', $node->port, $db ],
		'<', \$in, '>', "$dir/out", '2>', "$dir/err");
	$node->safe_psql($db, 'CALL read_again(1.8)');
	$writers->finish;
	$node->safe_psql($db, 'ALTER TABLE alvyn.events DROP CONSTRAINT pause');
	my $faults = $node->safe_psql($db, q{
		SELECT count(*) FROM reads r
		WHERE events <> (SELECT count(*) FROM alvyn.events e WHERE e.position > r.start AND e.position <= r.last)});
	note "$db: $faults faults in " . $node->safe_psql($db, 'SELECT count(*) FROM reads') . ' reads';
	return $faults;
}

# Rows of streams are updated while their names are looked up, as appends do
# that take snapshots.  Returns how many reads had an event without a name.
sub update_streams
{
	my ($db) = @_;
	my $in = '';

	append_to_file("$dir/streams.sql", "\\set p random(1, 300)\nUPDATE alvyn.streams SET created_at = clock_timestamp() WHERE stream_no = :p;\n");
	# Any change of the table makes the session forget the names.
	append_to_file("$dir/names.sql", "ALTER TABLE alvyn.streams SET (autovacuum_enabled = false);
		INSERT INTO nameless SELECT count(*) FROM alvyn.read(0, 1000) WHERE stream_id IS NULL HAVING count(*) > 0;\n");
	$node->safe_psql($db, q{
		TRUNCATE alvyn.events, alvyn.streams;
		ALTER SEQUENCE alvyn.events_position_seq RESTART;
		ALTER SEQUENCE alvyn.streams_stream_no_seq RESTART;
		CREATE TABLE nameless (n bigint);
		CREATE INDEX moved ON alvyn.streams (created_at);
		SELECT count(alvyn.append('u-' || i, 0, 'A', '1')) FROM generate_series(1, 300) i});
	my $writers = start([ 'pgbench', '-n', '-c', '3', '-T', '3', '-f', "$dir/streams.sql", '-h', $node->host, '-p', $node->port, $db ],
		'<', \$in, '>', "$dir/out", '2>', "$dir/err");
	$node->command_ok([ 'pgbench', '-n', '-T', '2', '-f', "$dir/names.sql", '-h', $node->host, '-p', $node->port, $db ], 'names are looked up');
	$writers->finish;
	$node->safe_psql($db, 'DROP INDEX alvyn.moved');
	return $node->safe_psql($db, 'SELECT count(*) FROM nameless');
}

# Does a transaction that locks the table as VACUUM does delay a reader that
# meets a hole?
sub vacuum_delays
{
	my ($db) = @_;

	$node->safe_psql($db, q{
		SELECT alvyn.append('v-1', NULL, 'A', '1');
		SELECT setval('alvyn.events_position_seq', 5);
		SELECT alvyn.append('v-1', NULL, 'A', '1')});
	my $psql = start_psql($db, 'BEGIN; LOCK TABLE alvyn.events IN SHARE UPDATE EXCLUSIVE MODE; SELECT pg_sleep(60)');
	$node->poll_query_until($db, "SELECT count(*) = 1 FROM pg_locks WHERE relation = 'alvyn.events'::regclass AND mode = 'ShareUpdateExclusiveLock'")
	  or BAIL_OUT('no lock');
	my $rc = $node->psql($db, "SET lock_timeout = '100ms'; SELECT position FROM alvyn.read()");
	$node->safe_psql($db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'");
	$psql->finish;
	return $rc != 0;
}

# As it is.
$node->safe_psql('postgres', $setup);
is(load('postgres', 3), '', 'load: nothing missed, doubled or out of order');
is(load('postgres', 3, 1), '', 'load with a crash: nothing missed, doubled or out of order');
is(load('postgres', 2), '', 'load after the crash: nothing missed, doubled or out of order');
note $node->safe_psql('postgres', "SELECT string_agg(reader || ' ' || count, ', ') FROM (SELECT reader, count(*) FROM seen GROUP BY reader) s");
cmp_ok($node->safe_psql('postgres', 'SELECT min(count) FROM (SELECT count(*) FROM seen GROUP BY reader) s'), '>', 500, 'every reader had something to do');
is($node->safe_psql('postgres', 'SELECT broken_streams, ok FROM alvyn.verify()'), '0|t', 'the store is whole');
is(read_late_rows('postgres'), '0', 'rows that come late are read once');
is(update_rows('postgres'), '0', 'rows that are updated are read once');
is(update_streams('postgres'), '0', 'names of streams that are updated are found');

# Mutated, each in a database of its own whose functions come from a library
# of its own.
my $tree = "$dir/tree";
run([ 'sh', '-c', 'mkdir "$0" && cp -Rp Makefile alvyn.control sql src "$0"', $tree ]) or BAIL_OUT('could not copy the tree');
my $tester = dirname($ENV{PG_REGRESS}) . '/../isolation/isolationtester';
$node->safe_psql('template1', 'CREATE EXTENSION alvyn');

sub mutate
{
	my ($n) = @_;
	my $log = '';

	run([ 'sh', '-c', 'cd "$0" && rm -f src/feed.o alvyn.so && make -s with_llvm=no PG_CFLAGS="-DALVYN_MUTATE_FEED=$1" alvyn.so && cp alvyn.so "$2"',
			$tree, $n, "$dir/mutation$n.so" ], '>&', \$log) or BAIL_OUT("could not build mutation $n: $log");
	$node->safe_psql('postgres', "CREATE DATABASE mutation$n");
	$node->safe_psql("mutation$n", "UPDATE pg_proc SET probin = '$dir/mutation$n' WHERE probin LIKE '%alvyn'");
	return "mutation$n";
}

# Does a spec go as expected in a database?
sub spec_holds
{
	my ($db, $name) = @_;
	my $out = '';

	run([ $tester, $node->connstr($db) ], '<', "test/specs/$name.spec", '>', \$out, '2>', "$dir/err");
	return $out eq slurp_file("expected/$name.out");
}

my %red = (
	1 => 'feed_holes',
	2 => 'feed_order',
	3 => 'read_late_rows',
	4 => 'feed_order',
	5 => 'vacuum_delays',
	6 => 'read_late_rows',
	7 => 'update_rows');
mutate(0);
ok(spec_holds('mutation0', $_), "not mutated: $_ holds") foreach qw(feed_holes feed_order);
ok(!vacuum_delays('mutation0'), 'not mutated: VACUUM delays nobody');
foreach my $n (sort keys %red)
{
	my $db = mutate($n);

	if ($red{$n} eq 'read_late_rows')
	{
		$node->safe_psql($db, $setup);
		my $faults = 0;
		for (1 .. 3)
		{
			$faults ||= read_late_rows($db);
		}
		cmp_ok($faults, '>', 0, "mutation $n: reads of late rows show it");
	}
	elsif ($red{$n} eq 'vacuum_delays')
	{
		ok(vacuum_delays($db), "mutation $n: VACUUM delays a reader");
	}
	elsif ($red{$n} eq 'update_rows')
	{
		cmp_ok(update_rows($db), '>', 0, "mutation $n: reads of updated rows show it");
	}
	else
	{
		ok(!spec_holds($db, $red{$n}), "mutation $n: $red{$n} shows it");
	}
}
$node->stop;
done_testing();
