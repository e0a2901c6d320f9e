# Replicas: a streaming standby reads like its primary and refuses appends;
# after a promotion it appends on.  Events reach a logical subscriber too.
#
# I12: verification says the same on a replica, and so does the digest.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 'logical');
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION alvyn');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# Some is written before the standby looks for the first time, some after
# VACUUM, when a primary would read rows in place.
my $fill = q{
	SELECT count(*) FROM alvyn.append_streams(
		ARRAY(SELECT 's-' || i % 97 FROM generate_series(1, 2000) i),
		ARRAY(SELECT 'T' FROM generate_series(1, 2000)),
		ARRAY(SELECT jsonb_build_object('i', i, 'amount', i, 'pad', repeat('x', CASE WHEN i % 100 = 0 THEN 10000 ELSE 1 END))
		      FROM generate_series(1, 2000) i))};
my $report = q{
	SELECT alvyn.verify(), alvyn.verify('s-1'), alvyn.store_digest(), alvyn.store_digest('s-1'), alvyn.stream_version('s-7'),
	       (SELECT array_agg(version ORDER BY version) FROM alvyn.load('s-7')),
	       (SELECT array_agg(data->'i') FROM alvyn.load('s-7', 3, 5, true)),
	       (SELECT array_agg(stream_id) FROM alvyn.list_streams('s-', 's-2', 5)),
	       (SELECT alvyn.sum_number(data, 'amount') FROM alvyn.events),
	       (SELECT count(*) FROM alvyn.verify_streams())};

for my $turn ('first', 'vacuumed', 'rolled back', 'broken')
{
	$primary->safe_psql('postgres', $fill) if $turn eq 'first';
	$primary->safe_psql('postgres', 'VACUUM (FREEZE) alvyn.events, alvyn.streams') if $turn eq 'vacuumed';
	$primary->safe_psql('postgres', "BEGIN; $fill; ROLLBACK; $fill") if $turn eq 'rolled back';
	$primary->safe_psql('postgres', 'DELETE FROM alvyn.events WHERE position = 1000') if $turn eq 'broken';
	my $expected = $primary->safe_psql('postgres', $report);
	like($expected, $turn eq 'broken' ? qr/,1,f\)/ : qr/,0,t\)/, "$turn: what the primary says");
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $report), $expected, "$turn: the standby says the same");
	is( $standby->safe_psql('postgres', "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0;
			SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; $report"),
		$expected, "$turn: also in parallel");
}
# Every form of append, and what changes rows in place, is refused, with one
# error, and the session lives on.
$primary->safe_psql('postgres', "SELECT alvyn.create_outbox('mail'), alvyn.create_governor('mail', 1, 1)");
$primary->wait_for_catchup($standby, 'replay');
for my $call ("claim('mail', 'w')", "complete('mail', 1024, ARRAY[1])", "fail('mail', 1024, 1, 'no')", "acquire('mail')",
	"append('s-1', NULL, 'A', '{}')", "append('new-1', 0, 'A', '{}')", "try_append('s-1', 0, 'A', '{}')",
	"append_batch('s-1', NULL, ARRAY['A'], ARRAY['1']::jsonb[])",
	"append_streams(ARRAY['s-1', 'new-1'], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[])",
	"append('s-1', NULL, 'A', '{}', idempotency_key => 'k')")
{
	my ($rc, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT alvyn.$call;\nSELECT alvyn.stream_version('s-7') > 0;", on_error_stop => 0);
	is("$out $err", "t psql:<stdin>:2: ERROR:  25006", "standby: $call is refused");
}

# A logical subscriber: events of a range of slots arrive as they are.
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
$subscriber->safe_psql('postgres', 'CREATE EXTENSION alvyn');
$primary->safe_psql('postgres', q{
	CREATE PUBLICATION half FOR TABLE alvyn.streams WHERE (slot < 512), alvyn.events WHERE (slot < 512) WITH (publish = 'insert')});
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION half CONNECTION '" . $primary->connstr . " dbname=postgres' PUBLICATION half");
$subscriber->wait_for_subscription_sync($primary, 'half');
$primary->safe_psql('postgres', $fill);
$primary->safe_psql('postgres', "SELECT count(alvyn.append('logical-' || i, 0, 'A', to_jsonb(i))) FROM generate_series(1, 20) i");
$primary->wait_for_catchup('half');
my $half = q{SELECT count(*), alvyn.digest(e.position, s.stream_id, e.version, e.id, e.type, e."time", e.data, e.metadata, e.schema_version, e.snapshot)
	FROM alvyn.events e JOIN alvyn.streams s USING (stream_no) WHERE e.slot < 512};
my $expected = $primary->safe_psql('postgres', $half);
cmp_ok($expected =~ /^(\d+)/ ? $1 : 0, '>', 1000, 'logical: there is something to compare');
is($subscriber->safe_psql('postgres', $half), $expected, 'logical: the subscriber has the same events');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM alvyn.events WHERE slot >= 512'), '0', 'logical: and no others');
is( $subscriber->safe_psql('postgres', q{SELECT count(*) FROM alvyn.list_streams('logical-') s
		WHERE (SELECT data FROM alvyn.load(s.stream_id)) = to_jsonb(split_part(s.stream_id, '-', 2)::int)}),
	$primary->safe_psql('postgres', q{SELECT count(*) FROM alvyn.list_streams('logical-') s WHERE alvyn.stream_slot(s.stream_id) < 512}),
	'logical: streams load there');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION half');
$subscriber->stop;

# After a promotion appends go on where the primary was.
my $head = $primary->safe_psql('postgres', "SELECT alvyn.append('s-7', NULL, 'Last', '{}')");
my ($version, $position) = $head =~ /^\(s-7,(\d+),\d+,(\d+),/;
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
is( $standby->safe_psql('postgres', "SELECT version, first_position > $position FROM alvyn.append('s-7', $version, 'Next', '{}')"),
	($version + 1) . '|t', 'promoted: an old stream goes on');
is($standby->safe_psql('postgres', "SELECT version FROM alvyn.append('promoted-1', 0, 'A', '{}')"), '1', 'promoted: a new stream begins');
is($standby->safe_psql('postgres', "SELECT ok FROM alvyn.verify('s-7')"), 't', 'promoted: the stream is whole');
$standby->stop;
done_testing();
