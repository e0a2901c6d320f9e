/*-------------------------------------------------------------------------
 *
 * run.c
 *	  Whether the run goes on, and why it does not.
 *
 * A run has one failure: the first thing that went wrong.  Functions that
 * can fail record it with run_fail() and return false, and their callers
 * hand the false on, so that the program always comes back to the place
 * that writes the report and cleans up.  Nothing calls exit() on the way.
 *
 * An interrupt and the deadline of the whole run are failures too.  They
 * are noticed by run_goes_on(), which every loop that waits calls at least
 * every RUN_POLL_MS; the signal handler itself only sets a flag.
 *
 * The run's working directory is here as well, because it lives exactly as
 * long as the run.
 *
 * IDENTIFICATION
 *	  bench/run.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pqexpbuffer.h"

#include "process.h"
#include "run.h"

static volatile sig_atomic_t run_signal = 0;
static bool run_stopped = false;
static double run_deadline = 0;
static PQExpBuffer run_reason = NULL;
static char *run_dir = NULL;

static void run_on_signal(int signo);
static char *run_vformat(const char *fmt, va_list args) pg_attribute_printf(1, 0);

/*
 * Catch the signals that ask us to stop, and set the deadline.
 */
void
run_begin(int timeout_seconds)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = run_on_signal;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);

	run_deadline = run_clock() + timeout_seconds;
}

/*
 * False as soon as the run has failed, was interrupted or is out of time.
 */
bool
run_goes_on(void)
{
	if (run_stopped)
		return false;
	if (run_signal != 0)
		return run_fail("interrupted by signal %d", (int) run_signal);
	if (run_deadline > 0 && run_clock() > run_deadline)
		return run_fail("the run did not end within its time limit");
	return true;
}

/*
 * Record why the run failed.  The first reason counts.  Returns false, for
 * callers to return.
 */
bool
run_fail(const char *fmt,...)
{
	va_list		args;
	char	   *line;

	run_stopped = true;
	if (run_reason != NULL)
		return false;

	va_start(args, fmt);
	line = run_vformat(fmt, args);

	va_end(args);

	run_reason = createPQExpBuffer();
	appendPQExpBufferStr(run_reason, line);
	free(line);
	return false;
}

/*
 * After a failure: let the report be written all the same.  The reason
 * stays; an interrupt that has been answered is forgotten and the deadline
 * is lifted, but a second interrupt stops the report too.
 */
void
run_forgive(void)
{
	run_stopped = false;
	run_signal = 0;
	run_deadline = 0;
}

/*
 * Why the run failed, or NULL.
 */
const char *
run_failure(void)
{
	return run_reason == NULL ? NULL : run_reason->data;
}

/*
 * Seconds on a clock that nobody sets.
 */
double
run_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

void
run_sleep_ms(int ms)
{
	struct timespec pause;

	pause.tv_sec = ms / 1000;
	pause.tv_nsec = (ms % 1000) * 1000000L;
	nanosleep(&pause, NULL);
}

/*
 * Make the working directory.  Others may pass through it, because the
 * throwaway server lives inside and may belong to another user.
 */
bool
run_make_directory(void)
{
	const char *parent = getenv("TMPDIR");

	run_dir = run_format("%s/alvyn_bench.XXXXXX",
						 parent && *parent ? parent : "/tmp");
	if (mkdtemp(run_dir) == NULL || chmod(run_dir, 0711) != 0)
	{
		run_fail("could not create directory \"%s\": %m", run_dir);
		run_dir = NULL;
		return false;
	}
	return true;
}

const char *
run_directory(void)
{
	return run_dir;
}

/*
 * The directory of the program, where its SQL and its scripts are.
 */
const char *
run_home(void)
{
	static char home[MAXPGPATH];

	if (home[0] == '\0')
	{
		ssize_t		length = readlink("/proc/self/exe", home, MAXPGPATH - 1);

		home[Max(length, 0)] = '\0';
		*(strrchr(home, '/') ? strrchr(home, '/') : home) = '\0';
	}
	return home;
}

/*
 * A formatted string in memory of its own; it lives as long as the run.
 */
char *
run_format(const char *fmt,...)
{
	va_list		args;
	char	   *line;

	va_start(args, fmt);
	line = run_vformat(fmt, args);

	va_end(args);
	return line;
}

void
run_remove_directory(void)
{
	char	   *argv[] = {"rm", "-rf", run_dir, NULL};

	if (run_dir != NULL)
		process_run("rm", argv, NULL, PROCESS_SHIELDED);
	run_dir = NULL;
}

static void
run_on_signal(int signo)
{
	run_signal = signo;
}

/*
 * vasprintf(); the last resort on lack of memory is to end.
 */
static char *
run_vformat(const char *fmt, va_list args)
{
	char	   *line;

	if (vasprintf(&line, fmt, args) < 0)
	{
		fprintf(stderr, "alvyn_bench: out of memory\n");
		exit(1);
	}
	return line;
}
