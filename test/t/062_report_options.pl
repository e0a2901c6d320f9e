
# docs/load-testing.md describes the commands and options of alvyn_bench.
#
# Each command stands in the table of commands.  Each option that a command
# has stands in the table of options, with the default that --help shows: one
# for all commands, or one after the name of each command that has its own.
# Where the meaning ends with commands in parentheses, these are all that have
# it.  Nothing stands there that is not in the program.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'bench is not built' unless -x 'bench/alvyn_bench';

sub output_of
{
	my (@command) = @_;
	my $output = '';
	IPC::Run::run([ 'bench/alvyn_bench', @command ], '>', \$output);
	is($?, 0, "@command: exit code");
	return $output;
}

# The rows of the table with these column heads.
sub table
{
	my ($page, @heads) = @_;
	my $head = join ' \| ', map { quotemeta } @heads;
	my ($rows) = $page =~ /^\| $head \|\n\|[-| ]+\n((?:\|.*\n)+)/m
	  or die "docs/load-testing.md has no table of @heads\n";
	return map {
		[ map { s/^\s+|\s+$//gr } (split /\|/)[ 1 .. @heads ] ]
	} split /\n/, $rows;
}

my $page = slurp_file('docs/load-testing.md');
my %described = map { $_->[0] => $_->[1] } table($page, 'command', 'what it does');
my @options = table($page, 'option', 'default', 'meaning');
my %options = map { $_->[0] => $_->[1] } @options;
my %seen;

my @commands = output_of('--help') =~ /^  (\w+) /mg;
cmp_ok(scalar @commands, '>', 0, 'there are commands');
foreach my $command (@commands)
{
	ok(defined delete $described{"`$command`"},
		"$command is in the table of commands");
	foreach my $line (split /\n/, output_of($command, '--help'))
	{
		my ($option) = $line =~ /^  (--[\w-]+)/ or next;
		my $default = $line =~ / \(([^()]+)\)$/ ? $1 : '';
		my $shown = $options{"`$option`"};
		next if $option eq '--help';
		push @{ $seen{"`$option`"} }, $command;
		my ($own) = ($shown // '') =~ /(?:^|, )\Q$command\E ([^,]+)/;

		# In words, "all accounts", where it follows from other options.
		ok( defined $shown
			  && ($default eq ''
				? $shown !~ /^\d/ || defined $own
				: ($own // $shown) eq $default),
			"$command $option: default \"$default\""
		) or diag('the page has ', $shown // 'nothing');
	}
}
is_deeply([ sort keys %described ], [], 'no command is made up');
is_deeply([ grep { !$seen{$_} } sort keys %options ],
	[], 'no option is made up');
foreach my $row (@options)
{
	my ($option, $meaning) = @$row[ 0, 2 ];
	my ($list) = $meaning =~ /\(([a-z]+(?:, [a-z]+)*)\)$/ or next;
	is(join(', ', sort @{ $seen{$option} // [] }),
		join(', ', sort split(/, /, $list)),
		"$option: the commands that have it");
}

done_testing();
