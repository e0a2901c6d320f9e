/*-------------------------------------------------------------------------
 *
 * traffic.c
 *	  Runs the planned operations through pgbench.
 *
 * A phase is a set of pgbench processes that run side by side, one for each
 * replica.  The next phase begins when all have ended.
 *
 * IDENTIFICATION
 *	  bench/traffic.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <signal.h>

#include "libpq-fe.h"

#include "options.h"
#include "progress.h"
#include "replace.h"
#include "replica.h"
#include "report.h"
#include "run.h"
#include "sample.h"
#include "session.h"
#include "target.h"
#include "traffic.h"

/* All processes that were started, newest first. */
static Replica *traffic_replicas = NULL;

/* The scripts' variables. */
static PGresult *traffic_variables = NULL;

static bool traffic_run_phases(bool (*go_on) (const char *phase, bool *more));
static bool traffic_next_stage(const char *phase, bool *more);
static bool traffic_run_phase(const char *phase, const char *name,
							  int operations);
static bool traffic_start(PGresult *plan);
static bool traffic_watch(const char *phase, int operations);
static bool traffic_check(int64 *done);
static bool traffic_running(void);
static bool traffic_replace(void);
static void traffic_stop(void);

/*
 * Server, database and plan.
 */
bool
traffic_setup(const char *plan)
{
	bool		ok;

	if (!target_open(option_text("dsn")) ||
		!session_run_script(target_session(), "schema.sql") ||
		!session_run_script(target_session(), "analyse.sql") ||
		!report_prepare())
		return false;
	progress_begin("planning", "", 0);
	ok = session_run_script(target_session(), plan);
	progress_end();
	return ok;
}

/*
 * Run all phases.
 */
bool
traffic_run(void)
{
	return traffic_run_phases(NULL);
}

/*
 * Run phases until enough of them were not sustained.
 */
bool
traffic_run_stages(void)
{
	return traffic_run_phases(traffic_next_stage);
}

/*
 * Load what all processes left, also those that were stopped.
 */
bool
traffic_load_logs(void)
{
	for (Replica *replica = traffic_replicas; replica != NULL;
		 replica = replica->next)
	{
		if (!replica_load(replica))
			return false;
	}
	return true;
}

/*
 * Also after a failure: what was measured until then.
 */
bool
traffic_analyse(void)
{
	bool		ok;

	progress_begin("analysing", "", 0);
	ok = traffic_load_logs() &&
		session_run(target_session(), "ANALYZE alvyn_bench.log") &&
		session_run(target_session(), "SELECT alvyn_bench.analyse_rest()");
	progress_end();
	return ok;
}

/*
 * Compare the store with the plan, after spoiling it if that is asked for.
 */
bool
traffic_verify(const char *script)
{
	const char *tamper = option_text("tamper");
	bool		ok;

	if (tamper != NULL && !session_run_file(target_session(), tamper))
		return false;
	progress_begin("verifying", "", 0);
	ok = session_run(target_session(), "ANALYZE alvyn_bench.request") &&
		session_run_script(target_session(), script);
	progress_end();
	return ok;
}

/*
 * Run phases as long as the function, if there is one, wants more.  The
 * sessions of the traffic have a statement timeout.
 */
static bool
traffic_run_phases(bool (*go_on) (const char *phase, bool *more))
{
	PGresult   *phases;
	char	   *options = getenv("PGOPTIONS") ?
	run_format("%s", getenv("PGOPTIONS")) : NULL;
	bool		ok = true;
	bool		more = true;

	phases = session_query(target_session(),
						   "SELECT phase, name, request_count"
						   "  FROM alvyn_bench.phase ORDER BY phase", 0, NULL);
	traffic_variables = session_query(target_session(),
									  "SELECT name, value"
									  "  FROM alvyn_bench.variable", 0, NULL);
	if (phases == NULL || traffic_variables == NULL)
		return false;

	setenv("PGOPTIONS", run_format("%s -c statement_timeout=%ds",
								   options ? options : "",
								   option_integer("operation-timeout")), 1);
	setenv("PGAPPNAME", "alvyn_bench traffic", 1);
	for (int row = 0; ok && more && row < PQntuples(phases); row++)
	{
		ok = traffic_run_phase(PQgetvalue(phases, row, 0),
							   PQgetvalue(phases, row, 1),
							   atoi(PQgetvalue(phases, row, 2)));
		if (ok && go_on != NULL)
			ok = go_on(PQgetvalue(phases, row, 0), &more);
	}
	if (options != NULL)
		setenv("PGOPTIONS", options, 1);
	else
		unsetenv("PGOPTIONS");
	unsetenv("PGAPPNAME");
	PQclear(phases);
	return ok;
}

/*
 * After a stage: judge it.
 */
static bool
traffic_next_stage(const char *phase, bool *more)
{
	const char *params[] = {phase};
	PGresult   *result;
	char	   *value;

	if (!traffic_load_logs())
		return false;
	result = session_query(target_session(),
						   "SELECT alvyn_bench.analyse_phase($1)", 1, params);
	if (result == NULL)
		return false;
	PQclear(result);
	value = session_value(target_session(),
						  "SELECT alvyn_bench.next_stage($1)", 1, params);
	*more = value != NULL && *value == 't';
	free(value);
	return run_goes_on();
}

/*
 * Start the processes of a phase and wait for all of them.
 */
static bool
traffic_run_phase(const char *phase, const char *name, int operations)
{
	const char *params[] = {phase};
	PGresult   *plan;
	bool		ok;

	plan = session_query(target_session(),
						 "SELECT " REPLICA_COLUMNS
						 "  FROM alvyn_bench.process"
						 " WHERE phase = $1 ORDER BY process", 1, params);
	if (plan == NULL)
		return false;

	progress_begin(name, "requests", operations);
	ok = traffic_start(plan) && traffic_watch(phase, operations);
	if (!ok)
		traffic_stop();
	progress_end();
	PQclear(plan);
	return ok;
}

static bool
traffic_start(PGresult *plan)
{
	for (int row = 0; row < PQntuples(plan); row++)
	{
		Replica    *replica = replica_plan(plan, row);

		replica->next = traffic_replicas;
		traffic_replicas = replica;
		if (!replica_start(replica, traffic_variables))
			return false;
	}
	return true;
}

/*
 * Wait for all processes, showing how far they are, and do what is to be
 * done meanwhile.
 */
static bool
traffic_watch(const char *phase, int operations)
{
	int64		done = 0;
	bool		replace = replace_wanted(phase);

	while (traffic_running())
	{
		if (!traffic_check(&done) || !run_goes_on())
			return false;
		progress_at(done);
		if (replace && done >= operations / 2)
		{
			replace = false;
			if (!traffic_replace())
				return false;
		}
		if (!sample_tick())
			return false;
		run_sleep_ms(traffic_running() ? RUN_POLL_MS : 0);
	}
	return true;
}

/*
 * Look which processes have ended, and count what they have done.
 */
static bool
traffic_check(int64 *done)
{
	for (Replica *replica = traffic_replicas; replica != NULL;
		 replica = replica->next)
	{
		if (replica->pid == 0)
			continue;
		if (!replica_check(replica))
			return false;
		*done += replica_count(replica);
	}
	return true;
}

static bool
traffic_running(void)
{
	for (Replica *replica = traffic_replicas; replica != NULL;
		 replica = replica->next)
	{
		if (replica->pid != 0)
			return true;
	}
	return false;
}

/*
 * Kill the newest of the processes that run, and start another.
 */
static bool
traffic_replace(void)
{
	Replica    *victim = traffic_replicas;
	Replica    *successor;

	while (victim != NULL && victim->pid == 0)
		victim = victim->next;
	if (victim == NULL)
		return true;
	successor = replace_replica(victim);
	if (successor == NULL)
		return run_goes_on();
	successor->next = traffic_replicas;
	traffic_replicas = successor;
	return replica_start(successor, traffic_variables);
}

static void
traffic_stop(void)
{
	for (Replica *replica = traffic_replicas; replica != NULL;
		 replica = replica->next)
		replica_kill(replica, SIGTERM);
}
