
# Every example of README.md and docs/ does what the page says.
#
# The pages themselves are the test.  In each, the blocks marked "sql" go to
# one psql session in their order, those marked "sh", "js" and "python" to a
# program of their own, and what the unmarked block right behind one of them
# shows is what must come out.  Without
# such a block, anything may come out but an error.  A comment that begins with
# "run" holds statements that the page needs and a reader does not.  Blocks
# marked "console" build, install or call for a terminal; they are not run.
#
# A page begins in an empty database called shop, where "psql" and the other
# programs connect by themselves.
use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# What runs the blocks that psql does not.  Python is Debian's, which has the
# driver; test/run says where Node finds its own.
my %programs = (
	sh => [ 'sh', '-e' ],
	js => ['node'],
	python => ['/usr/bin/python3']);

# The examples of a page: kind, line, text and what is shown, undef if nothing.
sub examples
{
	my ($page) = @_;
	my @examples;
	my ($kind, $line, $text);
	my $after;    # the example that the next block could be the output of

	open my $in, '<', $page or die "$page: $!\n";
	while (my $row = <$in>)
	{
		if (defined $kind)
		{
			if ($row !~ /^(```|-->)$/)
			{
				$text .= $row;
			}
			elsif ($kind eq '' && $after)
			{
				$after->{shown} = $text;
				undef $after;
				undef $kind;
			}
			else
			{
				push @examples,
				  { kind => $kind, line => $line, text => $text };
				$after = $kind eq 'sql' || $programs{$kind} ? $examples[-1] : undef;
				undef $kind;
			}
		}
		elsif ($row =~ /^```(\w*)$/ || $row =~ /^<!-- (run)$/)
		{
			($kind, $line, $text) = ($1, $., '');
		}
		elsif ($row =~ /\S/)
		{
			undef $after;
		}
	}
	die "$page:$line: this block does not end\n" if defined $kind;
	return grep { $_->{kind} =~ /^(sql|run)$/ || $programs{ $_->{kind} } } @examples;
}

# Without the blanks at the ends of lines and the empty lines at both ends.
sub trimmed
{
	my ($text) = @_;
	$text =~ s/[ \t]+$//mg;
	$text =~ s/\A\n+|\n+\z//g;
	return "$text\n";
}

# Compare what an example printed with what the page shows.
sub check
{
	my ($page, $example, $printed, $failed) = @_;
	my $name = "$page:$example->{line}";

	if (defined $example->{shown})
	{
		is(trimmed($printed), trimmed($example->{shown}), $name);
	}
	else
	{
		$failed ||= $printed =~ /^(ERROR|FATAL|WARNING|psql|.*: error):/m;
		ok(!$failed, $name) or diag($printed);
	}
	return;
}

# Give SQL examples to one session of psql, with marks between their outputs.
sub run_psql
{
	my ($page, @session) = @_;
	my ($input, $output) = ('', '');

	$input .= "\\echo <$page:$_->{line}>\n$_->{text}\n" foreach @session;
	IPC::Run::run([ 'psql', '--no-psqlrc' ], '<', \$input, '>&', \$output);
	foreach my $example (@session)
	{
		my ($printed) =
		  $output =~ /^<\Q$page\E:$example->{line}>\n(.*?)(?=^<\Q$page\E:|\z)/ms;
		check($page, $example, $printed // "nothing came back\n", 0);
	}
	return;
}

sub run_program
{
	my ($page, $example) = @_;
	my $output = '';

	IPC::Run::run($programs{ $example->{kind} },
		'<', \$example->{text}, '>&', \$output);
	check($page, $example, $output, $? != 0);
	return;
}

my @pages = grep { examples($_) } glob '*.md src/*.md docs/*.md';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PGDATABASE} = 'shop';
my $home = PostgreSQL::Test::Utils::tempdir;

ok(@pages > 0, 'there are pages with examples');
foreach my $page (@pages)
{
	my @session;
	my $here = $ENV{PWD};

	$node->safe_psql('postgres', 'CREATE DATABASE shop');
	foreach my $example (examples($page))
	{
		if (!$programs{ $example->{kind} })
		{
			push @session, $example;
			next;
		}
		run_psql($page, @session) if @session;
		@session = ();
		chdir $home or die "$home: $!\n";
		run_program($page, $example);
		chdir $here or die "$here: $!\n";
	}
	run_psql($page, @session) if @session;
	$node->safe_psql('postgres', 'DROP DATABASE shop WITH (FORCE)');
}
$node->stop;
done_testing();
