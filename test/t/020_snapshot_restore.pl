# Definitions, marks and snapshots survive whatever the events survive: a
# restart, a crash, a standby, a dump and a restore.
#
# Evolve and decide functions are named by signature in the tables.  They are
# made anew by a restore, and are found again.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = PostgreSQL::Test::Cluster->new('old');
$old->init(allows_streaming => 1);
$old->start;
my $dir = $old->basedir;

$old->safe_psql('postgres', q{
	CREATE EXTENSION alvyn;
	CREATE SCHEMA "My Logic";
	CREATE FUNCTION "My Logic".evolve(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		RETURN jsonb_build_object('sum', coalesce((state ->> 'sum')::numeric, 0) + (event.data ->> 'n')::numeric);
	END
	$$;
	CREATE FUNCTION "My Logic".decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE sql STABLE
	BEGIN ATOMIC
		SELECT 'Added', command, NULL::jsonb, NULL, NULL::timestamptz, NULL::int;
	END;
	SELECT alvyn.create_snapshot('Gone', 'a', 5, '{}', rules => '{"Added": {}}');
	SELECT alvyn.drop_snapshot('Gone');
	SELECT alvyn.create_snapshot('Rules', 'a', 10, '{"sum": 0}', rules => '{"Added": {"sum": {"add": "n"}}}');
	SELECT alvyn.create_snapshot('Evolved', 'a', 7, '{}', '"My Logic".evolve(jsonb, alvyn.event)', schema_version => 3);
	SELECT alvyn.create_decider('add', 'a', 'Evolved', '"My Logic".decide(jsonb, jsonb)');
	SELECT count(alvyn.execute('a-' || i % 10, jsonb_build_object('n', i))) FROM generate_series(1, 200) i;
	SELECT count(alvyn.execute('a-' || i % 10, jsonb_build_object('n', i), idempotency_key => 'k' || i)) FROM generate_series(1, 30) i;
	CREATE TABLE handled (generation bigint, position bigint);
	CREATE FUNCTION "My Logic".handle(event alvyn.event) RETURNS void LANGUAGE sql AS $$
		INSERT INTO public.handled SELECT alvyn.current_generation(), event.position / (event.data <> '{"n": 5}')::int;
	$$;
	SELECT alvyn.create_projection('p', '"My Logic".handle(alvyn.event)', on_error => 'park');
	SELECT alvyn.run_projection('p', 20), alvyn.rebuild_projection('p'), alvyn.run_projection('p', 10);
});

# Everything there is to know, and then what comes of going on.
my $report = q{
	SELECT alvyn.verify(NULL, true), alvyn.store_digest(),
	       (SELECT md5(string_agg(s::text, ' ' ORDER BY name)) FROM alvyn.snapshots s),
	       (SELECT md5(string_agg(d::text, ' ' ORDER BY name)) FROM alvyn.deciders d),
	       (SELECT md5(string_agg(p::text, ' ')) FROM alvyn.projections p),
	       (SELECT md5(string_agg(e::text, ' ' ORDER BY generation, position)) FROM alvyn.parked_events e),
	       (SELECT md5(string_agg(c::text, ' ' ORDER BY name)) FROM alvyn.consumer_partitions c WHERE name LIKE 'p%'),
	       (SELECT md5(string_agg(m::text, ' ' ORDER BY stream_id, snapshot_name)) FROM alvyn.snapshot_marks m),
	       (SELECT string_agg(s::text, ' ' ORDER BY name) FROM (SELECT name, streams, ignored FROM alvyn.snapshot_status) s),
	       (SELECT md5(string_agg(s.state::text || s.version || s.snapshot_version, ' ' ORDER BY t.stream_id)) FROM alvyn.streams t, alvyn.state(t.stream_id, 'Evolved') s)};
my $before = $old->safe_psql('postgres', $report);
like($before, qr/,0,t\)\|.*\(Evolved,10,0\) \(Rules,10,0\)/, 'the store is whole at first');

sub same
{
	my ($node, $db, $how) = @_;
	is($node->safe_psql($db, $report), $before, "$how: definitions, marks, states and snapshots are the same");
	return;
}

sub goes_on
{
	my ($node, $db, $how) = @_;
	is( $node->safe_psql($db, q{
			SELECT version, duplicate, state FROM alvyn.execute('a-7', jsonb_build_object('n', 7), idempotency_key => 'k7')}),
		'26|t|{"sum": 2047}', "$how: a command that was done is known, with its state");
	# There are 23 events in a-1, and 3 and 2 snapshots.
	is( $node->safe_psql($db, q{
			SELECT string_agg(v.version::text, ' ') FROM (SELECT (alvyn.execute('a-1', jsonb_build_object('n', 1))).version FROM generate_series(1, 8)) v}),
		'29 30 31 32 34 35 37 38', "$how: versions go on");
	is( $node->safe_psql($db, q{SELECT string_agg(version || type, ' ' ORDER BY version) FROM alvyn.load('a-1', 29) WHERE snapshot}),
		'34EvolvedSnapshot 37RulesSnapshot', "$how: snapshots are taken where they would have been");
	is($node->safe_psql($db, q{SELECT alvyn.create_snapshot('New', 'a', 1000, '{}', rules => '{"Added": {}}');
			SELECT count(*), count(DISTINCT snapshot_no) FROM alvyn.snapshots}), "\n3|3", "$how: a new definition gets a number of its own");
	# A dump of the store alone leaves out what the handler wrote.
	is($node->safe_psql($db, q{SELECT alvyn.run_projection('p', 1000);
			SELECT generation, building IS NULL, parked > 0,
			       (SELECT count(*) = count(DISTINCT position) AND count(*) + parked = (SELECT count(*) FROM alvyn.read(max_count => 100000)) FROM handled WHERE generation = 2)
			FROM alvyn.projection_status WHERE name = 'p'}) =~ s/^\d+\n//r, '2|t|t|t', "$how: a rebuild of a projection goes on to its end")
	  if $how ne 'data';
	is($node->safe_psql($db, 'SELECT ok FROM alvyn.verify(NULL, true)'), 't', "$how: the store is whole after that");
	return;
}

$old->restart;
same($old, 'postgres', 'restart');
$old->stop('immediate');
$old->start;
same($old, 'postgres', 'crash');

# A standby reads states, and sees definitions change in an open session.
$old->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($old, 'base', has_streaming => 1);
$standby->start;
$old->wait_for_catchup($standby);
same($standby, 'postgres', 'standby');
my ($rc, $out, $err) = $standby->psql('postgres', q{\set VERBOSITY sqlstate
SELECT alvyn.execute('a-1', '{"n": 1}')});
like($err, qr/ERROR:  25006/, 'standby: a command is refused');
($rc, $out, $err) = $standby->psql('postgres', q{\set VERBOSITY sqlstate
SELECT alvyn.take_snapshot('a-1', 'Rules')});
like($err, qr/ERROR:  25006/, 'standby: so is a snapshot');
is( $standby->safe_psql('postgres', q{SELECT type FROM alvyn.load_latest('a-1', 'Rules') LIMIT 1}),
	'RulesSnapshot', 'standby: load_latest begins with a snapshot');

# One session on the standby, with the definitions in its memory.
{
	my ($in, $answers) = ('', '');
	my $h = IPC::Run::start([ 'psql', '-XAtq', '-d', $standby->connstr('postgres') ], '<', \$in, '>', \$answers, '2>&1', IPC::Run::timeout(60));
	my $ask = sub {
		my ($sql) = @_;
		$answers = '';
		$in .= "$sql\n\\echo done\n";
		$h->pump until $answers =~ s/done\n//;
		return $answers;
	};
	is($ask->(q{SELECT schema_version FROM alvyn.snapshots WHERE name = 'Rules'; SELECT snapshot_version IS NULL FROM alvyn.state('a-2', 'Rules');}),
		"1\nf\n", 'standby: a session uses a snapshot');
	$old->safe_psql('postgres', q{SELECT alvyn.alter_snapshot('Rules', schema_version => 2)});
	$old->wait_for_catchup($standby);
	is($ask->(q{SELECT snapshot_version IS NULL FROM alvyn.state('a-2', 'Rules');}), "t\n", 'standby: and learns that it is one of another fold');
	$old->safe_psql('postgres', q{SELECT alvyn.alter_snapshot('Rules', schema_version => 1)});
	$old->wait_for_catchup($standby);
	is($ask->(q{SELECT snapshot_version IS NULL FROM alvyn.state('a-2', 'Rules');}), "f\n", 'standby: and back');
	$in .= "\\q\n";
	$h->finish;
}
$standby->stop;
same($old, 'postgres', 'changed and changed back');

# Into another cluster: plain, and in parallel.
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->start;
$new->safe_psql('postgres', "CREATE DATABASE $_") for qw(plain custom data);
$old->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", 'postgres' ], 'plain: dump');
$new->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", '-o', "$dir/plain.out", 'plain' ], 'plain: restore');
same($new, 'plain', 'plain');
goes_on($new, 'plain', 'plain');
$old->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom.dump", 'postgres' ], 'custom: dump');
$new->command_ok([ 'pg_restore', '--exit-on-error', '-j', '4', '-d', 'custom', "$dir/custom.dump" ], 'custom: restore');
same($new, 'custom', 'custom');
goes_on($new, 'custom', 'custom');

# The data alone, before there are functions: appends that need them fail with
# a clear error, all others work, and all is well once they are there.
$old->command_ok([ 'pg_dump', '--data-only', '--schema=alvyn', '-f', "$dir/data.sql", 'postgres' ], 'data: dump');
$new->safe_psql('data', 'CREATE EXTENSION alvyn');
$new->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/data.sql", '-o', "$dir/data.out", 'data' ], 'data: restore');
($rc, $out, $err) = $new->psql('data', q{SELECT alvyn.append_batch('a-1', NULL, array_fill('Added'::text, ARRAY[10]), array_fill('{"n": 1}'::jsonb, ARRAY[10]))});
like($err, qr/evolve function ""My Logic".evolve\(jsonb,alvyn.event\)" of snapshot "Evolved" does not exist/, 'data: the function is missing');
is($new->safe_psql('data', q{SELECT (alvyn.append('b-1', 0, 'A', '{}')).version}), '1', 'data: other streams do not need it');
$old->command_ok([ 'pg_dump', '--schema-only', '--schema="My Logic"', '-f', "$dir/schema.sql", 'postgres' ], 'data: dump of the functions');
$new->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/schema.sql", '-o', "$dir/schema.out", 'data' ], 'data: restore of the functions');
is($new->safe_psql('data', q{SELECT state FROM alvyn.state('a-1', 'Evolved')}), $old->safe_psql('postgres', q{SELECT state FROM alvyn.state('a-1', 'Evolved')}), 'data: now it is there');
goes_on($new, 'data', 'data');

goes_on($old, 'postgres', 'after all');
$old->stop;
$new->stop;
done_testing();
