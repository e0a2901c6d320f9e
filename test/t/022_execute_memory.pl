# A backend's memory does not grow with the commands it has executed, the
# snapshots it has taken, the states it has computed and the definitions it
# has forgotten.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION alvyn;
	CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql STABLE AS $$
	DECLARE
		v_event alvyn.new_event;
	BEGIN
		IF command ? 'bad' THEN
			RAISE EXCEPTION 'bad';
		END IF;
		v_event.type := 'Moved';
		v_event.data := command;
		RETURN NEXT v_event;
	END
	$$;
	CREATE FUNCTION evolve(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		RETURN state || event.data;
	END
	$$;
	SELECT alvyn.create_snapshot('Rules', 'r', 20, '{"sum": 0}',
		rules => '{"Moved": {"sum": {"add": "n"}, "last": {"append": "n", "keep": 5}, "max": {"max": "n"}, "text": {"copy": "text"}, "at": {"time": true}}}');
	SELECT alvyn.create_snapshot('Evolved', 'e', 20, '{}', 'evolve(jsonb, alvyn.event)');
	SELECT alvyn.create_decider('r', 'r', 'Rules', 'decide(jsonb, jsonb)');
	SELECT alvyn.create_decider('e', 'e', 'Evolved', 'decide(jsonb, jsonb)');
});

my $used = 'SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts;';
my $status = q{pg_read_file('/proc/self/status')};
my $peak = qq{SELECT substring($status, 'VmHWM:\\s+(\\d+)')::int - substring($status, 'RssShmem:\\s+(\\d+)')::int - substring($status, 'RssFile:\\s+(\\d+)')::int;};

# Call something so many times in statements of 1,000 calls each, some first
# to warm up; the numbers before and after must be close.
sub flat
{
	my ($name, $call, $times) = @_;
	my $some = "DO \$\$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM $call; END LOOP; END \$\$;\n";
	my ($before, $after) = grep { /^\d/ } split /\n/, $node->safe_psql('postgres', $some x 2 . $used . $some x ($times / 1000) . $used);
	cmp_ok($after - $before, '<=', 64, "$name: memory is flat over $times calls") or diag("$before kB, then $after kB");
	return;
}

flat('execute', "alvyn.execute('r-' || i % 7, jsonb_build_object('n', i, 'text', repeat('x', i % 100)))", 100000);
is( $node->safe_psql('postgres', q{SELECT sum(s.version), sum(s.replayed_events) < 140 FROM alvyn.list_streams('r-') l, alvyn.state(l.stream_id, 'Rules') s}),
	'107098|t', 'execute: all of them were done');
flat('execute, evolved', "alvyn.execute('e-' || i % 7, jsonb_build_object('n', i))", 5000);
flat('execute_streams', "alvyn.execute_streams(ARRAY['r-a' || i % 7, 'r-b' || i % 5], ARRAY['{\"n\": 1, \"text\": 1}', '{\"n\": -1, \"text\": 2}']::jsonb[])", 5000);
flat('execute, done before', "alvyn.execute('r-key', '{\"n\": 1, \"text\": 1}', idempotency_key => 'key')", 5000);
flat('state', "alvyn.state('r-1', 'Rules', i)", 5000);
flat('load_latest', "(SELECT count(*) FROM alvyn.load_latest('r-1', 'Rules'))", 5000);
flat('state of a long replay', "alvyn.state('e-1', 'Evolved', i % 100)", 2000);

# Errors of user's functions, and definitions that are read again for each
# transaction, since a function has changed.
my $errors = "SELECT alvyn.execute('r-1', '{\"bad\": 1}');\nALTER FUNCTION evolve(jsonb, alvyn.event) COST 100;\nSELECT alvyn.state('r-1', 'Rules');\n";
my ($rc, $out, $err) = $node->psql('postgres', $errors x 50 . $used . $errors x 500 . $used, on_error_stop => 0);
my ($before, $after) = grep { /^\d+$/ } split /\n/, $out;
cmp_ok($after - $before, '<=', 64, 'errors and new definitions: memory is flat') or diag("$before kB, then $after kB");

# One call over many events needs no memory for each of them: a fold, in C and
# by a function, and verification with all snapshots.
$node->safe_psql('postgres', q{
	SELECT alvyn.create_snapshot('Long', 'long', 100, '{"sum": 0}',
		rules => '{"Moved": {"sum": {"add": "n"}, "last": {"append": "n", "keep": 5}, "max": {"max": "n"}, "text": {"copy": "text"}, "at": {"time": true}}}');
	SELECT alvyn.create_snapshot('Never', 'long', 1000000, '{}', 'evolve(jsonb, alvyn.event)');
	SELECT count(alvyn.append_batch('long-1', NULL, array_fill('Moved'::text, ARRAY[100]),
		ARRAY(SELECT jsonb_build_object('n', i, 'text', repeat(md5(i::text), 60)) FROM generate_series(1, 100) i))) FROM generate_series(1, 300) b;
	SELECT alvyn.alter_snapshot('Long', every => 1000000, schema_version => 2)});
foreach my $call ("alvyn.state('long-1', 'Long', %d)", "alvyn.state('long-1', 'Never', %d)", "alvyn.verify('long-' || %d %% 1, true)")
{
	my $small = sprintf $call, 100;
	my $large = sprintf $call, 1000000;
	($before, $after) = grep { /^\d+$/ } split /\n/, $node->safe_psql('postgres', "SELECT FROM $small;\n$peak SELECT FROM $large;\n$peak");
	cmp_ok($after - $before, '<=', 8 * 1024, "$large: memory does not grow with the events") or diag("$before kB, then $after kB");
}
is($node->safe_psql('postgres', 'SELECT ok FROM alvyn.verify(NULL, true)'), 't', 'the store is whole');
$node->stop;
done_testing();
