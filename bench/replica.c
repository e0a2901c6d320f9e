/*-------------------------------------------------------------------------
 *
 * replica.c
 *	  One pgbench process of the traffic.
 *
 * A process has a fixed number of operations and, except in a closed loop,
 * a fixed rate; pgbench draws the times at which they are due and measures
 * latency from then, so a server that falls behind cannot hide it.
 *
 * Each client of a process runs the same number of scripts, so there may be
 * up to clients - 1 scripts too many; those find no operation, do nothing,
 * and are left out of the analysis.  Every planned operation is run exactly
 * once.
 *
 * How far a process is, is the number of lines in its log.
 *
 * IDENTIFICATION
 *	  bench/replica.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include <signal.h>
#include <sys/wait.h>

#include "options.h"
#include "process.h"
#include "replica.h"
#include "run.h"
#include "session.h"
#include "target.h"

/* A command line of pgbench under construction. */
typedef struct ReplicaArguments
{
	char	   *argv[128];
	int			count;
} ReplicaArguments;

static void replica_add(ReplicaArguments *arguments, char *argument);
static void replica_add_scripts(ReplicaArguments *arguments,
								const char *scripts);
static void replica_add_plan(ReplicaArguments *arguments, Replica *replica);
static void replica_add_variables(ReplicaArguments *arguments,
								  PGresult *variables);
static bool replica_load_file(const char *sql, const char *path);

/*
 * A process as a row of the plan says.
 */
Replica *
replica_plan(PGresult *plan, int row)
{
	Replica    *replica = calloc(1, sizeof(Replica));

	replica->process = run_format("%s", PQgetvalue(plan, row, 0));
	replica->scripts = run_format("%s", PQgetvalue(plan, row, 1));
	replica->clients = run_format("%s", PQgetvalue(plan, row, 2));
	if (!PQgetisnull(plan, row, 3))
		replica->rate = run_format("%s", PQgetvalue(plan, row, 3));
	replica->first = run_format("%s", PQgetvalue(plan, row, 4));
	if (!PQgetisnull(plan, row, 5))
		replica->replaces = run_format("%s", PQgetvalue(plan, row, 5));
	replica->operations = atoi(PQgetvalue(plan, row, 6));
	replica->output = run_format("%s/%s.out", run_directory(),
								 replica->process);
	return replica;
}

/*
 * Start pgbench.  Its arrivals are drawn from a seed of its own, so that a
 * run can be repeated.
 */
bool
replica_start(Replica *replica, PGresult *variables)
{
	ReplicaArguments arguments = {{NULL}, 0};
	char	   *prefix = run_format("%s/%s.log", run_directory(),
									replica->process);

	replica_add(&arguments, "pgbench");
	replica_add(&arguments, "--no-vacuum");
	replica_add(&arguments, "--protocol=prepared");
	replica_add(&arguments, "--log");
	replica_add(&arguments, "--failures-detailed");
	replica_add(&arguments, run_format("--log-prefix=%s", prefix));
	replica_add_scripts(&arguments, replica->scripts);
	replica_add_plan(&arguments, replica);
	replica_add_variables(&arguments, variables);

	if (option_switch("verbose"))
	{
		for (int i = 0; i < arguments.count; i++)
			fprintf(stderr, "%s%s", arguments.argv[i],
					i + 1 < arguments.count ? " " : "\n");
	}
	replica->pid = process_start(arguments.argv, replica->output,
								 PROCESS_ORDINARY);
	replica->log = run_format("%s.%d", prefix, (int) replica->pid);
	return replica->pid != 0;
}

/*
 * Notice that a process has ended.  pgbench fails when a client had to give
 * up, which is any error but a conflict.
 */
bool
replica_check(Replica *replica)
{
	int			status;

	if (replica->pid == 0 || !process_ended(replica->pid, &status))
		return true;
	replica->pid = 0;
	if (status == 0)
		return true;
	return run_fail("pgbench (process %s) failed with exit code %d: %s",
					replica->process, status,
					process_complaint(replica->output));
}

/*
 * End a process, in the middle of whatever it does, and wait for it.
 */
void
replica_kill(Replica *replica, int signo)
{
	if (replica->pid == 0)
		return;
	kill(replica->pid, signo);
	while (waitpid(replica->pid, NULL, 0) < 0 && errno == EINTR)
		;
	replica->pid = 0;
}

/*
 * The number of lines that the log has grown by.
 */
int64
replica_count(Replica *replica)
{
	char		buffer[65536];
	size_t		length;
	int64		lines = 0;

	if (replica->reader == NULL)
		replica->reader = fopen(replica->log, "r");
	if (replica->reader == NULL)
		return 0;
	clearerr(replica->reader);
	while ((length = fread(buffer, 1, sizeof(buffer), replica->reader)) > 0)
	{
		for (size_t i = 0; i < length; i++)
			lines += buffer[i] == '\n';
	}
	return lines;
}

/*
 * Bring log and output of an ended process into the database.  Which columns
 * the log has depends on the options.
 */
bool
replica_load(Replica *replica)
{
	const char *params[] = {replica->process};
	char	   *value;

	if (replica->loaded)
		return true;
	value = session_value(target_session(),
						  "SELECT set_config('alvyn_bench.process', $1, false)",
						  1, params);
	if (value == NULL)
		return false;
	free(value);
	replica->loaded = true;
	return replica_load_file(run_format("COPY alvyn_bench.log (client_id,"
										" transaction_no, outcome, script_no,"
										" epoch, epoch_us%s%s)"
										" FROM STDIN (DELIMITER ' ')",
										replica->rate ? ", lag_us" : "",
										option_integer("max-tries") > 1 ?
										", retries" : ""),
							 replica->log) &&
		replica_load_file("COPY alvyn_bench.output (line) FROM STDIN"
						  " (FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02')",
						  replica->output);
}

static void
replica_add(ReplicaArguments *arguments, char *argument)
{
	Assert(arguments->count < lengthof(arguments->argv) - 1);
	arguments->argv[arguments->count++] = argument;
}

/*
 * The scripts; of several, pgbench picks one at a time at random.
 */
static void
replica_add_scripts(ReplicaArguments *arguments, const char *scripts)
{
	char	   *names = run_format("%s", scripts);

	for (char *name = strtok(names, " "); name; name = strtok(NULL, " "))
		replica_add(arguments, run_format("--file=%s/scripts/%s.sql",
										  run_home(), name));
	free(names);
}

/*
 * What the plan says of the process.
 */
static void
replica_add_plan(ReplicaArguments *arguments, Replica *replica)
{
	int			clients = atoi(replica->clients);

	replica_add(arguments, run_format("--client=%d", clients));
	replica_add(arguments, run_format("--transactions=%d",
									  (replica->operations + clients - 1) /
									  clients));
	if (replica->rate != NULL)
		replica_add(arguments, run_format("--rate=%s", replica->rate));
	replica_add(arguments, run_format("--max-tries=%s",
									  option_text("max-tries")));
	replica_add(arguments, run_format("--random-seed=%d",
									  option_integer("seed") * 1000 +
									  atoi(replica->process)));
	replica_add(arguments, run_format("--define=process=%s",
									  replica->process));
	replica_add(arguments, run_format("--define=operations=%d",
									  replica->operations));
	replica_add(arguments, run_format("--define=clients=%d", clients));
	replica_add(arguments, run_format("--define=first=%s", replica->first));
	replica_add(arguments, run_format("--define=replacement=%s",
									  replica->replaces ? "true" : "false"));
}

/*
 * What the scripts have to know, and where they begin.
 */
static void
replica_add_variables(ReplicaArguments *arguments, PGresult *variables)
{
	for (int row = 0; row < PQntuples(variables); row++)
		replica_add(arguments, run_format("--define=%s=%s",
										  PQgetvalue(variables, row, 0),
										  PQgetvalue(variables, row, 1)));
	replica_add(arguments, "--define=k=-1");
	replica_add(arguments, "--define=try=0");
	replica_add(arguments, "--define=i=0");
	replica_add(arguments, "--define=last_ticket=0");
}

static bool
replica_load_file(const char *sql, const char *path)
{
	return session_copy(target_session(), sql, path);
}
