/*-------------------------------------------------------------------------
 *
 * session.c
 *	  Connections to the server under test.
 *
 * Where the server is says the environment (PGHOST, PGDATABASE ...), which
 * pgbench and psql inherit.  A statement may take minutes, so everything is
 * sent asynchronously: while it runs, the run's interrupt and deadline are
 * watched, and the statement is cancelled when the run does not go on.
 *
 * IDENTIFICATION
 *	  bench/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <poll.h>

#include "libpq-fe.h"
#include "pqexpbuffer.h"

#include "progress.h"
#include "run.h"
#include "session.h"

static bool session_wait(PGconn *session);
static PGresult *session_last_result(PGconn *session);
static bool session_send_file(PGconn *session, const char *path);
static bool session_fail(PGconn *session);
static void session_ignore_notice(void *arg, const char *message);

/*
 * Connect.  NULL, with the failure recorded, when that is not possible.  What
 * runs here may take minutes, whatever the server's limits for others are.
 */
PGconn *
session_open(const char *purpose)
{
	const char *keywords[] = {"application_name", NULL};
	const char *values[] = {purpose, NULL};
	PGconn	   *session = PQconnectdbParams(keywords, values, 0);

	if (PQstatus(session) != CONNECTION_OK)
	{
		session_fail(session);
		PQfinish(session);
		return NULL;
	}
	PQsetNoticeProcessor(session, session_ignore_notice, NULL);
	PQclear(PQexec(session, "SET statement_timeout = 0"));
	return session;
}

/*
 * Run one or several statements whose rows do not matter.
 */
bool
session_run(PGconn *session, const char *sql)
{
	PGresult   *result;
	bool		ok;

	if (!run_goes_on())
		return false;
	if (!PQsendQuery(session, sql) || !session_wait(session))
		return session_fail(session);
	result = session_last_result(session);
	ok = session_result_ok(session, result);
	PQclear(result);
	return ok;
}

/*
 * Run a file of statements.
 */
bool
session_run_file(PGconn *session, const char *path)
{
	FILE	   *file = fopen(path, "r");
	PQExpBuffer sql = createPQExpBuffer();
	char		line[1024];
	bool		ok;

	if (file == NULL)
		return run_fail("could not open file \"%s\": %m", path);
	while (fgets(line, sizeof(line), file) != NULL)
		appendPQExpBufferStr(sql, line);
	fclose(file);

	ok = session_run(session, sql->data);
	destroyPQExpBuffer(sql);
	return ok;
}

/*
 * Run a file from the program's sql directory.
 */
bool
session_run_script(PGconn *session, const char *name)
{
	char	   *path = run_format("%s/sql/%s", run_home(), name);
	bool		ok = session_run_file(session, path);

	free(path);
	return ok;
}

/*
 * Run one statement with parameters.  NULL when it fails.
 */
PGresult *
session_query(PGconn *session, const char *sql, int nparams,
			  const char *const *params)
{
	PGresult   *result;

	if (!run_goes_on())
		return NULL;
	if (!PQsendQueryParams(session, sql, nparams, NULL, params,
						   NULL, NULL, 0) ||
		!session_wait(session))
	{
		session_fail(session);
		return NULL;
	}
	result = session_last_result(session);
	if (session_result_ok(session, result))
		return result;
	PQclear(result);
	return NULL;
}

/*
 * The first column of the only row, in memory of its own.  NULL when it is
 * null or the statement fails.
 */
char *
session_value(PGconn *session, const char *sql, int nparams,
			  const char *const *params)
{
	PGresult   *result = session_query(session, sql, nparams, params);
	char	   *value = NULL;

	if (result != NULL && PQntuples(result) > 0 &&
		!PQgetisnull(result, 0, 0))
		value = run_format("%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	return value;
}

/*
 * COPY a file into a table.
 */
bool
session_copy(PGconn *session, const char *sql, const char *path)
{
	PGresult   *result;
	bool		ok;

	if (!run_goes_on())
		return false;
	result = PQexec(session, sql);
	ok = PQresultStatus(result) == PGRES_COPY_IN;
	PQclear(result);
	if (!ok)
		return session_fail(session);

	if (!session_send_file(session, path) || !session_wait(session))
		return session_fail(session);
	result = session_last_result(session);
	ok = session_result_ok(session, result);
	PQclear(result);
	return ok;
}

/*
 * Whether a result is what its statement was meant to bring.
 */
bool
session_result_ok(PGconn *session, PGresult *result)
{
	switch (PQresultStatus(result))
	{
		case PGRES_COMMAND_OK:
		case PGRES_TUPLES_OK:
		case PGRES_EMPTY_QUERY:
			return true;
		default:
			return session_fail(session);
	}
}

/*
 * Wait for a result.  A run that does not go on cancels the statement and
 * waits for the server to say so.
 */
static bool
session_wait(PGconn *session)
{
	bool		cancelled = false;

	while (PQisBusy(session))
	{
		struct pollfd fd = {PQsocket(session), POLLIN, 0};

		if (!cancelled && !run_goes_on())
		{
			PGcancel   *cancel = PQgetCancel(session);
			char		message[256];

			PQcancel(cancel, message, sizeof(message));
			PQfreeCancel(cancel);
			cancelled = true;
		}
		poll(&fd, 1, RUN_POLL_MS);
		progress_tick();
		if (!PQconsumeInput(session))
			return false;
	}
	return true;
}

/*
 * Drain a query: the first failed result, else the last one.
 */
static PGresult *
session_last_result(PGconn *session)
{
	PGresult   *last = NULL;
	PGresult   *next;

	while (session_wait(session) && (next = PQgetResult(session)) != NULL)
	{
		if (last != NULL && PQresultStatus(last) == PGRES_FATAL_ERROR)
		{
			PQclear(next);
			continue;
		}
		PQclear(last);
		last = next;
	}
	return last;
}

/*
 * Send a file's complete lines.  A log whose writer was killed may end in
 * the middle of a line.
 */
static bool
session_send_file(PGconn *session, const char *path)
{
	FILE	   *file = fopen(path, "r");
	char	   *line = NULL;
	size_t		size = 0;
	ssize_t		length;
	bool		ok = true;

	while (ok && file != NULL && (length = getline(&line, &size, file)) > 0)
	{
		if (line[length - 1] == '\n')
			ok = PQputCopyData(session, line, length) == 1;
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return ok && PQputCopyEnd(session, NULL) == 1;
}

/*
 * Record the session's error, without its trailing newline.
 */
static bool
session_fail(PGconn *session)
{
	char	   *message = run_format("%s", PQerrorMessage(session));

	while (strlen(message) > 0 && message[strlen(message) - 1] == '\n')
		message[strlen(message) - 1] = '\0';
	run_fail("%s", message);
	free(message);
	return false;
}

static void
session_ignore_notice(void *arg, const char *message)
{
}
