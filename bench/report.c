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
 * Write the JSON, if somebody wants it.
 */
static bool
report_save(void)
{
	const char *output = option_text("output");
	const char *params[] = {run_failure()};
	char	   *json;
	FILE	   *file;

	if (output == NULL)
		return true;
	json = session_value(target_session(),
						 "SELECT jsonb_pretty(alvyn_bench.report($1))",
						 1, params);
	if (json == NULL)
		return false;
	file = fopen(output, "w");
	if (file == NULL || fprintf(file, "%s\n", json) < 0 || fclose(file) != 0)
		run_fail("could not write file \"%s\": %m", output);
	free(json);
	return true;
}

/*
 * Without a server: write that the run failed and why, by hand.
 */
static void
report_save_reason(void)
{
	const char *output = option_text("output");
	FILE	   *file = output ? fopen(output, "w") : NULL;

	if (file == NULL)
		return;
	fprintf(file, "{\"status\": \"failed\", \"failure\": \"");
	for (const char *c = run_failure() ? run_failure() : ""; *c; c++)
	{
		if (*c == '"' || *c == '\\')
			fputc('\\', file);
		fputc((unsigned char) *c < ' ' ? ' ' : *c, file);
	}
	fprintf(file, "\"}\n");
	fclose(file);
}
