/*-------------------------------------------------------------------------
 *
 * report.c
 *	  Says what a run found.
 *
 * The server builds the report from the tables of the run: psql prints the
 * one for people, jsonb_pretty() makes the one for machines.  A run that
 * failed has a report too.  Only when the server itself is gone is there
 * nobody to build it; then the reason alone is written.
 *
 * IDENTIFICATION
 *	  bench/report.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "options.h"
#include "process.h"
#include "report.h"
#include "run.h"
#include "session.h"
#include "steps.h"
#include "target.h"

static const char *report_profile = NULL;

static void report_keep_setting(const char *name, const char *value);
static void report_keep_fact(const char *name, const char *value);
static void report_insert(const char *sql, const char *name, const char *value);
static char *report_cpu_model(void);
static char *report_command_line(const char *command);
static bool report_judge(void);
static bool report_print(void);
static bool report_save(void);
static void report_save_reason(void);
static void report_store(const char *json);

/*
 * Tell which command it is.
 */
void
report_name(const char *profile)
{
	report_profile = profile;
}

/*
 * At the start: write options and machine into the run's database.
 */
bool
report_prepare(void)
{
	struct utsname name;

	report_keep_setting("profile", report_profile);
	options_each(report_keep_setting);

	uname(&name);
	report_keep_fact("platform", name.sysname);
	report_keep_fact("osRelease", name.release);
	report_keep_fact("architecture", name.machine);
	report_keep_fact("cpuModel", report_cpu_model());
	report_keep_fact("cpuCount",
					 run_format("%ld", sysconf(_SC_NPROCESSORS_ONLN)));
	report_keep_fact("totalMemoryBytes",
					 run_format("%lld", (long long) sysconf(_SC_PHYS_PAGES) *
								sysconf(_SC_PAGESIZE)));
	report_keep_fact("pgbenchVersion",
					 report_command_line("pgbench --version"));
	report_keep_fact("revision",
					 report_command_line(run_format("git -C '%s' rev-parse HEAD"
													" 2>/dev/null",
													run_home())));
	return run_goes_on();
}

/*
 * At the end: judge, print, save.  False when the run did not pass.
 */
bool
report_write(void)
{
	bool		built;

	run_forgive();
	built = target_revive() &&
		session_run_script(target_session(), "report.sql") &&
		steps_record() &&
		report_judge() &&
		report_print() &&
		report_save();
	if (!built)
		report_save_reason();

	if (run_failure() != NULL)
		printf("FAILED: %s\n", run_failure());
	else
		printf("PASSED\n");
	return run_failure() == NULL;
}

static void
report_keep_setting(const char *name, const char *value)
{
	report_insert("INSERT INTO alvyn_bench.setting VALUES ($1, $2)",
				  name, value);
}

/*
 * Keep something about the machine, if it is known.
 */
static void
report_keep_fact(const char *name, const char *value)
{
	if (value != NULL && *value != '\0')
		report_insert("INSERT INTO alvyn_bench.environment VALUES ($1, $2)",
					  name, value);
}

static void
report_insert(const char *sql, const char *name, const char *value)
{
	const char *params[] = {name, value};

	PQclear(session_query(target_session(), sql, 2, params));
}

/*
 * What Linux calls the processor, or NULL.
 */
static char *
report_cpu_model(void)
{
	FILE	   *file = fopen("/proc/cpuinfo", "r");
	char		line[256];
	char	   *model = NULL;

	while (file != NULL && model == NULL &&
		   fgets(line, sizeof(line), file) != NULL)
	{
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
			model = run_format("%s", strchr(line, ':') + 2);
	}
	if (file != NULL)
		fclose(file);
	return model;
}

/*
 * The first line that a command prints, or an empty string.
 */
static char *
report_command_line(const char *command)
{
	FILE	   *pipe = popen(command, "r");
	char		line[256] = "";

	if (pipe != NULL)
	{
		if (fgets(line, sizeof(line), pipe) == NULL)
			line[0] = '\0';
		pclose(pipe);
	}
	line[strcspn(line, "\n")] = '\0';
	return run_format("%s", line);
}

/*
 * What the run's tables say against it is the run's failure, unless it has
 * one already.
 */
static bool
report_judge(void)
{
	char	   *verdict = session_value(target_session(),
										"SELECT alvyn_bench.verdict()",
										0, NULL);
	bool		judged = run_goes_on();

	if (verdict != NULL)
	{
		run_fail("%s", verdict);
		run_forgive();
	}
	return judged;
}

static bool
report_print(void)
{
	char	   *file = run_format("--file=%s/sql/report_text.sql", run_home());
	char	   *argv[] = {"psql", "--no-psqlrc", "--quiet", file, NULL};

	return process_run("psql", argv, NULL, PROCESS_ORDINARY);
}

/*
 * Write JSON and page, if somebody wants them.
 */
static bool
report_save(void)
{
	const char *params[] = {run_failure()};

	return report_write_value("SELECT jsonb_pretty(alvyn_bench.report($1))",
							  1, params);
}

/*
 * Write the JSON that a query returns, and its page, if they are wanted.
 */
bool
report_write_value(const char *sql, int nparams, const char *const *params)
{
	char	   *json;

	if (option_text("output") == NULL && option_text("html") == NULL)
		return true;
	json = session_value(target_session(), sql, nparams, params);
	if (json == NULL)
		return false;
	report_store(json);
	free(json);
	return true;
}

/*
 * Without a server: write that the run failed and why, by hand.
 */
static void
report_save_reason(void)
{
	const char *reason = run_failure() ? run_failure() : "";
	char	   *escaped;
	char	   *end;
	char	   *json;

	if (option_text("output") == NULL && option_text("html") == NULL)
		return;
	end = escaped = pg_malloc(2 * strlen(reason) + 1);
	for (const char *c = reason; *c != '\0'; c++)
	{
		if (*c == '"' || *c == '\\')
			*end++ = '\\';
		*end++ = (unsigned char) *c < ' ' ? ' ' : *c;
	}
	*end = '\0';
	json = run_format("{\"status\": \"failed\", \"failure\": \"%s\"}", escaped);
	report_store(json);
	free(json);
	free(escaped);
}

/*
 * Write the JSON to its file, or to one of ours when only the page is wanted,
 * and have the page made of that.
 */
static void
report_store(const char *json)
{
	const char *output = option_text("output");
	char	   *path = output != NULL ? run_format("%s", output) :
	run_format("%s/report.json", run_directory());
	FILE	   *file = fopen(path, "w");

	if (file == NULL || fprintf(file, "%s\n", json) < 0 || fclose(file) != 0)
		run_fail("could not write file \"%s\": %m", path);
	else if (option_text("html") != NULL)
	{
		char	   *program = run_format("%s/html", run_home());
		char	   *page = run_format("%s", option_text("html"));
		char	   *argv[] = {program, path, page, NULL};

		process_run("bench/html", argv, NULL, PROCESS_ORDINARY);
		free(program);
		free(page);
	}
	free(path);
}
