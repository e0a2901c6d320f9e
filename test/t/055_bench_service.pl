
# The profiles of a service handle every message once, and serve or shed every
# request, and their servers are gone afterwards.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'bench is not built' unless -x 'bench/alvyn_bench';

sub bench
{
	my ($name, @arguments) = @_;
	my $output = '';

	IPC::Run::run([ 'bench/alvyn_bench', @arguments ], '>&', \$output);
	is($? >> 8, 0, "$name passes") or diag($output);
	return $output;
}

my $outbox = bench('outbox', qw(outbox --rate 6000 --seconds 3));
my ($accepted) = $outbox =~ /^accepted: (\d+)$/m;
cmp_ok($accepted // 0, '>', 0, 'messages are accepted');
like($outbox, qr/^handled: \Q$accepted\E$/m, 'all of them are handled');
like($outbox, qr/^handled twice: 0$/m, 'none twice');
like($outbox, qr/^duplicates refused: [1-9]\d*$/m, 'repeated ones are known');
like($outbox, qr/^dead letters: 0$/m, 'none is given up');

my $invoke = bench('invoke', qw(invoke --seconds 3 --rates), '50 100');
my @rows = $invoke =~ /^ +(\d+) +(\d+) +(\d+) +(\d+) +[\d.]+/mg;
is(scalar @rows, 8, 'there is a row for each rate');
cmp_ok($rows[5], '>', 0, 'requests are served');
like($invoke, qr/^usage: .*"tenant": "acme"/m, 'and added up');

my $refused = '';
IPC::Run::run([ 'bench/alvyn_bench', 'outbox', '--rate', 'fast' ], '>&',
	\$refused);
is($? >> 8, 2, 'a wrong option is refused');
done_testing();
