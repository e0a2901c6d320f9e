/*-------------------------------------------------------------------------
 *
 * alvyn_bench.c
 *	  Load tests of the event store.
 *
 * The program only conducts.  pgbench makes the traffic, the server under
 * test computes the plan, the statistics and the reports in SQL (sql/), and
 * bench/server provides a server where none is given.  What is left to C is
 * to read options, to seed over several connections, to start and watch
 * processes, to show progress, and to clean up in every case.
 *
 * A sub-command is a profile: options with their defaults, and steps.
 *
 * IDENTIFICATION
 *	  bench/alvyn_bench.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <unistd.h>

#include "account.h"
#include "compare.h"
#include "direct.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "snapshot.h"
#include "target.h"

typedef struct Profile
{
	const char *name;
	const char *help;
	const OptionDefault *options;
	bool		(*check) (void);
	bool		(*run) (void);
	bool		(*finish) (void);
	const char *arguments;		/* their names, or NULL */
	int			argument_count;
} Profile;

static const Profile profiles[] = {
	{"daily", "a day's traffic: off-peak, peak and cool-down",
		daily_options, daily_check, account_run,
	report_write, NULL, 0},
	{"custom", "as fast as it goes, with a few hot accounts",
		custom_options, custom_check, account_run,
	report_write, NULL, 0},
	{"capacity", "stages of a rising rate, until one is not sustained",
		capacity_options, capacity_check, capacity_run,
	report_write, NULL, 0},
	{"soak", "a steady rate for long, watching what grows",
		soak_options, soak_check, soak_run,
	report_write, NULL, 0},
	{"direct", "appends and loads without a model",
		direct_options, direct_check, direct_run,
	report_write, NULL, 0},
	{"snapshot", "reads with and without snapshots, and commands",
		snapshot_options, snapshot_check, snapshot_run,
	report_write, NULL, 0},
	{"compare", "two reports side by side",
		compare_options, compare_check, compare_run,
	compare_finish, "A.json B.json", 2},
};

/* A command that a script does. */
typedef struct Script
{
	const char *name;
	const char *help;
} Script;

static const Script scripts[] = {
	{"outbox", "signed messages in, work out to workers, drained"},
	{"invoke", "requests with quotas and a governor, beyond what the gate lets in"},
	{"limits", "single calls against what the server does by itself"},
};

static const Profile *profile_find(const char *name);
static bool script_find(const char *name);
static int	script_run(char **argv);
static void usage(void);
static int	complain(void);

/*
 * Exit code 0: passed; 1: failed; 2: the options were wrong.
 */
int
main(int argc, char **argv)
{
	const Profile *profile;
	bool		passed;

	if (argc > 1 && script_find(argv[1]))
		return script_run(argv);
	if (argc < 2 || (profile = profile_find(argv[1])) == NULL)
	{
		usage();
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	argv[1] = argv[0];			/* for getopt's messages */
	if (!options_read(argc - 1, argv + 1, profile->options,
					  profile->argument_count))
		return complain();
	if (option_switch("help"))
	{
		printf("alvyn_bench %s: %s\n\nUsage: alvyn_bench %s [OPTION]...%s%s\n\n",
			   profile->name, profile->help, profile->name,
			   profile->arguments ? " " : "",
			   profile->arguments ? profile->arguments : "");
		options_help(profile->options);
		return 0;
	}
	if (!profile->check())
		return complain();

	report_name(profile->name);
	run_begin(option_integer("run-timeout"));
	if (run_make_directory())
		profile->run();
	passed = profile->finish();
	target_close();
	run_remove_directory();
	return passed ? 0 : 1;
}

/*
 * Is a command done by a script, with options of its own?
 */
static bool
script_find(const char *name)
{
	for (int i = 0; i < lengthof(scripts); i++)
	{
		if (strcmp(scripts[i].name, name) == 0)
			return true;
	}
	return false;
}

/*
 * Let the script do it: "limits" is one, "service" has the others.
 */
static int
script_run(char **argv)
{
	bool		limits = strcmp(argv[1], "limits") == 0;
	char	   *script = run_format("%s/%s", run_home(),
									limits ? "limits" : "service");

	if (limits)
		argv++;
	argv[0] = script;
	execv(script, argv);
	fprintf(stderr, "alvyn_bench: could not run \"%s\": %m\n", script);
	return 1;
}

static const Profile *
profile_find(const char *name)
{
	for (int i = 0; i < lengthof(profiles); i++)
	{
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	}
	return NULL;
}

static void
usage(void)
{
	printf("alvyn_bench measures an Alvyn event store under load.\n\n"
		   "Usage: alvyn_bench COMMAND [OPTION]...\n\nCommands:\n");
	for (int i = 0; i < lengthof(profiles); i++)
		printf("  %-10s %s\n", profiles[i].name, profiles[i].help);
	for (int i = 0; i < lengthof(scripts); i++)
		printf("  %-10s %s\n", scripts[i].name, scripts[i].help);
	printf("\nalvyn_bench COMMAND --help lists the options of a command.\n"
		   "Exit code 0: passed, 1: failed, 2: wrong options.\n");
}

/*
 * Say what is wrong with the options.
 */
static int
complain(void)
{
	fprintf(stderr, "alvyn_bench: %s\n", run_failure());
	return 2;
}
