# Workers fail, are killed, and the server crashes: every event is delivered,
# each key in order, and nothing that was completed comes again, but for the
# crash.  The tables keep their size meanwhile, under a snapshot that is held.
use strict;
use warnings;

use IPC::Run qw(start);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
my $dir = $node->basedir;

sub query
{
	return $node->safe_psql('postgres', $_[0]);
}

sub start_psql
{
	my $in = '';
	return start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $_[0] ], '<', \$in, '>', "$dir/out", '2>>', "$dir/err");
}

query(q{
	CREATE EXTENSION alvyn;
	SELECT count(alvyn.append_batch('k-' || i % 40, NULL, array_fill('A'::text, ARRAY[50]), array_fill('1'::jsonb, ARRAY[50]))) FROM generate_series(1, 80) i;
	CREATE TABLE seen (n bigint GENERATED ALWAYS AS IDENTITY, position bigint, key text, done boolean);
	CREATE PROCEDURE work(outbox text, trouble double precision) LANGUAGE plpgsql AS $$
	DECLARE
		v_batch alvyn.delivery[];
		v_event alvyn.delivery;
		v_good bigint[];
	BEGIN
		LOOP
			v_batch := ARRAY(SELECT c FROM alvyn.claim(outbox, 'w', 100) c);
			COMMIT;
			IF v_batch = '{}' THEN
				EXIT WHEN NOT EXISTS (SELECT FROM alvyn.outboxes o WHERE o.topic = work.outbox AND (o.lag_positions > 0 OR o.parked > 0 OR o.in_flight > 0));
				PERFORM pg_sleep(0.01);
				CONTINUE;
			END IF;
			INSERT INTO seen (position, key, done) SELECT b.position, b.key, false FROM unnest(v_batch) b ORDER BY b.position;
			COMMIT;
			CONTINUE WHEN random() < trouble / 5;
			BEGIN
				v_good := '{}';
				FOREACH v_event IN ARRAY v_batch LOOP
					IF random() < trouble / 50 THEN
						PERFORM alvyn.fail(outbox, v_event.fence, v_event.position, 'no', '10 ms');
						EXIT;
					END IF;
					v_good := v_good || v_event.position;
				END LOOP;
				IF v_good <> '{}' THEN
					PERFORM alvyn.complete(outbox, v_event.fence, v_good);
					INSERT INTO seen (position, key, done) SELECT g, '', true FROM unnest(v_good) g;
				END IF;
			EXCEPTION WHEN object_not_in_prerequisite_state THEN
				NULL;
			END;
			IF random() < trouble THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END
	$$;
	CREATE VIEW faults AS
	SELECT (SELECT count(*) FROM alvyn.events e WHERE NOT EXISTS (SELECT FROM seen s WHERE s.position = e.position)) AS missed,
	       (SELECT count(*) FROM (SELECT position, lag(position) OVER (PARTITION BY key ORDER BY min(n)) AS before
	                              FROM seen WHERE NOT done GROUP BY key, position) f WHERE position < before) AS disordered,
	       (SELECT count(*) FROM seen d JOIN seen s ON s.position = d.position AND NOT s.done AND s.n > d.n WHERE d.done) AS again});

# Without trouble, under a snapshot that sees all that ever was.
query("SELECT alvyn.create_outbox('plain')");
my $size = "SELECT pg_total_relation_size('alvyn.outbox_partitions'), pg_total_relation_size('alvyn.parked_deliveries')";
my $before = query($size);
my $holder = start_psql('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM alvyn.outbox_partitions; SELECT pg_sleep(600)');
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'BEGIN ISO%' AND wait_event = 'PgSleep'") or BAIL_OUT('no snapshot');
my @workers = map { start_psql("CALL work('plain', 0)") } 1 .. 4;
$_->finish foreach @workers;
is(query('SELECT * FROM faults'), '0|0|0', 'without trouble: complete, in order, once');
is(query("SELECT count(*) FROM seen WHERE done"), '4000', 'all of them are completed');
is(query($size), $before, 'the tables have the size that they had');
query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN ISO%'");
$holder->finish;

# With rollbacks, failures, answers that never come, and workers that are
# killed.
query("TRUNCATE seen; SELECT alvyn.create_outbox('rough', lease => '40 ms', max_attempts => 1000)");
@workers = map { start_psql("CALL work('rough', 0.05)") } 1 .. 4;
for my $round (1 .. 3)
{
	$node->poll_query_until('postgres', "SELECT count(*) > $round * 400 FROM seen WHERE done");
	query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL work%' LIMIT 1");
	push @workers, start_psql("CALL work('rough', 0.05)");
}
$_->finish foreach @workers;
query("CALL work('rough', 0)");
is(query('SELECT * FROM faults'), '0|0|0', 'rollbacks and killed workers: complete, in order, nothing completed again');
is(query("SELECT sum(parked + dead + in_flight) FROM alvyn.outboxes WHERE topic = 'rough'"), '0', 'nothing is left');

# A crash can lose answers, never events.
query("TRUNCATE seen; SELECT alvyn.create_outbox('crash', lease => '40 ms', max_attempts => 1000)");
@workers = map { start_psql("CALL work('crash', 0.05)") } 1 .. 4;
$node->poll_query_until('postgres', 'SELECT count(*) > 600 FROM seen WHERE done');
$node->stop('immediate');
$_->finish foreach @workers;
$node->start;
cmp_ok(query("SELECT max(position) FROM alvyn.outbox_partitions WHERE topic = 'crash'"), '>', 0, 'the crash leaves positions where they were');
@workers = map { start_psql("CALL work('crash', 0.05)") } 1 .. 4;
$_->finish foreach @workers;
query("CALL work('crash', 0)");
like(query('SELECT * FROM faults'), qr/^0\|0\|/, 'a crash: complete, in order');

# A dump keeps the state.
query("SELECT alvyn.reset_outbox('rough', '10'); SELECT count(*) FROM alvyn.claim('rough', 'ada', 3)");
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", '-d', $node->connstr('postgres') ], 'dump');
query('CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), "$dir/dump" ], 'restore');
my $state = 'SELECT * FROM alvyn.outbox_partitions ORDER BY topic, partition';
is($node->safe_psql('restored', $state), query($state), 'restored: the outboxes are where they were');
$node->stop;
done_testing();
