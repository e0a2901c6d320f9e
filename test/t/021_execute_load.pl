# Many sessions execute commands at once: on one stream, on new streams, and
# on pairs of streams in both directions.
#
# Nothing fails under READ COMMITTED, no deadlock occurs, no money is made or
# lost, and no decision was taken on a state that was past.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 60\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION alvyn;
	CREATE FUNCTION decide(state jsonb, command jsonb) RETURNS SETOF alvyn.new_event LANGUAGE plpgsql STABLE AS $$
	BEGIN
		IF (state ->> 'balance')::int + (command ->> 'amount')::int < 0 THEN
			RAISE EXCEPTION USING ERRCODE = 'AB001', MESSAGE = 'not enough';
		END IF;
		-- The balance that was decided on goes into the event.
		RETURN QUERY SELECT 'Moved', command || jsonb_build_object('before', state -> 'balance'), NULL::jsonb, NULL, NULL::timestamptz, NULL::int;
	END
	$$;
	CREATE FUNCTION transfer(a text, b text, amount int) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM alvyn.execute_streams(ARRAY[a, b], ARRAY[jsonb_build_object('amount', -amount), jsonb_build_object('amount', amount)]);
		RETURN 'done';
	EXCEPTION WHEN SQLSTATE 'AB001' THEN
		RETURN 'refused';
	END
	$$;
	CREATE FUNCTION evolve(state jsonb, event alvyn.event) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
	BEGIN
		RETURN jsonb_build_object('balance', (state ->> 'balance')::int + (event.data ->> 'amount')::int);
	END
	$$;
	SELECT alvyn.create_snapshot('Rules', 'r', 10, '{"balance": 0}', rules => '{"Moved": {"balance": {"add": "amount"}}}');
	SELECT alvyn.create_snapshot('Evolved', 'e', 10, '{"balance": 0}', 'evolve(jsonb, alvyn.event)');
	SELECT alvyn.create_decider('r', 'r', 'Rules', 'decide(jsonb, jsonb)');
	SELECT alvyn.create_decider('e', 'e', 'Evolved', 'decide(jsonb, jsonb)');
});

# Run scripts in many clients, and fail when one of their transactions does.
sub pgbench
{
	my ($name, $options, @scripts) = @_;
	my ($out, $err, @files);
	foreach my $script (@scripts)
	{
		my $file = sprintf '%s/%s-%d.sql', $node->basedir, $name =~ s/\W+/-/gr, scalar @files;
		append_to_file($file, $script);
		push @files, '-f', $file;
	}
	my $ok = run_log([ 'pgbench', '-n', '-j', '2', @$options, @files,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
	ok($ok && $out =~ m{actually processed: (\d+)/\1\b} && $out !~ /failed transactions: [1-9]/,
		"$name: no transaction failed") or diag($out . $err);
	return;
}

# The balance before each event is the sum of those before it.
my $past = q{
	SELECT count(*) FROM (
		SELECT (e.data ->> 'before')::int AS before, coalesce(sum((e.data ->> 'amount')::int) OVER (PARTITION BY e.stream_id ORDER BY e.version
			ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS sum
		FROM alvyn.streams s, alvyn.load(s.stream_id) e WHERE NOT e.snapshot AND e.data ? 'before') d
	WHERE before <> sum};

# One hot stream: 16 sessions, 60 deposits each.
for my $kind ('r', 'e')
{
	pgbench("hot stream, $kind", [ '-c', '16', '-t', '60' ], "SELECT alvyn.execute('$kind-hot', jsonb_build_object('amount', :client_id + 1));\n");
	my $name = $kind eq 'r' ? 'Rules' : 'Evolved';
	is( $node->safe_psql('postgres', qq{
			SELECT state ->> 'balance', version, snapshot_version, replayed_events FROM alvyn.state('$kind-hot', '$name')}),
		60 * 16 * 17 / 2 . '|1056|1056|0', "hot stream, $kind: the sum is right, and so are the snapshots");
	is( $node->safe_psql('postgres', qq{
			SELECT count(*), bool_and(version % 11 = 0) FROM alvyn.load('$kind-hot') WHERE snapshot}),
		'96|t', "hot stream, $kind: a snapshot after every ten events");
}

# All of them on streams that do not exist: each round is a race to create.
pgbench('new streams', [ '-c', '16', '-t', '40', '-D', 'r=0' ],
	"\\set r :r + 1\nSELECT alvyn.execute('r-new-' || :r, '{\"amount\": 1}');\n");
is( $node->safe_psql('postgres', q{
		SELECT count(*), min(s.version), max(s.version), sum((s.state ->> 'balance')::int) FROM alvyn.list_streams('r-new-') l, alvyn.state(l.stream_id, 'Rules') s}),
	'40|17|17|640', 'new streams: every command counts, once');

# The same key from all of them: done once.
pgbench('same key', [ '-c', '16', '-t', '30', '-D', 'r=0' ],
	"\\set r :r + 1\nSELECT alvyn.execute('r-key-' || (:r % 3), '{\"amount\": 1}', idempotency_key => 'key-' || :r);\n");
is( $node->safe_psql('postgres', q{
		SELECT count(*), sum((s.state ->> 'balance')::int) FROM alvyn.list_streams('r-key-') l, alvyn.state(l.stream_id, 'Rules') s}),
	'3|30', 'same key: a command is done once');

# Transfers and their mirror image: over 500 rounds between a few accounts,
# half of them new, with appends to the same pairs in between.
$node->safe_psql('postgres', q{SELECT count(alvyn.execute('r-acc-' || i, '{"amount": 1000}')) FROM generate_series(1, 3) i});
my $pair = "\\set a random(1, 6)\n\\set b (:a + random(0, 4)) % 6 + 1\n\\set n random(1, 50)\n";
pgbench('transfers', [ '-c', '16', '-t', '64' ],
	$pair . "SELECT transfer('r-acc-' || :a, 'r-acc-' || :b, :n);\n",
	$pair . "SELECT * FROM alvyn.append_streams(ARRAY['r-acc-' || :a, 'r-acc-' || :b], ARRAY['Noted', 'Noted'], ARRAY['{}', '{}']::jsonb[]);\n");
is( $node->safe_psql('postgres', q{
		SELECT count(*), sum((s.state ->> 'balance')::int), min((s.state ->> 'balance')::int) >= 0 FROM alvyn.list_streams('r-acc-') l, alvyn.state(l.stream_id, 'Rules') s}),
	'6|3000|t', 'transfers: the total is kept, and nobody is in debt');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM alvyn.list_streams('r-acc-') l, alvyn.load(l.stream_id) e WHERE e.type = 'Moved'}),
	'>', 600, 'transfers: most of them were made');

# At REPEATABLE READ whoever comes late gets 40001, and pgbench repeats the
# transaction: nothing is lost, nothing is done twice.
SKIP:
{
	skip 'pgbench repeats no transactions', 2 if $node->pg_version < 15;
	pgbench('repeatable read', [ '-c', '4', '-t', '40', '--max-tries', '1000' ],
		"BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT alvyn.execute('e-rr', '{\"amount\": 1}');\nCOMMIT;\n");
	is($node->safe_psql('postgres', q{SELECT state ->> 'balance' FROM alvyn.state('e-rr', 'Evolved')}), '160', 'repeatable read: every command counts, once');
}

# Definitions come and go while appends run; functions are replaced; snapshots
# are taken by hand.  Appends notice nothing but more or fewer snapshots.
pgbench('changing definitions', [ '-c', '8', '-t', '60' ],
	"SELECT alvyn.append('x-' || :client_id % 3, NULL, 'Moved', '{\"amount\": 1}');\nSELECT state FROM alvyn.state('e-hot', 'Evolved');\n",
	"\\set n random(1, 1000000)\nSELECT alvyn.create_snapshot('X' || :client_id, 'x', 1 + :n % 5, '{\"balance\": 0}', rules => '{\"Moved\": {\"balance\": {\"add\": \"amount\"}}}', schema_version => :n);\n"
	  . "SELECT alvyn.append('x-' || :client_id % 3, NULL, 'Moved', '{\"amount\": 1}');\n"
	  . "SELECT alvyn.take_snapshot('x-1', 'X' || :client_id);\nSELECT alvyn.drop_snapshot('X' || :client_id);\n",
	"SELECT pg_advisory_lock(1);\nALTER FUNCTION evolve(jsonb, alvyn.event) COST 100;\nSELECT pg_advisory_unlock(1);\nSELECT alvyn.execute('e-hot', '{\"amount\": 0}');\n");
is($node->safe_psql('postgres', q{SELECT count(*) FROM alvyn.snapshots}), '2', 'changing definitions: all of them are gone again');

is($node->safe_psql('postgres', $past), '0', 'no decision was taken on a state that was past');
is($node->safe_psql('postgres', 'SELECT broken_streams, ok FROM alvyn.verify(NULL, true)'), '0|t', 'the store is whole, every snapshot is right');
my $log = slurp_file($node->logfile);
unlike($log, qr/deadlock detected/, 'no deadlock');
unlike($log, qr/ERROR:  (?!not enough|stream "e-rr"|could not serialize)/, 'no error but those that were meant');
$node->stop;
done_testing();
