/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  Shows how far a long step has come.
 *
 * Step, done of total, rate and the time that remains, on standard error:
 * on a terminal one line that is rewritten, otherwise one line per five
 * seconds.  A step whose size is not known shows the time it has taken.
 *
 * IDENTIFICATION
 *	  bench/progress.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <unistd.h>

#include "progress.h"
#include "run.h"

static const char *progress_label;	/* NULL between steps */
static const char *progress_unit;
static int64 progress_total;
static int64 progress_done;
static double progress_started;
static double progress_shown;

static void progress_show(bool last);

/*
 * Begin a step.  A total of 0 means that it is not known.
 */
void
progress_begin(const char *label, const char *unit, int64 total)
{
	progress_label = label;
	progress_unit = unit;
	progress_total = total;
	progress_done = 0;
	progress_started = run_clock();
	progress_shown = progress_started;
	if (isatty(STDERR_FILENO))
		progress_show(false);
}

/*
 * Tell how far the step is; shown when it is time to.
 */
void
progress_at(int64 done)
{
	progress_done = progress_total > 0 ? Min(done, progress_total) : done;
	progress_tick();
}

/*
 * Called by whoever waits, so that a step shows that it lives.
 */
void
progress_tick(void)
{
	double		now = run_clock();

	if (progress_label == NULL)
		return;
	if (now - progress_shown < (isatty(STDERR_FILENO) ? 0.2 : 5.0))
		return;
	progress_shown = now;
	progress_show(false);
}

/*
 * The step is over, done or not.
 */
void
progress_end(void)
{
	progress_show(true);
	progress_label = NULL;
}

static void
progress_show(bool last)
{
	double		elapsed = run_clock() - progress_started;
	double		rate = elapsed > 0 ? progress_done / elapsed : 0;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	fprintf(stderr, "%-12s", progress_label);
	if (progress_total > 0)
		fprintf(stderr, " " INT64_FORMAT " of " INT64_FORMAT " %s (%d %%), %.0f/s,",
				progress_done, progress_total, progress_unit,
				(int) (100.0 * progress_done / progress_total), rate);
	if (!last && rate > 0 && progress_total > 0)
		fprintf(stderr, " %.0f s to go",
				(progress_total - progress_done) / rate);
	else
		fprintf(stderr, " %.1f s", elapsed);
	if (last || !isatty(STDERR_FILENO))
		fprintf(stderr, "\n");
	fflush(stderr);
}
