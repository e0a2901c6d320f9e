# A backend's memory does not grow with what it has done.
#
# Tens of thousands of appends and loads in one session leave it where it
# was; 100,000 events in one call need memory for the call only; a load of
# them needs none, since rows are streamed.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_buffers = 16MB\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION alvyn');

# What the backend has allocated, in kB; and the most that it has ever held
# of memory of its own, without what it shares.
my $used = 'SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts;';
my $status = q{pg_read_file('/proc/self/status')};
my $peak = qq{SELECT substring($status, 'VmHWM:\\s+(\\d+)')::int - substring($status, 'RssShmem:\\s+(\\d+)')::int - substring($status, 'RssFile:\\s+(\\d+)')::int;};

# Run statements in one session: some to warm up, then many; the numbers
# before and after must be close.  The statements are sent one by one.
sub flat
{
	my ($name, $call, $times) = @_;
	my $n = 0;
	my $once = sub { $n++; (my $c = $call) =~ s/:n/$n/g; return "SELECT FROM $c;\n"; };
	my $script = join('', map { $once->() } 1 .. 500) . $used . join('', map { $once->() } 1 .. $times) . $used;
	my ($before, $after) = grep { /^\d/ } split /\n/, $node->safe_psql('postgres', $script);
	cmp_ok($after - $before, '<=', 64, "$name: memory is flat over $times calls") or diag("$before kB, then $after kB");
	return;
}

flat('append', "alvyn.append('flat-1', NULL, 'A', '{\"n\": :n}')", 20000);
flat('append with version', "alvyn.append('flat-2', :n - 1, 'A', '{\"n\": :n}', '{}', 'id-:n', now(), 1, 'key-:n')", 5000);
flat('append to new streams', "alvyn.append('new-:n', 0, 'A', '{}')", 5000);
flat('append_batch', "alvyn.append_batch('flat-3', NULL, array_fill('A'::text, ARRAY[10]), array_fill('1'::jsonb, ARRAY[10]))", 2000);
flat('append_streams', "alvyn.append_streams(ARRAY['flat-4', 'many-:n', 'flat-5'], ARRAY['A', 'B', 'C'], ARRAY['1', '2', '3']::jsonb[])", 2000);
flat('try_append, in conflict', "alvyn.try_append('flat-1', 0, 'A', '{}')", 5000);
flat('load', "(SELECT count(*) FROM alvyn.load('flat-1', 1, 100)) s", 2000);
flat('stream_version', "alvyn.stream_version('flat-1')", 5000);
flat('list_streams', "(SELECT count(*) FROM alvyn.list_streams('new-', 'new-1', 10)) s", 2000);
flat('verify', "alvyn.verify('flat-5')", 500);

# One statement with many appends, and one function with many.
for my $sql (
	"SELECT count(alvyn.append('one-1', NULL, 'A', to_jsonb(i))) FROM generate_series(1, %d) i;",
	"DO \$\$ BEGIN FOR i IN 1 .. %d LOOP PERFORM alvyn.append('do-1', NULL, 'A', to_jsonb(i)); END LOOP; END \$\$;")
{
	my ($before, $after) = grep { /^\d{3,}$/ } split /\n/,
	  $node->safe_psql('postgres', sprintf($sql, 500) . ";\n$peak" . sprintf($sql, 30000) . ";\n$peak") =~ s/^(?:500|30000)$//mgr;
	cmp_ok($after - $before, '<=', 16 * 1024, 'many appends in a statement: memory is flat') or diag("$before kB, then $after kB");
}

# Errors leave nothing either.
my $errors = join('', map { "SELECT alvyn.append('flat-1', 0, 'A', '{}');\nSELECT alvyn.append('flat-1', NULL, '', '{}');\n" } 1 .. 1000);
my ($rc, $out, $err) = $node->psql('postgres', "$errors $used $errors $used", on_error_stop => 0);
my ($before, $after) = split /\n/, $out;
cmp_ok($after - $before, '<=', 64, 'errors: memory is flat') or diag("$before kB, then $after kB");

# 100,000 events in one call.
($before, my $result, $after, my $most) = split /\n/, $node->safe_psql('postgres', qq{
	SELECT count(alvyn.append('warm-1', NULL, 'A', '{}')) FROM generate_series(1, 100) \\g /dev/null
	$used
	SELECT first_version, last_version, version, last_position - first_position FROM alvyn.append_batch('huge-1', 0,
		ARRAY(SELECT 'T' FROM generate_series(1, 100000)), ARRAY(SELECT jsonb_build_object('n', i) FROM generate_series(1, 100000) i));
	$used
	$peak});
is($result, '1|100000|100000|99999', '100,000 events in one call');
cmp_ok($after - $before, '<=', 256, '100,000 events: memory is given back') or diag("$before kB, then $after kB");
cmp_ok($most, '<', 300 * 1024, '100,000 events: memory while it runs is bounded') or diag("$most kB");
is($node->safe_psql('postgres', q{SELECT alvyn.contiguous(version), sum((data->>'n')::int) FROM alvyn.load('huge-1')}),
	'(100000,1,100000,0,t)|5000050000', '100,000 events: they are all there, in order');

# Loads of them, beside one of a few.
my $few = $node->safe_psql('postgres', qq{SELECT count(*) FROM alvyn.load('warm-1') \\g /dev/null
	$peak});
for my $load ('SELECT count(*) FROM %s \g /dev/null', 'COPY (SELECT * FROM %s) TO \'/dev/null\';',
	'BEGIN; DECLARE c CURSOR FOR SELECT * FROM %s; MOVE FORWARD ALL IN c; COMMIT;')
{
	my $all = $node->safe_psql('postgres', sprintf($load, q{alvyn.load('huge-1')}) . "\n$peak");
	cmp_ok($all - $few, '<', 8 * 1024, 'a load of 100,000 events needs no memory') or diag("$few kB, $all kB");
}
is($node->safe_psql('postgres', 'SELECT ok FROM alvyn.verify()'), 't', 'the store is whole');
$node->stop;
done_testing();
