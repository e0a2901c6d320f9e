/*-------------------------------------------------------------------------
 *
 * target.c
 *	  The server under test and the run's database on it.
 *
 * By default the server is a throwaway one, which bench/server builds and
 * starts in the run's directory.  With --dsn it is the caller's: then the
 * run makes a database of its own there and drops it at the end, changes no
 * setting of the server and touches no other database.  The throwaway server
 * gets the same database, so that the two differ in nothing else.
 *
 * Whoever connects, here, in pgbench and in psql, takes the connection from
 * the environment.  A DSN is therefore translated into libpq's environment
 * variables, which also keeps passwords out of the process list.
 *
 * IDENTIFICATION
 *	  bench/target.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <time.h>
#include <unistd.h>

#include "libpq-fe.h"

#include "options.h"
#include "process.h"
#include "progress.h"
#include "run.h"
#include "session.h"
#include "target.h"

/* How long a crashed server may take to recover. */
#define TARGET_REVIVE_MS 60000

static char *target_server = NULL;	/* directory of the throwaway server */
static char *target_database = NULL;
static char *target_maintenance = NULL; /* database to create ours from */
static PGconn *target_main = NULL;

static bool target_start_server(void);
static bool target_read_env(void);
static bool target_adopt_dsn(const char *dsn);
static bool target_create_database(void);
static void target_drop_database(void);

/*
 * Make server and database ready and connect to it.
 */
bool
target_open(const char *dsn)
{
	setenv("PATH", run_format("%s:%s", BENCH_BINDIR, getenv("PATH")), 1);
	if (!(dsn ? target_adopt_dsn(dsn) : target_start_server()))
		return false;
	if (!target_create_database())
		return false;
	target_main = session_open("alvyn_bench");
	return target_main != NULL &&
		session_run(target_main, "CREATE EXTENSION alvyn");
}

/*
 * The run's own connection, for whatever is not traffic.
 */
PGconn *
target_session(void)
{
	return target_main;
}

/*
 * After a failure: make the connection usable again, if the server lives.
 * One that recovers from a crash refuses for a while.
 */
bool
target_revive(void)
{
	if (target_main == NULL)
		return false;
	for (int waited = 0; waited < TARGET_REVIVE_MS; waited += RUN_POLL_MS)
	{
		PQclear(PQexec(target_main, "SELECT 1"));
		if (PQstatus(target_main) != CONNECTION_OK)
			PQreset(target_main);
		if (PQstatus(target_main) == CONNECTION_OK)
			return true;
		if (PQping("") != PQPING_REJECT)
			return false;
		run_sleep_ms(RUN_POLL_MS);
	}
	return false;
}

/*
 * Leave nothing behind.
 */
void
target_close(void)
{
	if (target_main != NULL)
		PQfinish(target_main);
	target_main = NULL;

	if (target_server != NULL)
	{
		char	   *script = run_format("%s/server", run_home());
		char	   *argv[] = {script, "stop", target_server, NULL};

		if (access(target_server, F_OK) == 0)
			process_run("stopping the server", argv, NULL, PROCESS_SHIELDED);
	}
	else if (target_database != NULL)
		target_drop_database();
}

static bool
target_start_server(void)
{
	char	   *script = run_format("%s/server", run_home());
	char	   *output = run_format("%s/server.out", run_directory());
	bool		ok;

	target_server = run_format("%s/server", run_directory());
	progress_begin("server", "", 0);
	{
		char	   *argv[] = {script, "start", target_server, NULL};

		ok = process_run("bench/server", argv, output, PROCESS_ORDINARY);
	}
	progress_end();
	return ok && target_read_env();
}

/*
 * Read the lines NAME=value that bench/server wrote into our environment.
 */
static bool
target_read_env(void)
{
	char	   *path = run_format("%s/env", target_server);
	FILE	   *file = fopen(path, "r");
	char		line[MAXPGPATH];

	if (file == NULL)
		return run_fail("could not open file \"%s\": %m", path);
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *value = strchr(line, '=');

		line[strcspn(line, "\n")] = '\0';
		if (value == NULL)
			continue;
		*value++ = '\0';
		setenv(line, value, 1);
	}
	fclose(file);
	return true;
}

/*
 * Put the parts of a DSN into libpq's environment variables.
 */
static bool
target_adopt_dsn(const char *dsn)
{
	char	   *message = NULL;
	PQconninfoOption *parts = PQconninfoParse(dsn, &message);

	if (parts == NULL)
		return run_fail("invalid DSN: %s", message);
	for (PQconninfoOption *part = parts; part->keyword != NULL; part++)
	{
		if (part->val == NULL)
			continue;
		if (part->envvar == NULL)
			return run_fail("the DSN may not set \"%s\"", part->keyword);
		setenv(part->envvar, part->val, 1);
	}
	PQconninfoFree(parts);
	return true;
}

/*
 * Create the run's database, under a name that nobody has, and make it the
 * default of everyone who connects from now on.
 */
static bool
target_create_database(void)
{
	PGconn	   *session = session_open("alvyn_bench setup");
	char	   *name;
	bool		ok;

	if (session == NULL)
		return false;
	name = run_format("alvyn_bench_%d_%lx", (int) getpid(),
					  (unsigned long) time(NULL));
	ok = session_run(session, run_format("CREATE DATABASE %s TEMPLATE template0"
										 " ENCODING 'UTF8'", name));
	target_maintenance = run_format("%s", PQdb(session));
	PQfinish(session);
	if (!ok)
		return false;
	target_database = name;
	setenv("PGDATABASE", name, 1);
	return true;
}

/*
 * Drop the run's database.  A failure is said, but is not the run's.
 */
static void
target_drop_database(void)
{
	PGconn	   *session;
	PGresult   *result;

	setenv("PGDATABASE", target_maintenance, 1);
	session = PQconnectdb("");
	result = PQexec(session, run_format("DROP DATABASE %s WITH (FORCE)",
										target_database));
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fprintf(stderr, "alvyn_bench: could not drop database \"%s\": %s",
				target_database, PQerrorMessage(session));
	PQclear(result);
	PQfinish(session);
}
