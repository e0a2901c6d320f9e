
# What was done to a store behind its back is found out, by name.
#
# The first traffic is real; then SQL spoils the store before the verification
# looks at it.
use strict;
use warnings;

use IPC::Run ();
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'bench is not built' unless -x 'bench/alvyn_bench';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "max_connections = 60\n");
$node->start;
my $dsn = $node->connstr('postgres');
my $dir = PostgreSQL::Test::Utils::tempdir;

my %runs = (
	daily => [
		qw(daily --accounts 10 --history 49 --duration-seconds 0.5
		  --clients 2 --replicas 2)
	],
	direct => [qw(direct --history 10 --operations 30 --batch-size 2)]);

# Spoil a store with SQL; these faults must be found, maybe beside others.
sub found_out
{
	my ($name, $run, $sql, @faults) = @_;
	my $file = "$dir/report.json";
	my $tamper = "$dir/tamper.sql";
	my $output = '';

	unlink $tamper;
	append_to_file($tamper,
		"ALTER TABLE alvyn.events DISABLE TRIGGER USER;\n$sql");
	IPC::Run::run(
		[
			'bench/alvyn_bench', @{ $runs{$run} },
			'--dsn', $dsn, '--output', $file, '--tamper', $tamper
		],
		'>&', \$output);
	is($? >> 8, 1, "$name: the run fails") or diag($output);
	my $report = JSON::PP->new->utf8->decode(slurp_file($file));
	is($report->{status}, 'failed', "$name: the report says so");
	like(
		$report->{failure} // '',
		qr/^verification found: /,
		"$name: and why");
	my %found =
	  map { $_->{fault} => 1 } @{ $report->{verification}{faults} };
	ok($found{$_}, "$name: $_") foreach @faults;
	diag(join "\n", "found:", sort keys %found)
	  if grep { !$found{$_} } @faults;
	return;
}

# A deposit of the traffic that is not the last event of its stream.
my $deposit = "(SELECT min(position) FROM alvyn.events
				 WHERE version > 49 AND type = 'MoneyDeposited')";

found_out(
	'a seeded event is deleted', 'daily',
	"DELETE FROM alvyn.events WHERE position = 100",
	'seeded events changed or missing', 'versions not contiguous',
	'alvyn.verify() found broken streams', 'number of events');
found_out(
	'a deposit is deleted', 'daily',
	"DELETE FROM alvyn.events WHERE position = $deposit",
	'acknowledged deposit missing', 'versions not contiguous',
	'balance of all accounts');
found_out(
	'a deposit is doubled', 'daily',
	"SELECT alvyn.append(s.stream_id, NULL, e.type, e.data)
	   FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
	  WHERE e.position = $deposit",
	'deposit stored more than once', 'balance of all accounts');
found_out(
	'a deposit gets another amount', 'daily',
	"UPDATE alvyn.events SET data = jsonb_set(data, '{amount}', '1000')
	  WHERE position = $deposit",
	'deposit with another amount', 'snapshot with another state',
	'balance of all accounts');
found_out(
	'a deposit is invented', 'daily',
	"SELECT alvyn.append('LoadTestAccount-account-1', NULL, 'MoneyDeposited',
						 '{\"amount\": 1, \"operationToken\": \"http:9:9\"}')",
	'deposit outside the plan', 'number of events');
found_out(
	'a deposit goes to another account', 'daily',
	"SELECT alvyn.append('LoadTestAccount-account-' || CASE s.stream_id
							WHEN 'LoadTestAccount-account-1' THEN 2 ELSE 1 END,
						 NULL, e.type, e.data)
	   FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
	  WHERE e.position = $deposit;
	 DELETE FROM alvyn.events WHERE position = $deposit",
	'deposit on another account');
found_out(
	'a snapshot is wrong', 'daily',
	"UPDATE alvyn.events SET data = jsonb_set(data, '{balance}', '7')
	  WHERE position = (SELECT min(position) FROM alvyn.events WHERE snapshot)",
	'snapshot with another state', 'alvyn.verify() found broken streams');
found_out(
	'a snapshot is no snapshot', 'daily',
	"UPDATE alvyn.events SET snapshot = false, type = 'Noted'
	  WHERE position = (SELECT min(position) FROM alvyn.events WHERE snapshot)",
	'event that is no deposit', 'snapshots missing or superfluous',
	'number of snapshots');
found_out(
	'two deposits change places',
	'daily',
	"WITH pair AS (
		SELECT stream_no, min(version) AS first, max(version) AS last
		  FROM alvyn.events
		 WHERE version > 49 AND type = 'MoneyDeposited'
		   AND stream_no = (SELECT min(stream_no) FROM alvyn.events)
		 GROUP BY stream_no
	), moved AS (
		UPDATE alvyn.events e SET version = -e.version
		  FROM pair p
		 WHERE e.stream_no = p.stream_no AND e.version IN (p.first, p.last)
	)
	SELECT p.*, set_config('test.pair', format('%s %s', first, last), false)
	  FROM pair p;
	 UPDATE alvyn.events
		SET version = split_part(current_setting('test.pair'), ' ', 1)::bigint
					  + split_part(current_setting('test.pair'), ' ', 2)::bigint
					  + version
	  WHERE version < 0",
	'events out of order', 'alvyn.verify() found broken streams');
found_out(
	'a stream is lost', 'daily',
	"DELETE FROM alvyn.events WHERE stream_no = (SELECT max(stream_no) FROM alvyn.streams);
	 DELETE FROM alvyn.streams WHERE stream_no = (SELECT max(stream_no) FROM alvyn.streams)",
	'account without stream', 'number of events');

my $live = "(SELECT min(position) FROM alvyn.events WHERE version > 10)";

found_out(
	'an event is deleted', 'direct',
	"DELETE FROM alvyn.events WHERE position = $live",
	'acknowledged event missing', 'versions not contiguous',
	'number of live events');
found_out(
	'an event is doubled', 'direct',
	"SELECT alvyn.append(s.stream_id, NULL, e.type, e.data, e.metadata)
	   FROM alvyn.events e JOIN alvyn.streams s USING (stream_no)
	  WHERE e.position = $live",
	'event stored more than once', 'number of events');
found_out(
	'events change', 'direct',
	"UPDATE alvyn.events SET data = jsonb_set(data, '{seed}', '9')
	  WHERE position IN (7, $live)",
	'event with other content', 'seeded events changed or missing');
found_out(
	'an event moves away from its batch', 'direct',
	"UPDATE alvyn.events SET version = 100000 WHERE position = $live",
	'batch torn apart', 'versions not contiguous', 'events out of order');

$node->stop;
done_testing();
