/*-------------------------------------------------------------------------
 *
 * replica.h
 *	  One pgbench process of the traffic.
 *
 * IDENTIFICATION
 *	  bench/replica.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPLICA_H
#define REPLICA_H

#include <sys/types.h>

#include "libpq-fe.h"

typedef struct Replica
{
	char	   *process;		/* number in the plan */
	char	   *scripts;		/* names, separated by blanks */
	char	   *clients;
	char	   *rate;			/* NULL where nothing is due at a time */
	char	   *first;			/* first operation */
	char	   *replaces;		/* process that it took over from, or NULL */
	int			operations;
	pid_t		pid;			/* 0 when ended */
	char	   *output;			/* file with what it prints */
	char	   *log;			/* file with a line per script */
	FILE	   *reader;			/* the log, as far as it was counted */
	bool		loaded;			/* log and output are in the database */
	struct Replica *next;
} Replica;

/* The columns of alvyn_bench.process that replica_plan() takes. */
#define REPLICA_COLUMNS \
	"process, scripts, clients, rate, first, replaces, operations"

extern Replica *replica_plan(PGresult *plan, int row);
extern bool replica_start(Replica *replica, PGresult *variables);
extern bool replica_check(Replica *replica);
extern void replica_kill(Replica *replica, int signo);
extern int64 replica_count(Replica *replica);
extern bool replica_load(Replica *replica);

#endif							/* REPLICA_H */
