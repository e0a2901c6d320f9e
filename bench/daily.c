/*-------------------------------------------------------------------------
 *
 * daily.c
 *	  The daily profile: off-peak, peak and cool-down.
 *
 * IDENTIFICATION
 *	  bench/daily.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "daily.h"
#include "progress.h"
#include "report.h"
#include "run.h"
#include "seed.h"
#include "session.h"
#include "steps.h"
#include "target.h"
#include "traffic.h"

/* The sizes of the original's recorded run. */
const OptionDefault daily_defaults[] = {
	{"accounts", "100000"},
	{"operations-per-user", "10"},
	{"history", "60"},
	{"read-percent", "70"},
	{"duration-seconds", "3600"},
	{"time-scale", "1"},
	{"seed", "1"},
	{"replicas", "3"},
	{"clients", "5"},
	{"max-tries", "21"},
	{"seed-connections", "2"},
	{"slo-read-p95-ms", "250"},
	{"slo-deposit-p95-ms", "500"},
	{"slo-error-rate-percent", "0.1"},
	{"operation-timeout", "30"},
	{"run-timeout", "7200"},
	{NULL, NULL}
};

static bool daily_setup(void);
static bool daily_settle(void);
static bool daily_analyse(void);
static bool daily_verify(void);

static const Step daily_steps[] = {
	{"setupMs", daily_setup, false},
	{"seedingMs", seed_accounts, false},
	{"settlingMs", daily_settle, false},
	{"httpRequestsMs", traffic_run, false},
	{"analysisMs", daily_analyse, true},
	{"verificationMs", daily_verify, false},
	{NULL, NULL, false}
};

/*
 * Check what the options cannot check one by one.
 */
bool
daily_check(void)
{
	int64		requests;

	option_default("active-users", option_text("accounts"));
	if (option_integer("active-users") > option_integer("accounts"))
		return run_fail("--active-users must not exceed --accounts");
	requests = (int64) option_integer("active-users") *
		option_integer("operations-per-user");
	if (requests > 100000000)
		return run_fail("the plan must not exceed 100000000 operations");
	return true;
}

bool
daily_run(void)
{
	return steps_run(daily_steps);
}

/*
 * Server, database and plan.
 */
static bool
daily_setup(void)
{
	bool		ok;

	if (!target_open(option_text("dsn")) ||
		!session_run_script(target_session(), "schema.sql") ||
		!report_prepare("daily"))
		return false;
	progress_begin("planning", "", 0);
	ok = session_run_script(target_session(), "plan.sql");
	progress_end();
	return ok;
}

/*
 * Keep snapshots from now on, and bring the store into the state that a server is in which has not just
 * been filled: statistics are there, and pages are marked as all-visible.
 */
static bool
daily_settle(void)
{
	bool		ok;

	progress_begin("settling", "", 0);
	ok = (option_switch("no-snapshots") ||
		  session_run_script(target_session(), "snapshots.sql")) &&
		session_run(target_session(), "VACUUM (ANALYZE)");
	progress_end();
	return ok;
}

/*
 * Also after a failure: what was measured until then.
 */
static bool
daily_analyse(void)
{
	bool		ok;

	progress_begin("analysing", "", 0);
	ok = traffic_load_logs() &&
		session_run_script(target_session(), "analyse.sql");
	progress_end();
	return ok;
}

static bool
daily_verify(void)
{
	const char *tamper = option_text("tamper");
	bool		ok;

	if (tamper != NULL && !session_run_file(target_session(), tamper))
		return false;
	progress_begin("verifying", "", 0);
	ok = session_run_script(target_session(), "verify.sql");
	progress_end();
	return ok;
}
