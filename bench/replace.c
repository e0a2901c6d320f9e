/*-------------------------------------------------------------------------
 *
 * replace.c
 *	  Replaces a pgbench process amid the traffic.
 *
 * What a host that dies and its successor do.  The victim is killed without
 * warning, so it has operations on their way whose answer nobody hears, and
 * others that it heard of but did not come to write into its log.  The
 * successor repeats all that the log does not have, with the same tokens as
 * idempotency keys; which of them the store had already is counted, and the
 * verification shows that none is there twice.
 *
 * IDENTIFICATION
 *	  bench/replace.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <signal.h>

#include "options.h"
#include "replace.h"
#include "run.h"
#include "session.h"
#include "target.h"

/*
 * Whether it is to happen in this phase: the first of the largest ones.
 */
bool
replace_wanted(const char *phase)
{
	const char *params[] = {phase};
	char	   *value;
	bool		wanted;

	if (!option_given("replace-replica") || !option_switch("replace-replica"))
		return false;
	value = session_value(target_session(),
						  "SELECT phase = $1 FROM alvyn_bench.phase"
						  " ORDER BY request_count DESC, phase LIMIT 1",
						  1, params);
	wanted = value != NULL && *value == 't';
	free(value);
	return wanted;
}

/*
 * Kill a process and plan its successor.  NULL when nothing was left to do,
 * or with the failure recorded.
 */
Replica *
replace_replica(Replica *victim)
{
	const char *params[] = {victim->process};
	Replica    *successor = NULL;
	PGresult   *plan;

	if (option_switch("verbose"))
		fprintf(stderr, "killing process %s\n", victim->process);
	replica_kill(victim, SIGKILL);
	if (!replica_load(victim))
		return NULL;
	plan = session_query(target_session(),
						 "SELECT " REPLICA_COLUMNS
						 "  FROM alvyn_bench.replace_process($1)", 1, params);
	if (plan != NULL && PQntuples(plan) > 0)
		successor = replica_plan(plan, 0);
	PQclear(plan);
	return successor;
}
