# A dump restored into a younger cluster is the same store.
#
# I6: no transaction id is stored, so it reads and appends on.  I10: tables
# and sequences are dumped, in every format.  The digest is equal, keys are
# still known, nothing collides.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old = PostgreSQL::Test::Cluster->new('old');
$old->init;
$old->start;
my $dir = $old->basedir;

# An old cluster: many transaction ids, and positions with holes.
$old->safe_psql('postgres', q{
	CREATE EXTENSION alvyn;
	DO $$ BEGIN FOR i IN 1 .. 20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$;
	SELECT count(alvyn.append_batch('order-' || i, 0, ARRAY['A', 'B', 'C'],
		ARRAY[to_jsonb(i), '{"n": 1.10}', '"é\u00e9"']::jsonb[], ARRAY[NULL, '{"m": null}', NULL]::jsonb[],
		ARRAY[NULL, 'id-' || i, NULL], ARRAY['0001-01-01 00:00+00', NULL, '9999-12-31 23:59:59.999999+00']::timestamptz[],
		ARRAY[1, 2, 3])) FROM generate_series(1, 500) i;
	BEGIN; SELECT alvyn.append('lost-1', 0, 'A', '{}'); ROLLBACK;
	SELECT count(alvyn.append(n, 0, n, to_jsonb(n), to_jsonb(n), n, idempotency_key => n))
	FROM unnest(ARRAY['%', '_', E'\\\\', '''', '"', E'\t', E'\n', E'tab\tnl\n\\.', '\N', 'é', E'e\u0301', '日本']) n;
	SELECT alvyn.append('large-1', 0, 'Large', to_jsonb((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 20000) i)));
	SELECT count(alvyn.append('key-1', NULL, 'Keyed', to_jsonb(i), idempotency_key => 'key-' || i)) FROM generate_series(1, 20) i;
	SELECT count(*) FROM alvyn.append_streams(ARRAY['key-2', 'key-1'], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], idempotency_key => 'both');
	UPDATE alvyn.streams SET state = 'z' WHERE stream_id = 'order-500';
	DELETE FROM alvyn.events WHERE version <= 2 AND stream_no = (SELECT stream_no FROM alvyn.streams WHERE stream_id = 'order-499');
	UPDATE alvyn.streams SET version_floor = 2 WHERE stream_id = 'order-499';
	SELECT alvyn.create_source('shop'), alvyn.add_secret('shop', '0123456789abcdef');
	DO $$ BEGIN PERFORM alvyn.receive('shop', 'm', 'shop-1', 'A', '1'); EXCEPTION WHEN invalid_authorization_specification THEN NULL; END $$;
	SELECT alvyn.set_quota('acme', 'month', 5), alvyn.account_usage();
	INSERT INTO alvyn.usage_hours VALUES ('acme', date_trunc('hour', now(), 'UTC'), 5, 100, 1);
});
my $api_key = $old->safe_psql('postgres', "SELECT alvyn.create_api_key('acme')");

# Everything a store says of itself.
my $report = q{
	SELECT alvyn.verify(), alvyn.store_digest(), alvyn.store_digest('order-1'),
	       (SELECT md5(string_agg(s::text, '' ORDER BY stream_id)) FROM alvyn.streams s),
	       (SELECT md5(string_agg(k::text, '' ORDER BY key)) FROM alvyn.idempotency_keys k),
	       (SELECT last_value FROM alvyn.events_position_seq), (SELECT last_value FROM alvyn.streams_stream_no_seq),
	       (SELECT s FROM alvyn.inbox_status s), (SELECT s FROM alvyn.inbox_secrets s),
	       (SELECT k FROM alvyn.api_keys k), (SELECT q FROM alvyn.tenant_quotas q), (SELECT u FROM alvyn.usage_hours u),
	       (SELECT position FROM alvyn.consumer_partitions WHERE name = 'alvyn.usage'),
	       (SELECT count(*) FROM alvyn.verify_streams())};
my $before = $old->safe_psql('postgres', $report);
like($before, qr/,0,t\)\|1533:/, 'the store is whole before the dump');

# Read, append and repeat in a restored database.
sub check
{
	my ($node, $db, $how) = @_;
	is($node->safe_psql($db, $report), $before, "$how: the restored store is the same");
	is( $node->safe_psql($db, "SELECT duplicate, version FROM alvyn.append('key-1', NULL, 'Keyed', '7', idempotency_key => 'key-7')"),
		't|7', "$how: a key is still known");
	is( $node->safe_psql($db, q{SELECT stream_id, version, duplicate FROM alvyn.append_streams(
			ARRAY['key-2', 'key-1'], ARRAY['A', 'B'], ARRAY['1', '2']::jsonb[], idempotency_key => 'both')}),
		"key-2|1|t\nkey-1|21|t", "$how: so is one of several streams");
	is( $node->safe_psql($db, q{
			SELECT version, first_position > (SELECT max(position) FROM alvyn.events) FROM alvyn.append('key-1', 21, 'A', '{}')}),
		'22|t', "$how: an old stream goes on");
	is( $node->safe_psql($db, q{
			SELECT version, (SELECT count(*) FROM alvyn.streams WHERE stream_id = 'new-1') FROM alvyn.append('new-1', 0, 'A', '{}')}),
		'1|0', "$how: a new stream gets a number");
	is( $node->safe_psql($db, q{
			SELECT version FROM alvyn.append('order-499', 3, 'D', '{}')}),
		'4', "$how: versions go on above the floor");
	my ($rc, $out, $err) = $node->psql($db, '\set VERBOSITY sqlstate
SELECT alvyn.append(\'order-500\', NULL, \'D\', \'{}\')');
	like($err, qr/ERROR:  55000/, "$how: an archived stream stays closed");
	is( $node->safe_psql($db, q{SELECT version FROM alvyn.receive('shop', 'm', 'shop-1', 'A', NULL, body => '{"n": 1}',
			signature => '7612b25f0ee449b7349d2f9eac792f21e28ada13a0293e4dd757a744a49f2d34')}),
		'1', "$how: a secret is still valid");
	($rc, $out, $err) = $node->psql($db, "\\set VERBOSITY sqlstate
SELECT alvyn.authenticate('$api_key', true);
SELECT alvyn.append('key-1', NULL, 'A', '{}')");
	is($out, 'acme', "$how: so is an API key");
	like($err, qr/ERROR:  53400/, "$how: a quota that is used up stays so");
	is($node->safe_psql($db, 'SELECT broken_streams, ok FROM alvyn.verify()'), '0|t', "$how: the store is whole");
	return;
}

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->start;
my $xid = 'SELECT pg_snapshot_xmax(pg_current_snapshot())';
cmp_ok($new->safe_psql('postgres', $xid), '<', $old->safe_psql('postgres', $xid) - 10000, 'the new cluster is younger');

# Plain SQL.
$new->safe_psql('postgres', "CREATE DATABASE $_") for qw(plain custom data);
$old->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", 'postgres' ], 'plain: dump');
$new->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", '-o', "$dir/plain.out", 'plain' ], 'plain: restore');
check($new, 'plain', 'plain');

# Custom format, four jobs.
$old->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom.dump", 'postgres' ], 'custom: dump');
$new->command_ok([ 'pg_restore', '--exit-on-error', '-j', '4', '-d', 'custom', "$dir/custom.dump" ], 'custom: restore');
check($new, 'custom', 'custom');

# The data alone, by the schema, into a database that has the extension.
$old->command_ok([ 'pg_dump', '--data-only', '--schema=alvyn', '-f', "$dir/data.sql", 'postgres' ], 'data: dump');
$new->safe_psql('data', 'CREATE EXTENSION alvyn');
$new->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/data.sql", '-o', "$dir/data.out", 'data' ], 'data: restore');
check($new, 'data', 'data');

# A prepared transaction holds its stream, across a crash, and is whole when
# it ends; others do not wait for it.
$new->safe_psql('plain', q{
	BEGIN;
	SELECT alvyn.append_streams(ARRAY['two-1', 'key-1', 'two-2'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[], idempotency_key => 'two');
	PREPARE TRANSACTION 'commit';
	BEGIN;
	SELECT alvyn.append('two-3', 0, 'A', '1'), alvyn.append('key-2', 1, 'B', '2');
	PREPARE TRANSACTION 'rollback';});
$new->stop('immediate');
$new->start;
for my $stream ('two-1', 'key-1', 'two-3', 'key-2')
{
	my ($rc, $out, $err) = $new->psql('plain', "SET lock_timeout = '50ms'; SELECT alvyn.append('$stream', NULL, 'X', '9')");
	like($err, qr/lock timeout/, "prepared: $stream is held");
}
is($new->safe_psql('plain', "SELECT version FROM alvyn.append('order-1', 3, 'D', '{}')"), '4', 'prepared: other streams are not');
is($new->safe_psql('plain', "SELECT alvyn.stream_version('two-1'), alvyn.stream_version('key-1')"), '0|22', 'prepared: nothing is seen before the end');
$new->safe_psql('plain', "COMMIT PREPARED 'commit'");
$new->safe_psql('plain', "ROLLBACK PREPARED 'rollback'");
is( $new->safe_psql('plain', q{
	SELECT (alvyn.append('two-1', 1, 'A', '2')).version, (alvyn.append('key-1', 23, 'A', '2')).version,
	       (alvyn.append('two-3', 0, 'A', '2')).version, (alvyn.append('key-2', 1, 'A', '2')).version}),
	'2|24|1|2', 'prepared: streams go on after the end');
is( $new->safe_psql('plain', q{SELECT stream_id, version, duplicate FROM alvyn.append_streams(
		ARRAY['two-1', 'key-1', 'two-2'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[], idempotency_key => 'two')}),
	"two-1|1|t\nkey-1|23|t\ntwo-2|1|t", 'prepared: the key is known after the end');
is($new->safe_psql('plain', 'SELECT broken_streams, ok FROM alvyn.verify()'), '0|t', 'prepared: the store is whole');
$new->stop;

# pg_upgrade, which copies files and restores definitions.
my $upgraded = PostgreSQL::Test::Cluster->new('upgraded');
$upgraded->init;
$old->stop;
chdir($upgraded->basedir) or die;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $upgraded->data_dir,
		'-b', $old->config_data('--bindir'), '-B', $upgraded->config_data('--bindir'),
		'-s', $upgraded->host, '-p', $old->port, '-P', $upgraded->port ], 'pg_upgrade: run');
$upgraded->start;
check($upgraded, 'postgres', 'pg_upgrade');
$upgraded->stop;
done_testing();
