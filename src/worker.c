/*-------------------------------------------------------------------------
 *
 * worker.c
 *		The background worker: runs projections and notifies.
 *
 * alvyn.start_worker() asks the server for a dynamic background worker, which
 * needs no preloading.  The worker is connected to the database, and as the
 * role, that it was started from, so it can do what that role can do and
 * nothing else.  In rounds it asks which enabled projections have something
 * to do and runs a page of each in a transaction of its own.  A projection
 * that fails is rolled back, the error is recorded in another transaction
 * together with the time of the next attempt, and the others go on.  When
 * nobody has anything to do, the worker sleeps like everybody else who waits
 * for events (wake.c).
 *
 * NOTIFY takes a lock of the whole server at commit, so appends do without.
 * The worker sends one for all of them: at most one per interval, with the
 * highest position up to which the feed is final, and only when that has
 * grown.  A listener that has read up to some position and gets a higher one
 * has something to read, and whatever becomes final is followed by a NOTIFY.
 *
 * Ending
 *		The server starts a worker again that ends with an error or is killed.
 *		It forgets one that ends by itself: when SIGTERM asks it to, when the
 *		extension is gone, or when another worker of the database is there.
 *		SIGTERM cancels the running statement instead of ending the process,
 *		so that the worker can end in the right way.
 *
 * Locking
 *		The worker of a database holds an ExclusiveLock on a sub-object of the
 *		extension for as long as it lives, of the lock method whose locks
 *		survive the end of a transaction.  Another sub-object lets only one
 *		session at a time start a worker.  Neither is an advisory lock.
 *
 * IDENTIFICATION
 *		src/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "compat.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "projection.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#include "wake.h"

/* Sub-objects of the extension that are locked. */
#define WORKER_LIFE			1
#define WORKER_START		2

/* The longest sleep: projections can be enabled without an append. */
#define WORKER_SLEEP_MS		1000

/* How long the server waits before it starts a worker that failed, in s. */
#define WORKER_RESTART_S	5

/* How often the worker asks for its lock, for others may just look at it. */
#define WORKER_LOCK_TRIES	10

/* Rows that one step of maintenance looks at. */
#define WORKER_MAINTAIN_ROWS	1000

/* What a worker is started with; fits in bgw_extra. */
typedef struct WorkerOrder
{
	Oid			database;
	Oid			role;
	Oid			extension;
	int			notify_ms;		/* 0 for never */
	int			maintain_ms;	/* 0 for never */
} WorkerOrder;

/* What the steps of a round know. */
typedef struct WorkerState
{
	WorkerOrder order;
	MemoryContext context;		/* reset with each round */
	List	   *due;			/* names of projections */
	char	   *name;			/* of the one that runs */
	int64		handled;		/* events, in this round */
	ErrorData  *error;			/* of the step that failed last */
	int64		notified;		/* last position sent */
	TimestampTz notify_at;		/* not before */
	TimestampTz maintain_at;
} WorkerState;

typedef void (*WorkerStep) (WorkerState *state);

static volatile sig_atomic_t worker_stop = false;

PG_FUNCTION_INFO_V1(alvyn_start_worker);
PGDLLEXPORT void alvyn_worker_main(Datum arg);

static int	worker_interval(FunctionCallInfo fcinfo, int arg, const char *name);
static bool worker_lock(Oid extension, int what, bool session);
static void worker_unlock(Oid extension, int what);
static pid_t worker_launch(const WorkerOrder *order);
static void worker_await(BackgroundWorkerHandle *handle,
						 const WorkerOrder *order);
static void worker_sigterm(int signal);
static bool worker_try(WorkerState *state, WorkerStep step);
static void worker_round(WorkerState *state);
static void worker_idle(WorkerState *state);
static void worker_find_due(WorkerState *state);
static void worker_run(WorkerState *state);
static void worker_note_error(WorkerState *state);
static void worker_notify(WorkerState *state);
static void worker_maintain(WorkerState *state);
static int64 worker_call(const char *sql, int nargs, Oid *types, Datum *values,
						 const char *nulls);

/*
 * alvyn.start_worker(notify_interval interval, maintain_interval interval)
 * returns int
 *
 * Start the worker of this database as the current user, and return the id of
 * its process when it is at work.  Raises 55000 when there is one.
 */
Datum
alvyn_start_worker(PG_FUNCTION_ARGS)
{
	WorkerOrder order;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot start a worker during recovery")));
	memset(&order, 0, sizeof(order));
	order.database = MyDatabaseId;
	order.role = GetUserId();
	order.extension = get_extension_oid("alvyn", false);
	order.notify_ms = worker_interval(fcinfo, 0, "notify_interval");
	order.maintain_ms = worker_interval(fcinfo, 1, "maintain_interval");

	if (!worker_lock(order.extension, WORKER_START, false) ||
		!worker_lock(order.extension, WORKER_LIFE, true))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a worker of this database is running"),
				 errhint("End it with stop_worker()."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "worker")));
	worker_unlock(order.extension, WORKER_LIFE);
	PG_RETURN_INT32(worker_launch(&order));
}

/*
 * The worker.
 */
void
alvyn_worker_main(Datum arg)
{
	WorkerState state;
	int			tries;

	memset(&state, 0, sizeof(state));
	memcpy(&state.order, MyBgworkerEntry->bgw_extra, sizeof(WorkerOrder));
	pqsignal(SIGTERM, worker_sigterm);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(state.order.database,
											  state.order.role, 0);
	for (tries = 1; !worker_lock(state.order.extension, WORKER_LIFE, true); tries++)
	{
		if (tries == WORKER_LOCK_TRIES || worker_stop)
			proc_exit(0);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 100, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}

	state.context = AllocSetContextCreate(TopMemoryContext, "alvyn worker",
										  ALLOCSET_DEFAULT_SIZES);
	alvyn_wake_begin();
	while (!worker_stop)
	{
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		worker_round(&state);
		if (state.handled > 0)
			alvyn_wake_begin();
		else if (!worker_stop)
			worker_idle(&state);
	}
	alvyn_wake_end();
	proc_exit(0);
}

/*
 * An interval argument in milliseconds, 0 when it is null.
 */
static int
worker_interval(FunctionCallInfo fcinfo, int arg, const char *name)
{
	Interval   *interval;
	double		ms;

	if (PG_ARGISNULL(arg))
		return 0;
	interval = PG_GETARG_INTERVAL_P(arg);
	ms = interval->time / 1000.0 +
		(interval->day + interval->month * 30.0) * SECS_PER_DAY * 1000.0;
	if (!(ms >= 1 && ms <= SECS_PER_DAY * 1000.0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", name),
				 errdetail("It must be 1 ms to 1 day.")));
	return (int) ms;
}

/*
 * Lock a sub-object of the extension, to the end of the session or of the
 * transaction.  Returns false when somebody else has it.
 */
static bool
worker_lock(Oid extension, int what, bool session)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, what);
	tag.locktag_lockmethodid = USER_LOCKMETHOD;
	return LockAcquire(&tag, ExclusiveLock, session, true) !=
		LOCKACQUIRE_NOT_AVAIL;
}

/*
 * Give a lock of the session back.
 */
static void
worker_unlock(Oid extension, int what)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, what);
	tag.locktag_lockmethodid = USER_LOCKMETHOD;
	(void) LockRelease(&tag, ExclusiveLock, true);
}

/*
 * Register a worker and wait until it is at work.
 */
static pid_t
worker_launch(const WorkerOrder *order)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;
	pid_t		pid = 0;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = WORKER_RESTART_S;
	worker.bgw_notify_pid = MyProcPid;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "alvyn");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "alvyn_worker_main");
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "alvyn worker for database %u",
			 order->database);
	snprintf(worker.bgw_type, sizeof(worker.bgw_type), "alvyn worker");
	memcpy(worker.bgw_extra, order, sizeof(*order));
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("could not register a background worker"),
				 errhint("Raise max_worker_processes.")));
	(void) WaitForBackgroundWorkerStartup(handle, &pid);
	worker_await(handle, order);
	return pid;
}

/*
 * Wait until a worker has its lock.
 */
static void
worker_await(BackgroundWorkerHandle *handle, const WorkerOrder *order)
{
	pid_t		pid;

	while (worker_lock(order->extension, WORKER_LIFE, true))
	{
		worker_unlock(order->extension, WORKER_LIFE);
		if (GetBackgroundWorkerPid(handle, &pid) != BGWH_STARTED)
		{
			TerminateBackgroundWorker(handle);
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not start a worker"),
					 errhint("The role must be allowed to log in. The server log tells more.")));
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * SIGTERM: cancel what runs, and end.
 */
static void
worker_sigterm(int signal)
{
	int			save_errno = errno;

	worker_stop = true;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * Do one step in a transaction.  Returns false when it failed; the error is
 * in the log, and in the state.
 */
static bool
worker_try(WorkerState *state, WorkerStep step)
{
	volatile bool ok = true;

	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		SPI_connect();
		PushActiveSnapshot(GetTransactionSnapshot());
		pgstat_report_activity(STATE_RUNNING, state->name);
		step(state);
		PopActiveSnapshot();
		SPI_finish();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(state->context);
		state->error = CopyErrorData();
		if (!worker_stop)
			EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(state->context);
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	return ok;
}

/*
 * Run a page of every projection that has something to do, then notify and
 * maintain.
 */
static void
worker_round(WorkerState *state)
{
	TimestampTz now;
	ListCell   *cell;

	MemoryContextReset(state->context);
	state->due = NIL;
	state->handled = 0;
	if (!worker_try(state, worker_find_due))
		return;
	foreach(cell, state->due)
	{
		if (worker_stop)
			return;
		state->name = lfirst(cell);
		alvyn_projection_forget_position();
		if (!worker_try(state, worker_run) && !worker_stop)
			(void) worker_try(state, worker_note_error);
		state->name = NULL;
	}
	now = GetCurrentTimestamp();
	if (state->order.notify_ms > 0 && now >= state->notify_at && !worker_stop)
		(void) worker_try(state, worker_notify);
	if (state->order.maintain_ms > 0 && now >= state->maintain_at && !worker_stop)
	{
		state->maintain_at = TimestampTzPlusMilliseconds(now, state->order.maintain_ms);
		(void) worker_try(state, worker_maintain);
	}
}

/*
 * Sleep until there may be something to do.  What a signal cancels here is
 * nothing but the sleep.
 */
static void
worker_idle(WorkerState *state)
{
	TimestampTz now = GetCurrentTimestamp();
	volatile long ms = WORKER_SLEEP_MS;

	if (state->order.notify_ms > 0 && state->notify_at > now)
		ms = Min(ms, TimestampDifferenceMilliseconds(now, state->notify_at));
	if (state->order.maintain_ms > 0)
		ms = Min(ms, TimestampDifferenceMilliseconds(now, state->maintain_at));
	pgstat_report_stat(true);
	PG_TRY();
	{
		alvyn_wake_sleep(Max(ms, 1));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(state->context);
		FlushErrorState();
	}
	PG_END_TRY();
}

/*
 * Step: which projections have something to do?  When the extension is gone,
 * or is another one, the worker ends.
 */
static void
worker_find_due(WorkerState *state)
{
	MemoryContext old;
	uint64		i;

	if (get_extension_oid("alvyn", true) != state->order.extension)
	{
		worker_stop = true;
		return;
	}
	(void) worker_call("SELECT alvyn.due_projections()", 0, NULL, NULL, NULL);
	old = MemoryContextSwitchTo(state->context);
	for (i = 0; i < SPI_processed; i++)
		state->due = lappend(state->due,
							 SPI_getvalue(SPI_tuptable->vals[i],
										  SPI_tuptable->tupdesc, 1));
	MemoryContextSwitchTo(old);
}

/*
 * Step: run a page of a projection.
 */
static void
worker_run(WorkerState *state)
{
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(state->name)};

	state->handled += worker_call("SELECT alvyn.run_projection($1)", 1, types,
								  values, NULL);
}

/*
 * Step: record the error of a projection.
 */
static void
worker_note_error(WorkerState *state)
{
	int64		position = alvyn_projection_position();
	Oid			types[4] = {TEXTOID, TEXTOID, TEXTOID, INT8OID};
	Datum		values[4];
	char		nulls[4] = {' ', ' ', ' ', position == 0 ? 'n' : ' '};

	values[0] = CStringGetTextDatum(state->name);
	values[1] = CStringGetTextDatum(unpack_sql_state(state->error->sqlerrcode));
	values[2] = CStringGetTextDatum(state->error->message ? state->error->message : "");
	values[3] = Int64GetDatum(position);
	(void) worker_call("SELECT alvyn.note_projection($1, $2, $3, $4)", 4, types,
					   values, nulls);
}

/*
 * Step: send a NOTIFY if more has become final.
 */
static void
worker_notify(WorkerState *state)
{
	Oid			resolved_types[1] = {INT8OID};
	Datum		resolved_values[1] = {Int64GetDatum(state->notified)};
	Oid			types[1] = {TEXTOID};
	Datum		values[1];
	int64		resolved = worker_call("SELECT alvyn.resolved_from($1, false)", 1,
									   resolved_types, resolved_values, NULL);

	if (resolved <= state->notified)
		return;
	values[0] = CStringGetTextDatum(psprintf("%lld", (long long) resolved));
	(void) worker_call("SELECT pg_catalog.pg_notify('alvyn', $1)", 1, types,
					   values, NULL);
	state->notified = resolved;
	state->notify_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												   state->order.notify_ms);
}

/*
 * Step: maintain, if the extension can, and soon again where there is more to
 * do.  A task that did nothing waits for somebody, but retention has moved on.
 */
static void
worker_maintain(WorkerState *state)
{
	Oid			types[1] = {INT4OID};
	Datum		values[1] = {Int32GetDatum(WORKER_MAINTAIN_ROWS)};
	List	   *name = list_make2(makeString("alvyn"), makeString("maintain"));

	if (OidIsValid(LookupFuncName(name, 1, types, true)))
	{
		if (worker_call("SELECT pg_catalog.count(*) FROM alvyn.maintain($1) m "
						"WHERE m.more AND (m.rows OPERATOR(pg_catalog.>) 0 "
						"OR m.task OPERATOR(pg_catalog.=) 'retention')",
						1, types, values, NULL) > 0)
			state->maintain_at = GetCurrentTimestamp();
	}
}

/*
 * Execute a SELECT, and return its value where that is a bigint, otherwise 0.
 */
static int64
worker_call(const char *sql, int nargs, Oid *types, Datum *values,
			const char *nulls)
{
	bool		isnull;
	Datum		value;

	if (SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\"", sql);
	if (SPI_processed == 0 || SPI_gettypeid(SPI_tuptable->tupdesc, 1) != INT8OID)
		return 0;
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
						  &isnull);
	return isnull ? 0 : DatumGetInt64(value);
}
