/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  Measures the server while the traffic runs.
 *
 * A statement measures and keeps what it finds (sql/sample.sql); here is
 * decided when.
 *
 * IDENTIFICATION
 *	  bench/sample.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "options.h"
#include "run.h"
#include "sample.h"
#include "session.h"
#include "target.h"

static double sample_next = 0;	/* when the next one is due */

bool
sample_prepare(void)
{
	return session_run_script(target_session(), "sample.sql");
}

/*
 * Take a sample if this command wants some and it is time.
 */
bool
sample_tick(void)
{
	double		now = run_clock();

	if (!option_given("sample-seconds") || now < sample_next)
		return true;
	sample_next = now + option_integer("sample-seconds");
	return session_run(target_session(), "SELECT alvyn_bench.sample()");
}

bool
sample_judge(void)
{
	return session_run(target_session(), "SELECT alvyn_bench.judge_samples()");
}
