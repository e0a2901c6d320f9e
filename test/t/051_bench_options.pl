
# Wrong options of alvyn_bench are refused, before anything is done.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'bench is not built' unless -x 'bench/alvyn_bench';

sub refused
{
	my ($arguments, $complaint) = @_;
	my $output = '';
	IPC::Run::run([ 'bench/alvyn_bench', split / /, $arguments ],
		'>&', \$output);
	is($? >> 8, 2, "\"$arguments\" is refused") or diag($output);
	like($output, $complaint, "\"$arguments\" is explained");
	return;
}

refused('',             qr/Usage:/);
refused('weekly',       qr/Usage:/);
refused('daily --acounts 5', qr/unrecognized option '--acounts'/);
refused('daily --accounts',  qr/requires an argument/);
refused('daily more',        qr/unexpected argument "more"/);
refused('daily --accounts 0', qr/--accounts must be an integer from 1 /);
refused('daily --accounts 1e3', qr/--accounts must be an integer/);
refused('daily --accounts -5',  qr/--accounts must be an integer/);
refused('daily --duration-seconds 0', qr/--duration-seconds must be a number/);
refused('daily --read-percent 101',   qr/--read-percent must be .* to 100/);
refused('daily --enforce-slos=perhaps', qr/must be "true" or "false"/);
refused('daily --history 0', qr/--history must be at least 1/);
refused('daily --accounts 5 --active-users 6', qr/must not exceed --accounts/);
refused('daily --accounts 1000000 --operations-per-user 1000',
	qr/must not exceed 100000000 operations/);
refused('daily --hot-accounts 5',    qr/unrecognized option/);
refused('daily --capacity-max-rps 5', qr/unrecognized option/);
refused('custom --hot-accounts 21',  qr/--hot-accounts must not exceed/);
refused('custom --time-scale 2',     qr/unrecognized option/);
refused('capacity --requests 5',     qr/unrecognized option/);
refused('capacity --capacity-start-rps 200 --capacity-max-rps 100',
	qr/must not exceed --capacity-max-rps/);
refused('capacity --capacity-step-rps 1 --capacity-max-rps 5000',
	qr/1000 stages/);
refused('soak --rate 0',                     qr/--rate must be a number/);
refused('direct --hot-streams 21',           qr/--hot-streams must not exceed/);
refused('direct --accounts 5',               qr/unrecognized option/);
refused('snapshot --lengths 60,none',        qr/--lengths must be numbers/);
refused('snapshot --lengths 50 --tail 1',    qr/--lengths must be numbers/);
refused('compare only.json',                 qr/2 arguments are needed/);
refused('compare none.json none.json',       qr/could not open file/);
refused('limits --sections 3',               qr/Sections:/);

{
	local $ENV{ALVYN_BENCH_ACOUNTS} = '5';
	refused('daily --run-timeout 5',
		qr/environment variable "ALVYN_BENCH_ACOUNTS" is no option/);
}
{
	local $ENV{ALVYN_BENCH_ACCOUNTS} = 'many';
	refused('daily --run-timeout 5', qr/ALVYN_BENCH_ACCOUNTS must be an integer/);
}

done_testing();
