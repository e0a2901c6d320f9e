/*-------------------------------------------------------------------------
 *
 * compare.c
 *	  The command "compare": two reports side by side.
 *
 * Reports are JSON, and who reads JSON best here is a server: the two are
 * loaded into a database like that of a run, and SQL compares them.
 *
 * IDENTIFICATION
 *	  bench/compare.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "pqexpbuffer.h"

#include "compare.h"
#include "process.h"
#include "report.h"
#include "run.h"
#include "session.h"
#include "target.h"

const OptionDefault compare_options[] = {
	{"output", NULL},
	{NULL, NULL}
};

static char *compare_read(const char *path);
static bool compare_keep(const char *side, const char *path);
static bool compare_print(void);
static bool compare_save(void);

/*
 * The files are there.
 */
bool
compare_check(void)
{
	for (int i = 0; i < 2; i++)
	{
		char	   *content = compare_read(option_argument(i));

		if (content == NULL)
			return false;
		free(content);
	}
	return true;
}

bool
compare_run(void)
{
	return target_open(option_text("dsn")) &&
		session_run_script(target_session(), "schema.sql") &&
		session_run_script(target_session(), "compare.sql") &&
		compare_keep("a", option_argument(0)) &&
		compare_keep("b", option_argument(1)) &&
		compare_print() &&
		compare_save();
}

/*
 * There is nothing to judge: say only what went wrong.
 */
bool
compare_finish(void)
{
	if (run_failure() != NULL)
		printf("FAILED: %s\n", run_failure());
	return run_failure() == NULL;
}

/*
 * A file's content, or NULL with the failure recorded.
 */
static char *
compare_read(const char *path)
{
	FILE	   *file = fopen(path, "r");
	PQExpBuffer content = createPQExpBuffer();
	char		buffer[65536];
	size_t		length;
	char	   *copy = NULL;

	if (file == NULL)
		run_fail("could not open file \"%s\": %m", path);
	while (file != NULL &&
		   (length = fread(buffer, 1, sizeof(buffer), file)) > 0)
		appendBinaryPQExpBuffer(content, buffer, length);
	if (file != NULL && ferror(file))
		run_fail("could not read file \"%s\": %m", path);
	else if (file != NULL)
		copy = run_format("%s", content->data);
	if (file != NULL)
		fclose(file);
	destroyPQExpBuffer(content);
	return copy;
}

static bool
compare_keep(const char *side, const char *path)
{
	char	   *report = compare_read(path);
	const char *params[] = {side, path, report};
	PGresult   *result;

	if (report == NULL)
		return false;
	result = session_query(target_session(),
						   "INSERT INTO alvyn_bench.compared VALUES ($1, $2, $3)",
						   3, params);
	free(report);
	PQclear(result);
	return result != NULL;
}

static bool
compare_print(void)
{
	char	   *file = run_format("--file=%s/sql/compare_text.sql", run_home());
	char	   *argv[] = {"psql", "--no-psqlrc", "--quiet", file, NULL};

	return process_run("psql", argv, NULL, PROCESS_ORDINARY);
}

static bool
compare_save(void)
{
	return report_write_value("SELECT jsonb_pretty("
							  "alvyn_bench.comparison_object())", 0, NULL);
}
