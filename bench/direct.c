/*-------------------------------------------------------------------------
 *
 * direct.c
 *	  The command "direct": streams without a model.
 *
 * Appends of a batch with the version that was just asked for, and loads of
 * whole streams, three quarters of both on a few hot streams.
 *
 * IDENTIFICATION
 *	  bench/direct.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "direct.h"
#include "progress.h"
#include "run.h"
#include "session.h"
#include "steps.h"
#include "target.h"
#include "traffic.h"

const OptionDefault direct_options[] = {
	{"streams", "20"},
	{"hot-streams", "2"},
	{"history", "100"},
	{"operations", "50"},
	{"append-percent", "50"},
	{"batch-size", "1"},
	{"seed", "1"},
	{"replicas", "2"},
	{"clients", "1"},
	{"max-tries", "11"},
	{"operation-timeout", "30"},
	{"output", NULL},
	{"html", NULL},
	{"html", NULL},
	{"tamper", NULL},
	{NULL, NULL}
};

static bool direct_setup(void);
static bool direct_seed(void);
static bool direct_settle(void);
static bool direct_verify(void);

static const Step direct_steps[] = {
	{"setupMs", direct_setup, false},
	{"seedingMs", direct_seed, false},
	{"settlingMs", direct_settle, false},
	{"trafficMs", traffic_run, false},
	{"analysisMs", traffic_analyse, true},
	{"verificationMs", direct_verify, false},
	{NULL, NULL, false}
};

bool
direct_check(void)
{
	if (option_integer("hot-streams") > option_integer("streams"))
		return run_fail("--hot-streams must not exceed --streams");
	if ((double) option_integer("operations") * option_integer("replicas") *
		option_integer("batch-size") > 100000000)
		return run_fail("the plan must not exceed 100000000 events");
	return true;
}

bool
direct_run(void)
{
	return steps_run(direct_steps);
}

static bool
direct_setup(void)
{
	return traffic_setup("plan_direct.sql");
}

static bool
direct_seed(void)
{
	bool		ok;

	progress_begin("seeding", "", 0);
	ok = session_run(target_session(), "CALL alvyn_bench.seed_streams()");
	progress_end();
	return ok;
}

static bool
direct_settle(void)
{
	return session_run(target_session(), "VACUUM (ANALYZE)");
}

static bool
direct_verify(void)
{
	return traffic_verify("verify_direct.sql");
}
