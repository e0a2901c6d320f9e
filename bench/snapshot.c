/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  The command "snapshot": what reading by snapshot is worth.
 *
 * One client reads streams of several lengths in four ways, in random order:
 * all events, the newest snapshot and what follows, the state, and only what
 * follows.  Another phase makes deposits in two ways: with two round trips,
 * and as a command.
 *
 * IDENTIFICATION
 *	  bench/snapshot.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "progress.h"
#include "run.h"
#include "session.h"
#include "snapshot.h"
#include "steps.h"
#include "target.h"
#include "traffic.h"

const OptionDefault snapshot_options[] = {
	{"lengths", "60,10000,100000"},
	{"requests", "1000"},
	{"tail", "10"},
	{"seed", "1"},
	{"max-tries", "21"},
	{"operation-timeout", "30"},
	{"output", NULL},
	{"html", NULL},
	{"html", NULL},
	{"tamper", NULL},
	{NULL, NULL}
};

static bool snapshot_setup(void);
static bool snapshot_seed(void);
static bool snapshot_settle(void);
static bool snapshot_judge(void);

static const Step snapshot_steps[] = {
	{"setupMs", snapshot_setup, false},
	{"seedingMs", snapshot_seed, false},
	{"settlingMs", snapshot_settle, false},
	{"snapshotBenchmarkMs", traffic_run, false},
	{"analysisMs", traffic_analyse, true},
	{"verificationMs", snapshot_judge, false},
	{NULL, NULL, false}
};

/*
 * Lengths are numbers, and long enough for a snapshot before the tail.
 */
bool
snapshot_check(void)
{
	const char *lengths = option_text("lengths");
	const char *next = lengths;
	char	   *end;

	for (;;)
	{
		long		length = strtol(next, &end, 10);

		if (end == next || (*end != ',' && *end != '\0') ||
			length > 1000000 || length < 50 + option_integer("tail"))
			return run_fail("--lengths must be numbers from 50 and the tail"
							" to 1000000, separated by commas, not \"%s\"",
							lengths);
		if (*end == '\0')
			return true;
		next = end + 1;
	}
}

bool
snapshot_run(void)
{
	return steps_run(snapshot_steps);
}

static bool
snapshot_setup(void)
{
	return traffic_setup("plan_snapshot.sql");
}

static bool
snapshot_seed(void)
{
	bool		ok;

	progress_begin("seeding", "", 0);
	ok = session_run(target_session(), "CALL alvyn_bench.write_histories()") &&
		session_run_script(target_session(), "snapshots.sql") &&
		session_run(target_session(), "CALL alvyn_bench.write_tails()") &&
		session_run(target_session(),
					"SELECT alvyn.create_decider('LoadTestDeposit',"
					" 'LoadTestAccount', 'LoadTestAccountBalance',"
					" 'alvyn_bench.decide_deposit(jsonb, jsonb)')");
	progress_end();
	return ok;
}

static bool
snapshot_settle(void)
{
	return session_run(target_session(), "VACUUM (ANALYZE)");
}

static bool
snapshot_judge(void)
{
	return traffic_verify("snapshot.sql");
}
