/*-------------------------------------------------------------------------
 *
 * account.c
 *	  The commands that work on accounts: daily, custom, capacity, soak.
 *
 * They share the model, the plan's arithmetic, the script and the
 * verification, and differ in their phases (sql/plan.sql), their defaults,
 * and in what is done while the traffic runs.
 *
 * IDENTIFICATION
 *	  bench/account.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <math.h>

#include "account.h"
#include "progress.h"
#include "run.h"
#include "sample.h"
#include "seed.h"
#include "session.h"
#include "steps.h"
#include "target.h"
#include "traffic.h"

#define MAX_REQUESTS 100000000

/* The sizes of the original's recorded run. */
const OptionDefault daily_options[] = {
	{"accounts", "100000"},
	{"active-users", NULL},
	{"operations-per-user", "10"},
	{"requests", NULL},
	{"history", "60"},
	{"read-percent", "70"},
	{"duration-seconds", "3600"},
	{"time-scale", "1"},
	{"seed", "1"},
	{"replicas", "3"},
	{"clients", "10"},
	{"max-tries", "21"},
	{"seed-connections", "2"},
	{"enforce-slos", "true"},
	{"slo-read-p95-ms", "250"},
	{"slo-deposit-p95-ms", "500"},
	{"slo-error-rate-percent", "0.1"},
	{"no-snapshots", NULL},
	{"replace-replica", NULL},
	{"operation-timeout", "30"},
	{"output", NULL},
	{"html", NULL},
	{"tamper", NULL},
	{NULL, NULL}
};

const OptionDefault custom_options[] = {
	{"accounts", "20"},
	{"active-users", NULL},
	{"operations-per-user", "5"},
	{"requests", NULL},
	{"hot-accounts", NULL},
	{"hot-traffic-percent", "75"},
	{"history", "20"},
	{"read-percent", "40"},
	{"seed", "1"},
	{"replicas", "2"},
	{"concurrency", "16"},
	{"max-tries", "9"},
	{"seed-connections", "2"},
	{"enforce-slos", "false"},
	{"slo-read-p95-ms", "250"},
	{"slo-deposit-p95-ms", "500"},
	{"slo-error-rate-percent", "0.1"},
	{"no-snapshots", NULL},
	{"replace-replica", NULL},
	{"operation-timeout", "30"},
	{"output", NULL},
	{"html", NULL},
	{"tamper", NULL},
	{NULL, NULL}
};

const OptionDefault capacity_options[] = {
	{"accounts", "20000"},
	{"active-users", NULL},
	{"operations-per-user", "32"},
	{"hot-accounts", NULL},
	{"hot-traffic-percent", "10"},
	{"history", "60"},
	{"read-percent", "70"},
	{"capacity-start-rps", "100"},
	{"capacity-step-rps", "100"},
	{"capacity-max-rps", "2000"},
	{"stage-seconds", "30"},
	{"stages-beyond", "1"},
	{"seed", "1"},
	{"replicas", "3"},
	{"clients", "10"},
	{"max-tries", "21"},
	{"seed-connections", "2"},
	{"slo-read-p95-ms", "250"},
	{"slo-deposit-p95-ms", "500"},
	{"slo-error-rate-percent", "0.1"},
	{"no-snapshots", NULL},
	{"operation-timeout", "30"},
	{"output", NULL},
	{"html", NULL},
	{"tamper", NULL},
	{NULL, NULL}
};

const OptionDefault soak_options[] = {
	{"accounts", "2000"},
	{"active-users", NULL},
	{"operations-per-user", "5"},
	{"rate", "200"},
	{"duration-seconds", "3600"},
	{"sample-seconds", "10"},
	{"growth-percent", "10"},
	{"hot-accounts", NULL},
	{"hot-traffic-percent", "75"},
	{"history", "20"},
	{"read-percent", "40"},
	{"seed", "1"},
	{"replicas", "2"},
	{"clients", "8"},
	{"max-tries", "9"},
	{"seed-connections", "2"},
	{"enforce-slos", "false"},
	{"slo-read-p95-ms", "250"},
	{"slo-deposit-p95-ms", "500"},
	{"slo-error-rate-percent", "0.1"},
	{"no-snapshots", NULL},
	{"operation-timeout", "30"},
	{"output", NULL},
	{"html", NULL},
	{"tamper", NULL},
	{NULL, NULL}
};

static bool account_check(double hot_share);
static bool account_take_requests(double requests);
static bool account_setup(void);
static bool account_settle(void);
static bool account_verify(void);

static const Step account_steps[] = {
	{"setupMs", account_setup, false},
	{"seedingMs", seed_accounts, false},
	{"settlingMs", account_settle, false},
	{"httpRequestsMs", traffic_run, false},
	{"analysisMs", traffic_analyse, true},
	{"verificationMs", account_verify, false},
	{NULL, NULL, false}
};

static const Step capacity_steps[] = {
	{"setupMs", account_setup, false},
	{"seedingMs", seed_accounts, false},
	{"settlingMs", account_settle, false},
	{"httpRequestsMs", traffic_run_stages, false},
	{"analysisMs", traffic_analyse, true},
	{"verificationMs", account_verify, false},
	{NULL, NULL, false}
};

static const Step soak_steps[] = {
	{"setupMs", account_setup, false},
	{"seedingMs", seed_accounts, false},
	{"settlingMs", account_settle, false},
	{"preparationMs", sample_prepare, false},
	{"httpRequestsMs", traffic_run, false},
	{"analysisMs", traffic_analyse, true},
	{"trendMs", sample_judge, false},
	{"verificationMs", account_verify, false},
	{NULL, NULL, false}
};

bool
daily_check(void)
{
	return account_check(0) &&
		account_take_requests((double) option_integer("active-users") *
							  option_integer("operations-per-user"));
}

bool
custom_check(void)
{
	return account_check(0.1) &&
		account_take_requests((double) option_integer("active-users") *
							  option_integer("operations-per-user"));
}

bool
capacity_check(void)
{
	double		start = option_integer("capacity-start-rps");
	double		max = option_integer("capacity-max-rps");
	double		stages;

	if (start > max)
		return run_fail("--capacity-start-rps must not exceed"
						" --capacity-max-rps");
	stages = 1 + floor((max - start) / option_integer("capacity-step-rps"));
	if (stages > 1000)
		return run_fail("there must not be more than 1000 stages");
	if (stages * option_integer("replicas") > 30000)
		return run_fail("there must not be more than 30000 replicas of all"
						" stages");
	return account_check(0.025) &&
		account_take_requests(stages * (start + max) / 2 *
							  option_decimal("stage-seconds"));
}

bool
soak_check(void)
{
	return account_check(0.1) &&
		account_take_requests(option_decimal("rate") *
							  option_decimal("duration-seconds"));
}

bool
account_run(void)
{
	return steps_run(account_steps);
}

bool
capacity_run(void)
{
	return steps_run(capacity_steps);
}

bool
soak_run(void)
{
	return steps_run(soak_steps);
}

/*
 * Check what the options cannot check one by one, and fill in what follows
 * from others.  The hot accounts are a share of all unless given.
 */
static bool
account_check(double hot_share)
{
	int			accounts = option_integer("accounts");

	option_default("active-users", option_text("accounts"));
	if (option_integer("active-users") > accounts)
		return run_fail("--active-users must not exceed --accounts");
	if (option_integer("history") < 1)
		return run_fail("--history must be at least 1");
	if (hot_share == 0)
		return true;
	option_default("hot-accounts",
				   run_format("%.0f", round(accounts * hot_share)));
	if (option_integer("hot-accounts") > accounts)
		return run_fail("--hot-accounts must not exceed --accounts");
	return true;
}

/*
 * Set the number of operations, unless it was given.
 */
static bool
account_take_requests(double requests)
{
	option_default("requests", run_format("%.0f", Max(1, floor(requests))));
	if (requests > MAX_REQUESTS)
		return run_fail("the plan must not exceed %d operations",
						MAX_REQUESTS);
	return true;
}

/*
 * Server, database and plan.
 */
static bool
account_setup(void)
{
	return traffic_setup("plan.sql");
}

/*
 * Keep snapshots from now on, and bring the store into the state that a
 * server is in which has not just been filled: statistics are there, and
 * pages are marked as all-visible.
 */
static bool
account_settle(void)
{
	bool		ok;

	progress_begin("settling", "", 0);
	ok = (option_switch("no-snapshots") ||
		  session_run_script(target_session(), "snapshots.sql")) &&
		session_run(target_session(), "VACUUM (ANALYZE)");
	progress_end();
	return ok;
}

static bool
account_verify(void)
{
	return traffic_verify("verify.sql");
}
