/*-------------------------------------------------------------------------
 *
 * gate.c
 *		A limit to the transactions that append at the same time.
 *
 * A server that is asked for more than it can do does less: more processes
 * wait for the same locks and processors, each request takes longer, clients
 * give up and ask again.  So only so many transactions append at a time, so
 * many more wait for their turn, in order, and all others are refused at once
 * and told when to come again.
 *
 * A transaction takes a place with its first append and gives it back when it
 * has ended and its locks are released.  Giving it back after each append
 * does not do: the transaction still holds the lock of its stream, and would
 * stand in the queue behind others that hold places and wait for that lock.
 * For the same reason a place is taken before anything is locked.
 *
 * A waiter may hold locks all the same, of the user's own tables, and those
 * inside may wait for them.  The server's detector of deadlocks does not see
 * places.  So nobody waits longer than alvyn.queue_timeout.
 *
 * Places are handed over: whoever leaves lets the first of the queue in and
 * wakes it.  Somebody new stands behind those that wait, also when a place has
 * just become free, so the order is kept.  Nobody waits while there is room:
 * the queue is not empty only while others are inside, and each of them lets
 * in as many as the limit of the day allows, when it leaves.
 *
 * The simple version, a counter that is compared and counted up, and a sleep
 * when it is full, is not fair, and wakes all for one place.
 *
 * Nothing is limited without shared memory.
 *
 * Locking
 *		Everything in shared memory is guarded by one spinlock, which is held
 *		for some assignments; an append that meets no limit takes it twice.
 *		A process reads the state of its own place without the lock: only
 *		itself and the one that lets it in change it, and that one sets the
 *		latch afterwards.  Who looks for the oldest reads without it too.
 *
 * IDENTIFICATION
 *		src/gate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "compat.h"
#include "funcapi.h"
#include "gate.h"
#include "miscadmin.h"
#include "shared.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define NOBODY				(-1)

/* The time that a refused client is told to wait, in ms. */
#define RETRY_FIRST_MS		10
#define RETRY_LAST_MS		10000

/* A new duration counts for one of so many in the mean. */
#define MEAN_WEIGHT			16

typedef enum PlaceState
{
	PLACE_OUTSIDE,
	PLACE_QUEUED,
	PLACE_INSIDE
} PlaceState;

/* What the gate knows of a process. */
typedef struct GatePlace
{
	volatile PlaceState state;
	int			previous;		/* in the queue, by number, or NOBODY */
	int			next;
	int			pid;
	TimestampTz since;			/* inside */
} GatePlace;

typedef struct Gate
{
	slock_t		mutex;
	int			in_flight;
	int			queued;
	int			first;			/* in the queue, by number, or NOBODY */
	int			last;
	int64		mean_us;		/* how long places are kept */
	int64		admitted;
	int64		shed;
	int64		appended;		/* events */
	GatePlace	places[FLEXIBLE_ARRAY_MEMBER];
} Gate;

/* Columns of alvyn.gate_status(). */
enum
{
	STATUS_ACTIVE,
	STATUS_IN_FLIGHT,
	STATUS_QUEUED,
	STATUS_MAX_CONCURRENT,
	STATUS_MAX_QUEUED,
	STATUS_ADMITTED,
	STATUS_SHED,
	STATUS_APPENDED,
	STATUS_OLDEST_PID,
	STATUS_OLDEST_SINCE,
	STATUS_NATTS
};

PG_FUNCTION_INFO_V1(alvyn_gate_status);

static int	max_concurrent;
static int	max_queued;
static int	queue_timeout;
static bool defined = false;

/* In shared memory, or NULL. */
static Gate *gate = NULL;

/* Has this process a place, or does it stand in the queue? */
static bool entered = false;

static bool gate_check_limit(int *newval, void **extra, GucSource source);
static void gate_fill_status(Datum *values, bool *nulls);
static void gate_wait(GatePlace *place, TimestampTz start);
static void gate_give_back(uint64 appended);
static int	gate_leave(int me, uint64 appended);
static int	gate_let_in(void);
static int	gate_let_in_locked(TimestampTz now);
static void gate_join_queue(int me);
static void gate_leave_queue(int me);
static bool gate_has_room(void);
static void gate_refuse(bool waited);

/*
 * alvyn.gate_status() returns record
 *
 * The limits and what is going on; without shared memory the limits alone.
 */
Datum
alvyn_gate_status(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[STATUS_NATTS] = {0};
	bool		nulls[STATUS_NATTS];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	memset(nulls, gate == NULL, sizeof(nulls));
	values[STATUS_ACTIVE] = BoolGetDatum(gate != NULL);
	values[STATUS_MAX_CONCURRENT] = Int32GetDatum(max_concurrent);
	values[STATUS_MAX_QUEUED] = Int32GetDatum(max_queued);
	nulls[STATUS_ACTIVE] = false;
	nulls[STATUS_MAX_CONCURRENT] = false;
	nulls[STATUS_MAX_QUEUED] = false;
	if (gate)
		gate_fill_status(values, nulls);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values,
											 nulls));
}

/*
 * What is in shared memory.
 */
static void
gate_fill_status(Datum *values, bool *nulls)
{
	GatePlace	oldest = {PLACE_OUTSIDE};
	Gate		copy;
	int			i;

	SpinLockAcquire(&gate->mutex);
	copy = *gate;
	SpinLockRelease(&gate->mutex);
	for (i = 0; i < alvyn_max_backends(); i++)
	{
		GatePlace	place = gate->places[i];

		if (place.state == PLACE_INSIDE &&
			(oldest.state != PLACE_INSIDE || place.since < oldest.since))
			oldest = place;
	}
	values[STATUS_IN_FLIGHT] = Int32GetDatum(copy.in_flight);
	values[STATUS_QUEUED] = Int32GetDatum(copy.queued);
	values[STATUS_ADMITTED] = Int64GetDatum(copy.admitted);
	values[STATUS_SHED] = Int64GetDatum(copy.shed);
	values[STATUS_APPENDED] = Int64GetDatum(copy.appended);
	values[STATUS_OLDEST_PID] = Int32GetDatum(oldest.pid);
	values[STATUS_OLDEST_SINCE] = TimestampTzGetDatum(oldest.since);
	nulls[STATUS_OLDEST_PID] = oldest.state != PLACE_INSIDE;
	nulls[STATUS_OLDEST_SINCE] = oldest.state != PLACE_INSIDE;
}

/*
 * Define the settings.
 */
void
alvyn_gate_init(void)
{
	/*
	 * alvyn.max_concurrent: so many transactions append at the same time, in
	 * the whole server; 0 for any number.  One value for all, since they
	 * share the places.
	 */
	DefineCustomIntVariable("alvyn.max_concurrent",
							"Sets how many transactions may append at the same time.",
							"0 for any number.  Needs shared_preload_libraries.",
							&max_concurrent, 64, 0, INT_MAX / 2,
							PGC_SIGHUP, 0, gate_check_limit, NULL, NULL);

	/* alvyn.max_queued: so many more wait, the others are refused. */
	DefineCustomIntVariable("alvyn.max_queued",
							"Sets how many transactions may wait to append.",
							"The others are refused.  Needs shared_preload_libraries.",
							&max_queued, 128, 0, INT_MAX / 2,
							PGC_SIGHUP, 0, gate_check_limit, NULL, NULL);

	/*
	 * alvyn.queue_timeout: the longest that one waits, 0 for no limit.
	 * Everybody may set it, as it limits who sets it.
	 */
	DefineCustomIntVariable("alvyn.queue_timeout",
							"Sets the longest time to wait for a place to append.",
							"0 for no limit.",
							&queue_timeout, 10000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	defined = true;
}

/*
 * Say so to whoever sets a limit that has no effect.  That can only be ALTER
 * SYSTEM: what is in the files is read outside of transactions.
 */
static bool
gate_check_limit(int *newval, void **extra, GucSource source)
{
	if (defined && gate == NULL && source == PGC_S_FILE &&
		IsTransactionState() && !process_shared_preload_libraries_in_progress)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the limit has no effect"),
				 errdetail("Appends can be limited only by a library that the server has preloaded."),
				 errhint("Add \"alvyn\" to \"shared_preload_libraries\" and restart the server.")));
	return true;
}

/*
 * Shared memory that is needed.
 */
Size
alvyn_gate_size(void)
{
	return CACHELINEALIGN(offsetof(Gate, places) +
						  alvyn_max_backends() * sizeof(GatePlace));
}

/*
 * Use a piece of shared memory.
 */
void
alvyn_gate_attach(void *room, bool fresh)
{
	gate = room;
	if (!fresh)
		return;
	memset(gate, 0, alvyn_gate_size());
	SpinLockInit(&gate->mutex);
	gate->first = gate->last = NOBODY;
}

/*
 * Take a place for the transaction, if it has none yet; wait for one when all
 * are taken.  Raises 53000 (constraint overloaded) when too many wait.
 */
void
alvyn_gate_enter(void)
{
	int			me;
	TimestampTz now;
	PlaceState	state;

	if (entered || gate == NULL)
		return;
	me = alvyn_proc_number();
	now = GetCurrentTimestamp();
	gate->places[me].pid = MyProcPid;

	SpinLockAcquire(&gate->mutex);
	if (gate->first == NOBODY && gate_has_room())
	{
		gate->in_flight++;
		gate->admitted++;
		gate->places[me].since = now;
		gate->places[me].state = PLACE_INSIDE;
	}
	else if (gate->queued < max_queued)
		gate_join_queue(me);
	state = gate->places[me].state;
	SpinLockRelease(&gate->mutex);

	if (state == PLACE_OUTSIDE)
		gate_refuse(false);
	entered = true;
	if (state == PLACE_QUEUED)
		gate_wait(&gate->places[me], now);
}

/*
 * A transaction has ended, and has appended so many events if it was
 * committed.
 */
void
alvyn_gate_transaction_end(uint64 appended)
{
	if (entered)
		gate_give_back(appended);
}

/*
 * Wait to be let in.
 */
static void
gate_wait(GatePlace *place, TimestampTz start)
{
	PG_TRY();
	{
		while (place->state == PLACE_QUEUED)
		{
			int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
			long		left = -1;

			if (queue_timeout > 0)
			{
				left = queue_timeout -
					TimestampDifferenceMilliseconds(start,
													GetCurrentTimestamp());
				events |= WL_TIMEOUT;
				if (left <= 0)
					gate_refuse(true);
			}
			(void) WaitLatch(MyLatch, events, left, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	PG_CATCH();
	{
		gate_give_back(0);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Give the place back, or leave the queue, and wake those that come in.
 */
static void
gate_give_back(uint64 appended)
{
	int			next;

	entered = false;
	next = gate_leave(alvyn_proc_number(), appended);
	while (next != NOBODY)
	{
		SetLatch(&GetPGProcByNumber(next)->procLatch);
		next = gate_let_in();
	}
}

/*
 * Leave, and let the first of the queue in if there is room.  Returns it, or
 * NOBODY.
 */
static int
gate_leave(int me, uint64 appended)
{
	GatePlace  *place = &gate->places[me];
	TimestampTz now = GetCurrentTimestamp();
	int			next;

	SpinLockAcquire(&gate->mutex);
	if (place->state == PLACE_INSIDE)
	{
		gate->in_flight--;
		gate->appended += appended;
		gate->mean_us += (now - place->since - gate->mean_us) / MEAN_WEIGHT;
	}
	else
		gate_leave_queue(me);
	place->state = PLACE_OUTSIDE;
	next = gate_let_in_locked(now);
	SpinLockRelease(&gate->mutex);
	return next;
}

/*
 * Let the first of the queue in if there is room.  Returns it, or NOBODY.
 */
static int
gate_let_in(void)
{
	TimestampTz now = GetCurrentTimestamp();
	int			next;

	SpinLockAcquire(&gate->mutex);
	next = gate_let_in_locked(now);
	SpinLockRelease(&gate->mutex);
	return next;
}

/*
 * The same, under the lock.
 */
static int
gate_let_in_locked(TimestampTz now)
{
	int			next = gate->first;

	if (next == NOBODY || !gate_has_room())
		return NOBODY;
	gate_leave_queue(next);
	gate->in_flight++;
	gate->admitted++;
	gate->places[next].since = now;
	gate->places[next].state = PLACE_INSIDE;
	return next;
}

/*
 * Stand at the end of the queue.  Under the lock.
 */
static void
gate_join_queue(int me)
{
	GatePlace  *place = &gate->places[me];

	place->previous = gate->last;
	place->next = NOBODY;
	if (gate->last == NOBODY)
		gate->first = me;
	else
		gate->places[gate->last].next = me;
	gate->last = me;
	gate->queued++;
	place->state = PLACE_QUEUED;
}

/*
 * Leave the queue, wherever in it.  Under the lock.
 */
static void
gate_leave_queue(int me)
{
	GatePlace  *place = &gate->places[me];

	if (place->previous == NOBODY)
		gate->first = place->next;
	else
		gate->places[place->previous].next = place->next;
	if (place->next == NOBODY)
		gate->last = place->previous;
	else
		gate->places[place->next].previous = place->previous;
	gate->queued--;
}

/*
 * May one more come in?  Under the lock.
 */
static bool
gate_has_room(void)
{
	return max_concurrent == 0 || gate->in_flight < max_concurrent;
}

/*
 * Raise the error for one that is not let in.  The time to come again is that
 * which the queue will take, as long as places are kept lately.
 */
static void
gate_refuse(bool waited)
{
	int			in_flight;
	int			queued;
	int64		retry_ms;

	SpinLockAcquire(&gate->mutex);
	gate->shed++;
	in_flight = gate->in_flight;
	queued = gate->queued;
	retry_ms = gate->mean_us * (queued + 1) / (1000 * Max(max_concurrent, 1));
	SpinLockRelease(&gate->mutex);

	retry_ms = Min(Max(retry_ms, RETRY_FIRST_MS), RETRY_LAST_MS);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("too many appends in flight"),
			 waited ?
			 errdetail("%d are in flight and %d wait, this one for \"alvyn.queue_timeout\".",
					   in_flight, queued) :
			 errdetail("%d are in flight and %d wait, as many as \"alvyn.max_concurrent\" and \"alvyn.max_queued\" allow.",
					   in_flight, queued),
			 errhint("Retry in %d ms.", (int) retry_ms),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "overloaded")));
}
