/*-------------------------------------------------------------------------
 *
 * process.c
 *	  Child processes, none of which outlives the run.
 *
 * A child dies with its parent (PR_SET_PDEATHSIG), even when the parent is
 * killed.  An interrupt from the terminal reaches the children too, since
 * they are in the same process group; those that clean up ignore it.
 *
 * IDENTIFICATION
 *	  bench/process.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "run.h"

static void process_become(char *const argv[], const char *output,
						   ProcessMode mode) pg_attribute_noreturn();

/*
 * Start a program found in the path.  Its standard output and error go to a
 * file, or where ours go when output is NULL.  Returns 0 on failure.
 */
pid_t
process_start(char *const argv[], const char *output, ProcessMode mode)
{
	pid_t		pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		process_become(argv, output, mode);
	if (pid < 0)
	{
		run_fail("could not start \"%s\": %m", argv[0]);
		return 0;
	}
	return pid;
}

/*
 * Whether a child has ended, without waiting for it.  If so, the status is
 * its exit code, or 128 and the signal that ended it, as in a shell.
 */
bool
process_ended(pid_t pid, int *status)
{
	int			raw;

	if (waitpid(pid, &raw, WNOHANG) != pid)
		return false;
	*status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
	return true;
}

/*
 * Stop a child and wait for its end.
 */
void
process_stop(pid_t pid)
{
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/*
 * Run a program to its end.  False, with the failure recorded, unless it
 * exits with 0.
 */
bool
process_run(const char *what, char *const argv[], const char *output,
			ProcessMode mode)
{
	pid_t		pid = process_start(argv, output, mode);
	int			status;

	if (pid == 0)
		return false;
	while (!process_ended(pid, &status))
	{
		if (mode == PROCESS_ORDINARY && !run_goes_on())
		{
			process_stop(pid);
			return false;
		}
		run_sleep_ms(10);
	}
	if (status != 0)
		return run_fail("%s failed with exit code %d%s%s", what, status,
						output ? ": " : "",
						output ? process_complaint(output) : "");
	return true;
}

/*
 * What a child's output complains of: its first line with an error, or its
 * last line.
 */
char *
process_complaint(const char *output)
{
	FILE	   *file = fopen(output, "r");
	char		line[1024] = "no output";
	bool		found = false;

	while (!found && file != NULL && fgets(line, sizeof(line), file) != NULL)
		found = strstr(line, "error") || strstr(line, "ERROR") ||
			strstr(line, "FATAL");
	if (file != NULL)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	return run_format("%s", line);
}

/*
 * In the child: arrange signals and files, and become the program.
 */
static void
process_become(char *const argv[], const char *output, ProcessMode mode)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (mode == PROCESS_SHIELDED)
	{
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
	}
	if (output != NULL)
	{
		int			fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
	}
	execvp(argv[0], argv);
	fprintf(stderr, "could not run \"%s\": %m\n", argv[0]);
	_exit(127);
}
