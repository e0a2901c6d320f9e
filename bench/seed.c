/*-------------------------------------------------------------------------
 *
 * seed.c
 *	  Gives the accounts their history.
 *
 * Several connections work at once, each on a range of accounts at a time:
 * one statement, hence one transaction, that makes the events on the server
 * and appends them through the API (sql/seed.sql).  A connection that is
 * done takes the next range, so that none waits for another.
 *
 * IDENTIFICATION
 *	  bench/seed.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <poll.h>

#include "libpq-fe.h"

#include "options.h"
#include "progress.h"
#include "run.h"
#include "seed.h"
#include "session.h"
#include "target.h"

/* Events of one transaction, about; a quarter of a second of work. */
#define SEED_EVENTS_PER_RANGE 24000

typedef struct SeedState
{
	int			accounts;
	int			range;			/* accounts per statement */
	int			next;			/* first account not handed out yet */
	int64		events;			/* events written */
} SeedState;

static bool seed_all(SeedState *state, PGconn **sessions, int count);
static bool seed_hand_out(SeedState *state, PGconn *session);
static bool seed_collect(SeedState *state, PGconn *session, bool *idle);
static void seed_wait(PGconn **sessions, int count);

/*
 * Write the history of all accounts.
 */
bool
seed_accounts(void)
{
	int			count = option_integer("seed-connections");
	int			history = option_integer("history");
	PGconn	  **sessions = calloc(count, sizeof(PGconn *));
	SeedState	state = {0};
	bool		ok = session_run_script(target_session(), "seed.sql");

	state.accounts = option_integer("accounts");
	state.range = Max(1, SEED_EVENTS_PER_RANGE / history);
	progress_begin("seeding", "events", (int64) state.accounts * history);
	for (int i = 0; ok && i < count; i++)
		ok = (sessions[i] = session_open("alvyn_bench seed")) != NULL;
	ok = ok && seed_all(&state, sessions, count);
	progress_end();

	for (int i = 0; i < count; i++)
		PQfinish(sessions[i]);
	free(sessions);
	return ok;
}

/*
 * Keep every session busy until no range is left and all have answered.
 */
static bool
seed_all(SeedState *state, PGconn **sessions, int count)
{
	int			busy = 0;

	for (int i = 0; i < count; i++)
	{
		if (state->next < state->accounts)
		{
			if (!seed_hand_out(state, sessions[i]))
				return false;
			busy++;
		}
	}
	while (busy > 0)
	{
		if (!run_goes_on())
			return false;
		seed_wait(sessions, count);
		for (int i = 0; i < count; i++)
		{
			bool		idle = false;

			if (!seed_collect(state, sessions[i], &idle))
				return false;
			if (!idle)
				continue;
			busy--;
			if (state->next >= state->accounts)
				continue;
			if (!seed_hand_out(state, sessions[i]))
				return false;
			busy++;
		}
	}
	return true;
}

/*
 * Give a session the next range.
 */
static bool
seed_hand_out(SeedState *state, PGconn *session)
{
	int			last = Min(state->next + state->range, state->accounts) - 1;
	char	   *sql = run_format("SELECT alvyn_bench.seed_accounts(%d, %d)",
								 state->next, last);
	bool		ok = PQsendQuery(session, sql) == 1;

	state->next = last + 1;
	free(sql);
	return ok || run_fail("%s", PQerrorMessage(session));
}

/*
 * Take a session's answer if there is one; idle tells that it has no more.
 */
static bool
seed_collect(SeedState *state, PGconn *session, bool *idle)
{
	PGresult   *result;

	if (PQtransactionStatus(session) != PQTRANS_ACTIVE)
		return true;
	if (!PQconsumeInput(session))
		return run_fail("%s", PQerrorMessage(session));
	while (!PQisBusy(session))
	{
		if ((result = PQgetResult(session)) == NULL)
		{
			*idle = true;
			return true;
		}
		if (!session_result_ok(session, result))
			return false;
		state->events += strtoll(PQgetvalue(result, 0, 0), NULL, 10);
		progress_at(state->events);
		PQclear(result);
	}
	return true;
}

/*
 * Wait until a session has something to say, but not for long.
 */
static void
seed_wait(PGconn **sessions, int count)
{
	struct pollfd fds[64];

	Assert(count <= lengthof(fds));
	for (int i = 0; i < count; i++)
	{
		fds[i].fd = PQsocket(sessions[i]);
		fds[i].events = POLLIN;
	}
	poll(fds, count, RUN_POLL_MS);
	progress_tick();
}
