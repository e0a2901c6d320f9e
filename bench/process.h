/*-------------------------------------------------------------------------
 *
 * process.h
 *	  Child processes, none of which outlives the run.
 *
 * IDENTIFICATION
 *	  bench/process.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <sys/types.h>

typedef enum ProcessMode
{
	PROCESS_ORDINARY,			/* stopped when the run is interrupted */
	PROCESS_SHIELDED			/* clean-up: runs to its end in any case */
} ProcessMode;

extern pid_t process_start(char *const argv[], const char *output,
						   ProcessMode mode);
extern bool process_ended(pid_t pid, int *status);
extern void process_stop(pid_t pid);
extern bool process_run(const char *what, char *const argv[],
						const char *output, ProcessMode mode);
extern char *process_complaint(const char *output);

#endif							/* PROCESS_H */
