/*-------------------------------------------------------------------------
 *
 * traffic.c
 *	  Runs the planned operations through pgbench.
 *
 * A phase is a set of pgbench processes that run side by side, one for each
 * class (read, deposit) and replica, each with its connections.  A process
 * has a fixed number of operations and a fixed rate; pgbench draws the times
 * at which they are due and measures latency from then, so a server that
 * falls behind cannot hide it.  The next phase begins when all have ended.
 *
 * Each client of a process runs the same number of scripts, so there may be
 * up to clients - 1 scripts too many; those find no operation, do nothing,
 * and are left out of the analysis.  Every planned operation is run exactly
 * once.
 *
 * How far a phase is, is the number of lines in the processes' logs.
 *
 * IDENTIFICATION
 *	  bench/traffic.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres_fe.h"

#include "libpq-fe.h"

#include "options.h"
#include "process.h"
#include "progress.h"
#include "run.h"
#include "session.h"
#include "target.h"
#include "traffic.h"

typedef struct TrafficProcess
{
	char	   *process;		/* number in the plan */
	char	   *class;			/* which script */
	char	   *clients;
	char	   *rate;
	int			operations;
	pid_t		pid;			/* 0 when ended */
	char	   *output;			/* file with what it prints */
	char	   *log;			/* file with a line per script */
	FILE	   *reader;			/* the log, as far as it was counted */
	struct TrafficProcess *next;
} TrafficProcess;

/* All processes that were started, newest first. */
static TrafficProcess *traffic_processes = NULL;

/* Lines in all their logs. */
static int64 traffic_lines = 0;

static bool traffic_run_phase(const char *phase, const char *name,
							  const char *operations);
static TrafficProcess *traffic_plan(PGresult *plan, int row);
static bool traffic_start(TrafficProcess *process);
static bool traffic_watch(void);
static bool traffic_check_end(TrafficProcess *process);
static void traffic_stop(void);
static void traffic_count(TrafficProcess *process);

/*
 * Run all phases.  The sessions of the traffic have a statement timeout.
 */
bool
traffic_run(void)
{
	PGresult   *phases;
	char	   *timeout;
	bool		ok = true;

	phases = session_query(target_session(),
						   "SELECT phase, name, request_count"
						   "  FROM alvyn_bench.phase ORDER BY phase", 0, NULL);
	if (phases == NULL)
		return false;

	timeout = run_format("-c statement_timeout=%ds",
						 option_integer("operation-timeout"));
	setenv("PGOPTIONS", timeout, 1);
	setenv("PGAPPNAME", "alvyn_bench traffic", 1);
	for (int row = 0; ok && row < PQntuples(phases); row++)
		ok = traffic_run_phase(PQgetvalue(phases, row, 0),
							   PQgetvalue(phases, row, 1),
							   PQgetvalue(phases, row, 2));
	unsetenv("PGOPTIONS");
	unsetenv("PGAPPNAME");
	free(timeout);
	PQclear(phases);
	return ok;
}

/*
 * Load the logs of all processes, also of those that were stopped.
 */
bool
traffic_load_logs(void)
{
	for (TrafficProcess *process = traffic_processes; process != NULL;
		 process = process->next)
	{
		const char *params[] = {process->process};
		char	   *value;

		value = session_value(target_session(),
							  "SELECT set_config('alvyn_bench.process', $1, false)",
							  1, params);
		if (value == NULL ||
			!session_copy(target_session(),
						  "COPY alvyn_bench.log (client_id, transaction_no,"
						  " outcome, script_no, epoch, epoch_us, lag_us,"
						  " retries) FROM STDIN (DELIMITER ' ')",
						  process->log))
			return false;
		free(value);
	}
	return true;
}

/*
 * Start the processes of a phase and wait for all of them.
 */
static bool
traffic_run_phase(const char *phase, const char *name, const char *operations)
{
	const char *params[] = {phase};
	PGresult   *plan;
	bool		ok = true;

	plan = session_query(target_session(),
						 "SELECT process, class, clients, rate, operations"
						 "  FROM alvyn_bench.process"
						 " WHERE phase = $1 ORDER BY process", 1, params);
	if (plan == NULL)
		return false;

	progress_begin(name, "requests", atoi(operations));
	for (int row = 0; ok && row < PQntuples(plan); row++)
		ok = traffic_start(traffic_plan(plan, row));
	ok = ok && traffic_watch();
	if (!ok)
		traffic_stop();
	progress_end();
	PQclear(plan);
	return ok;
}

/*
 * A process as the plan's row says.
 */
static TrafficProcess *
traffic_plan(PGresult *plan, int row)
{
	TrafficProcess *process = calloc(1, sizeof(TrafficProcess));

	process->process = run_format("%s", PQgetvalue(plan, row, 0));
	process->class = run_format("%s", PQgetvalue(plan, row, 1));
	process->clients = run_format("%s", PQgetvalue(plan, row, 2));
	process->rate = run_format("%s", PQgetvalue(plan, row, 3));
	process->operations = atoi(PQgetvalue(plan, row, 4));
	process->output = run_format("%s/%s.out", run_directory(),
								 process->process);
	return process;
}

/*
 * Start one pgbench.  Its arrivals are drawn from a seed of its own, so that
 * a run can be repeated.
 */
static bool
traffic_start(TrafficProcess *process)
{
	int			clients = atoi(process->clients);
	char	   *prefix = run_format("%s/%s.log", run_directory(),
									process->process);
	char	   *argv[] = {
		"pgbench", "--no-vacuum", "--protocol=prepared", "--log",
		"--failures-detailed",
		run_format("--log-prefix=%s", prefix),
		run_format("--file=%s/scripts/%s.sql", run_home(), process->class),
		run_format("--client=%d", clients),
		run_format("--transactions=%d",
				   (process->operations + clients - 1) / clients),
		run_format("--rate=%s", process->rate),
		run_format("--max-tries=%s", option_text("max-tries")),
		run_format("--random-seed=%d", option_integer("seed") * 1000 +
				   atoi(process->process)),
		run_format("--define=process=%s", process->process),
		run_format("--define=operations=%d", process->operations),
		run_format("--define=clients=%d", clients),
		run_format("--define=history=%s", option_text("history")),
		run_format("--define=seed=%s", option_text("seed")),
		"--define=k=-1", "--define=last_ticket=0", NULL
	};

	if (option_switch("verbose"))
	{
		for (int i = 0; argv[i] != NULL; i++)
			fprintf(stderr, "%s%s", argv[i], argv[i + 1] ? " " : "\n");
	}
	process->pid = process_start(argv, process->output, PROCESS_ORDINARY);
	process->log = run_format("%s.%d", prefix, (int) process->pid);
	process->next = traffic_processes;
	traffic_processes = process;
	return process->pid != 0;
}

/*
 * Wait for all processes, showing how far they are.
 */
static bool
traffic_watch(void)
{
	int64		before = traffic_lines;
	bool		running = true;

	while (running)
	{
		running = false;
		for (TrafficProcess *process = traffic_processes; process != NULL;
			 process = process->next)
		{
			if (process->pid == 0)
				continue;
			if (!traffic_check_end(process))
				return false;
			traffic_count(process);
			running = running || process->pid != 0;
		}
		progress_at(traffic_lines - before);
		if (!run_goes_on())
			return false;
		run_sleep_ms(running ? RUN_POLL_MS : 0);
	}
	return true;
}

/*
 * Notice that a process has ended.  pgbench fails when a client had to give
 * up, which is any error but a conflict.
 */
static bool
traffic_check_end(TrafficProcess *process)
{
	int			status;

	if (!process_ended(process->pid, &status))
		return true;
	process->pid = 0;
	if (status == 0)
		return true;
	return run_fail("pgbench (%s, process %s) failed with exit code %d: %s",
					process->class, process->process, status,
					process_complaint(process->output));
}

static void
traffic_stop(void)
{
	for (TrafficProcess *process = traffic_processes; process != NULL;
		 process = process->next)
	{
		if (process->pid != 0)
			process_stop(process->pid);
		process->pid = 0;
	}
}

/*
 * Count the lines that a process' log has grown by.
 */
static void
traffic_count(TrafficProcess *process)
{
	char		buffer[65536];
	size_t		length;

	if (process->reader == NULL)
		process->reader = fopen(process->log, "r");
	if (process->reader == NULL)
		return;
	clearerr(process->reader);
	while ((length = fread(buffer, 1, sizeof(buffer), process->reader)) > 0)
	{
		for (size_t i = 0; i < length; i++)
			traffic_lines += buffer[i] == '\n';
	}
	if (process->pid == 0)
		fclose(process->reader);
}
