/*-------------------------------------------------------------------------
 *
 * steps.c
 *	  The steps of a run, one after another, with their durations.
 *
 * A profile is a list of steps.  After a failure only the steps marked so
 * are run: what was measured until then is still worth a report.
 *
 * IDENTIFICATION
 *	  bench/steps.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "options.h"
#include "run.h"
#include "session.h"
#include "steps.h"
#include "target.h"

static const Step *steps_all = NULL;
static double steps_seconds[16];

/*
 * Run the steps.  The list ends with a step without name.
 */
bool
steps_run(const Step *steps)
{
	bool		ok = true;

	steps_all = steps;
	for (int i = 0; steps[i].name != NULL; i++)
	{
		double		started = run_clock();

		Assert(i < lengthof(steps_seconds));
		if (!ok)
		{
			run_forgive();
			if (!steps[i].always || !target_revive())
				continue;
		}
		if (option_switch("verbose"))
			fprintf(stderr, "step %s\n", steps[i].name);
		if (!steps[i].run())
			ok = false;
		steps_seconds[i] = run_clock() - started;
	}
	return ok;
}

/*
 * Write the durations into the run's database.
 */
bool
steps_record(void)
{
	for (int i = 0; steps_all[i].name != NULL; i++)
	{
		char	   *number = run_format("%d", i);
		char	   *ms = run_format("%.3f", steps_seconds[i] * 1000);
		const char *params[] = {number, steps_all[i].name, ms};
		PGresult   *result;

		result = session_query(target_session(),
							   "INSERT INTO alvyn_bench.step VALUES ($1, $2, $3)",
							   3, params);
		if (result == NULL)
			return false;
		PQclear(result);
		free(number);
		free(ms);
	}
	return true;
}
