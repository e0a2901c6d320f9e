/*-------------------------------------------------------------------------
 *
 * options.c
 *	  What the run was told to do.
 *
 * One table names every option, its kind, limits and help.  From it come
 * the command line (--active-users 10), the environment
 * (ALVYN_BENCH_ACTIVE_USERS=10), the help text and the rows of
 * alvyn_bench.setting, where the SQL of the run and the report find them.
 * The command line wins over the environment, the environment over the
 * command's default.
 *
 * A command knows the options in its list of defaults, and some that all
 * have.  Any other option is an error; a variable is one only if no command
 * knows it, since it may be meant for another.
 *
 * IDENTIFICATION
 *	  bench/options.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <unistd.h>

#include "options.h"
#include "run.h"

typedef enum OptionKind
{
	OPTION_INTEGER,
	OPTION_DECIMAL,
	OPTION_TEXT,
	OPTION_SWITCH
} OptionKind;

typedef struct Option
{
	const char *name;
	OptionKind	kind;
	const char *argument;
	double		minimum;
	double		maximum;
	const char *help;
	const char *value;			/* NULL when neither given nor defaulted */
	bool		known;			/* this command has it */
} Option;

static Option options[] = {
	{"accounts", OPTION_INTEGER, "N", 1, 10000000,
	"accounts that are seeded"},
	{"active-users", OPTION_INTEGER, "N", 1, 10000000,
	"users that take turns; default: one per account"},
	{"operations-per-user", OPTION_INTEGER, "N", 1, 100000,
	"operations of each active user"},
	{"requests", OPTION_INTEGER, "N", 1, 100000000,
	"operations in all; default: users times operations per user"},
	{"hot-accounts", OPTION_INTEGER, "N", 0, 10000000,
	"accounts that get more; default: the profile's share of all"},
	{"hot-traffic-percent", OPTION_INTEGER, "P", 0, 100,
	"share of the operations that hot accounts get"},
	{"streams", OPTION_INTEGER, "N", 1, 10000000,
	"streams that are seeded"},
	{"hot-streams", OPTION_INTEGER, "N", 0, 10000000,
	"streams that get three quarters of the operations"},
	{"history", OPTION_INTEGER, "N", 0, 100000,
	"events that an account or stream has before the traffic"},
	{"operations", OPTION_INTEGER, "N", 1, 100000000,
	"operations of each replica"},
	{"append-percent", OPTION_INTEGER, "P", 0, 100,
	"share of appends; the rest are loads"},
	{"batch-size", OPTION_INTEGER, "N", 1, 10000,
	"events of one append, also while seeding"},
	{"read-percent", OPTION_INTEGER, "P", 0, 100,
	"share of reads among a user's operations"},
	{"duration-seconds", OPTION_DECIMAL, "S", 0.001, 1e9,
	"how long the planned traffic takes"},
	{"time-scale", OPTION_DECIMAL, "X", 0.001, 1e6,
	"run the same plan X times as fast"},
	{"rate", OPTION_DECIMAL, "N", 0.001, 1e6,
	"operations per second"},
	{"capacity-start-rps", OPTION_INTEGER, "N", 1, 1000000,
	"operations per second of the first stage"},
	{"capacity-step-rps", OPTION_INTEGER, "N", 1, 1000000,
	"by how much each stage is faster than the one before"},
	{"capacity-max-rps", OPTION_INTEGER, "N", 1, 1000000,
	"operations per second of the last stage"},
	{"stage-seconds", OPTION_DECIMAL, "S", 0.1, 86400,
	"how long a stage takes"},
	{"stages-beyond", OPTION_INTEGER, "N", 0, 1000,
	"stages to run after the first that was not sustained"},
	{"sample-seconds", OPTION_INTEGER, "S", 1, 86400,
	"how often memory, tables and connections are measured"},
	{"growth-percent", OPTION_DECIMAL, "P", 0, 1e6,
	"growth from the second to the last quarter that counts as a trend"},
	{"lengths", OPTION_TEXT, "N,N...", 0, 0,
	"lengths of the streams that are read"},
	{"tail", OPTION_INTEGER, "N", 0, 49,
	"events of a stream behind its snapshot"},
	{"seed", OPTION_INTEGER, "N", 0, 1000000,
	"another seed is another plan of the same size"},
	{"replicas", OPTION_INTEGER, "N", 1, 1000,
	"independent pgbench processes"},
	{"clients", OPTION_INTEGER, "N", 1, 1000,
	"connections of each replica"},
	{"concurrency", OPTION_INTEGER, "N", 1, 10000,
	"connections of all replicas together"},
	{"max-tries", OPTION_INTEGER, "N", 1, 1000000,
	"attempts at an operation that meets a version conflict"},
	{"seed-connections", OPTION_INTEGER, "N", 1, 64,
	"connections that seed"},
	{"enforce-slos", OPTION_SWITCH, NULL, 0, 0,
	"fail when an objective is missed"},
	{"slo-read-p95-ms", OPTION_DECIMAL, "MS", 0, 1e9,
	"objective: p95 of reads"},
	{"slo-deposit-p95-ms", OPTION_DECIMAL, "MS", 0, 1e9,
	"objective: p95 of deposits"},
	{"slo-error-rate-percent", OPTION_DECIMAL, "P", 0, 100,
	"objective: failed operations"},
	{"no-snapshots", OPTION_SWITCH, NULL, 0, 0,
	"keep no snapshots and replay whole streams"},
	{"replace-replica", OPTION_SWITCH, NULL, 0, 0,
	"kill a replica amid the traffic and start another"},
	{"operation-timeout", OPTION_INTEGER, "S", 1, 86400,
	"seconds that one statement of the traffic may take"},
	{"run-timeout", OPTION_INTEGER, "S", 1, 8640000,
	"seconds that the whole run may take"},
	{"dsn", OPTION_TEXT, "DSN", 0, 0,
	"server to test; default: a throwaway one"},
	{"output", OPTION_TEXT, "FILE", 0, 0,
	"write the report as JSON"},
	{"html", OPTION_TEXT, "FILE", 0, 0,
	"write the report as a page with charts"},
	{"tamper", OPTION_TEXT, "FILE", 0, 0,
	"run this SQL before verifying, to see it found out"},
	{"verbose", OPTION_SWITCH, NULL, 0, 0,
	"say what is being done"},
	{"help", OPTION_SWITCH, NULL, 0, 0,
	"show this help"},
};

/* Options of every command. */
static const OptionDefault option_common[] = {
	{"run-timeout", "7200"},
	{"dsn", NULL},
	{"verbose", NULL},
	{"help", NULL},
	{NULL, NULL}
};

/* Arguments that are no options. */
static char **option_arguments;

static Option *option_find(const char *name);
static void option_take_defaults(const OptionDefault *defaults);
static bool option_check_environment(void);
static bool option_take_environment(void);
static bool option_take_arguments(int argc, char **argv, int arguments);
static bool option_set(Option *option, const char *value, const char *origin);
static bool option_is_number(const Option *option, const char *value);
static char *option_variable(const Option *option);

/*
 * Read defaults, environment and command line, in this order.  So many
 * arguments must be there that are no options.
 */
bool
options_read(int argc, char **argv, const OptionDefault *defaults,
			 int arguments)
{
	option_take_defaults(option_common);
	option_take_defaults(defaults);
	return option_check_environment() && option_take_environment() &&
		option_take_arguments(argc, argv, arguments);
}

/*
 * Give an option the value that follows from others, if it has none.
 */
void
option_default(const char *name, const char *value)
{
	if (option_find(name)->value == NULL)
		option_find(name)->value = value;
}

const char *
option_text(const char *name)
{
	return option_find(name)->value;
}

int
option_integer(const char *name)
{
	return atoi(option_find(name)->value);
}

double
option_decimal(const char *name)
{
	return strtod(option_find(name)->value, NULL);
}

bool
option_switch(const char *name)
{
	const char *value = option_find(name)->value;

	return value != NULL && strcmp(value, "true") == 0;
}

/*
 * The n-th argument that is no option.
 */
const char *
option_argument(int n)
{
	return option_arguments[n];
}

/*
 * Whether this command has an option and it has a value.
 */
bool
option_given(const char *name)
{
	return option_find(name)->known && option_find(name)->value != NULL;
}

/*
 * Print every option of the command with its default.
 */
void
options_help(const OptionDefault *defaults)
{
	option_take_defaults(option_common);
	option_take_defaults(defaults);
	printf("Options (each also as environment variable, for example %s):\n",
		   option_variable(option_find("run-timeout")));
	for (int i = 0; i < lengthof(options); i++)
	{
		Option	   *option = &options[i];
		char	   *left = run_format("--%s %s", option->name,
									  option->argument ? option->argument : "");

		if (!option->known)
			continue;
		printf("  %-28s %s", left, option->help);
		if (option->value != NULL && strcmp(option->name, "help") != 0)
			printf(" (%s)", option->value);
		printf("\n");
		free(left);
	}
}

/*
 * Hand every option that has a value to a function.
 */
void
options_each(void (*visit) (const char *name, const char *value))
{
	for (int i = 0; i < lengthof(options); i++)
	{
		if (options[i].value != NULL)
			visit(options[i].name, options[i].value);
	}
}

/*
 * The option of this name.  Names that the program itself uses exist.
 */
static Option *
option_find(const char *name)
{
	for (int i = 0; i < lengthof(options); i++)
	{
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	}
	fprintf(stderr, "alvyn_bench: no option is named \"%s\"\n", name);
	abort();
}

static void
option_take_defaults(const OptionDefault *defaults)
{
	for (; defaults->name != NULL; defaults++)
	{
		option_find(defaults->name)->value = defaults->value;
		option_find(defaults->name)->known = true;
	}
}

/*
 * A variable that looks like an option and is none is a mistake.
 */
static bool
option_check_environment(void)
{
	const char *prefix = "ALVYN_BENCH_";

	for (char **entry = environ; *entry != NULL; entry++)
	{
		size_t		length = strcspn(*entry, "=");
		bool		found = strncmp(*entry, prefix, strlen(prefix)) != 0;

		for (int i = 0; !found && i < lengthof(options); i++)
		{
			char	   *variable = option_variable(&options[i]);

			found = strlen(variable) == length &&
				strncmp(variable, *entry, length) == 0;
			free(variable);
		}
		if (!found)
			return run_fail("environment variable \"%.*s\" is no option",
							(int) length, *entry);
	}
	return true;
}

static bool
option_take_environment(void)
{
	for (int i = 0; i < lengthof(options); i++)
	{
		char	   *variable = option_variable(&options[i]);
		const char *value = getenv(variable);

		if (options[i].known && value != NULL && *value != '\0' &&
			!option_set(&options[i], value, variable))
			return false;
		free(variable);
	}
	return true;
}

/*
 * Read the command line; getopt_long reports what it does not know.
 */
static bool
option_take_arguments(int argc, char **argv, int arguments)
{
	struct option longs[lengthof(options) + 1];
	int			count = 0;
	int			index;
	int			result;

	memset(longs, 0, sizeof(longs));
	for (int i = 0; i < lengthof(options); i++)
	{
		if (!options[i].known)
			continue;
		longs[count].name = options[i].name;
		longs[count].has_arg = options[i].kind == OPTION_SWITCH ?
			optional_argument : required_argument;
		count++;
	}

	while ((result = getopt_long(argc, argv, "", longs, &index)) == 0)
	{
		char	   *origin = run_format("--%s", longs[index].name);

		if (!option_set(option_find(longs[index].name),
						optarg ? optarg : "true", origin))
			return false;
		free(origin);
	}
	if (result != -1)
		return run_fail("unknown or incomplete option");
	if (optind + arguments < argc)
		return run_fail("unexpected argument \"%s\"", argv[optind + arguments]);
	if (optind + arguments > argc && !option_switch("help"))
		return run_fail("%d arguments are needed", arguments);
	option_arguments = argv + optind;
	return true;
}

/*
 * Check a value and keep it.  The origin is named in the error.
 */
static bool
option_set(Option *option, const char *value, const char *origin)
{
	if (option->kind == OPTION_SWITCH &&
		strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return run_fail("%s must be \"true\" or \"false\", not \"%s\"",
						origin, value);
	if ((option->kind == OPTION_INTEGER || option->kind == OPTION_DECIMAL) &&
		!option_is_number(option, value))
		return run_fail("%s must be %s from %.15g to %.15g, not \"%s\"", origin,
						option->kind == OPTION_INTEGER ?
						"an integer" : "a number",
						option->minimum, option->maximum, value);
	option->value = value;
	return true;
}

static bool
option_is_number(const Option *option, const char *value)
{
	char	   *end;
	double		number;

	if (value[strspn(value, option->kind == OPTION_INTEGER ?
					 "0123456789" : "0123456789.")] != '\0')
		return false;
	number = strtod(value, &end);
	return end != value && *end == '\0' &&
		number >= option->minimum && number <= option->maximum;
}

/*
 * The environment variable of an option: ALVYN_BENCH_ACTIVE_USERS.
 */
static char *
option_variable(const Option *option)
{
	char	   *variable = run_format("ALVYN_BENCH_%s", option->name);

	for (char *c = variable; *c != '\0'; c++)
		*c = *c == '-' ? '_' : toupper((unsigned char) *c);
	return variable;
}
