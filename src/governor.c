/*-------------------------------------------------------------------------
 *
 * governor.c
 *		Token buckets that all sessions share.
 *
 * The simple bucket holds a number of tokens and the time when they were last
 * counted.  The generic cell rate algorithm (ITU-T I.371, there for ATM cells)
 * holds one time instead, the theoretical arrival: when the bucket would be
 * full again if nobody took any more.  A bucket of "burst" tokens at "rate"
 * tokens a second is full when the arrival is now or before, and empty when
 * it lies burst/rate ahead.  Taking tokens moves the arrival by their number
 * divided by the rate, and may not move it further ahead than burst/rate.
 *
 * Waiting
 *		Who waits takes the tokens at once, so the arrival lies further ahead
 *		than burst/rate, and sleeps until it no longer does.  Those who come
 *		later take what lies behind and so wait longer: a queue in order, in
 *		one number, without a list and without waking anybody.  A waiter that
 *		is cancelled gives its tokens back if nobody stands behind it;
 *		otherwise, and when its session ends, they are lost.
 *
 * Clocks
 *		Times are nanoseconds since 2000.  The last time that was seen is kept:
 *		when the clock is behind it, it was set back, and the arrival is set
 *		back by as much.  Sleeping follows the monotonic clock.
 *
 * IDENTIFICATION
 *		src/governor.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "cell.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Columns of alvyn.governor_definitions and alvyn.governor_states. */
#define DEFINITION_KEY		1
#define DEFINITION_RATE		2
#define DEFINITION_BURST	3
#define STATE_KEY			3

#define NS_PER_SECOND		1e9
#define NS_PER_MS			INT64CONST(1000000)
#define NANOS_PER_MICRO			1000

/* The longest that a caller may wait. */
#define LONGEST_WAIT_US		USECS_PER_DAY

/* The longest that tokens take to come in: the largest burst, and waiters. */
#define LONGEST_DEBT_NS		(86400.0 * 400 * NS_PER_SECOND)

PG_FUNCTION_INFO_V1(alvyn_acquire);
PG_FUNCTION_INFO_V1(alvyn_take_tokens);
PG_FUNCTION_INFO_V1(alvyn_return_tokens);
PG_FUNCTION_INFO_V1(alvyn_stretch_tokens);

/* What changes in place: the first columns of alvyn.governor_states. */
typedef struct Bucket
{
	int64		arrival;
	int64		seen;
} Bucket;

typedef struct Governor
{
	Cell		cell;
	double		interval;		/* between two tokens, in ns */
	double		burst;			/* tokens */
} Governor;

static void governor_open(Governor *governor, FunctionCallInfo fcinfo,
						  const char *command);
static double governor_cost(FunctionCallInfo fcinfo, double burst);
static int64 governor_wait(FunctionCallInfo fcinfo);
static int64 governor_take(Governor *governor, double tokens, int64 patience,
						   int64 *arrival);
static void governor_sleep(int64 ns);
static void governor_give_back(Governor *governor, double tokens,
							   int64 arrival);
static int64 governor_now(Bucket *bucket);

/*
 * alvyn.acquire(key text, cost double precision, wait interval, OUT granted
 * boolean, OUT retry_in interval)
 *
 * Take tokens, or tell when they will be there.  Not undone by a rollback.
 */
Datum
alvyn_acquire(PG_FUNCTION_ARGS)
{
	Governor	governor;
	double		cost;
	int64		patience;
	int64		arrival;
	int64		delay;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false, true};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	governor_open(&governor, fcinfo, "acquire()");
	cost = governor_cost(fcinfo, governor.burst);
	patience = governor_wait(fcinfo);
	delay = governor_take(&governor, cost, patience, &arrival);
	values[0] = BoolGetDatum(delay <= patience);
	if (delay > patience)
	{
		Interval   *retry_in = palloc0(sizeof(Interval));

		retry_in->time = (delay + NANOS_PER_MICRO - 1) / NANOS_PER_MICRO;
		values[1] = IntervalPGetDatum(retry_in);
		nulls[1] = false;
	}
	else if (delay > 0)
	{
		PG_TRY();
		{
			governor_sleep(delay);
		}
		PG_CATCH();
		{
			governor_give_back(&governor, cost, arrival);
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	alvyn_cell_close(&governor.cell);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * alvyn.take_tokens(key text, most int) returns int
 *
 * Take as many whole tokens as there are, up to "most".
 */
Datum
alvyn_take_tokens(PG_FUNCTION_ARGS)
{
	Governor	governor;
	Bucket	   *bucket;
	int64		now;
	double		tokens;

	governor_open(&governor, fcinfo, "claim()");
	bucket = (Bucket *) alvyn_cell_lock(&governor.cell);
	now = governor_now(bucket);
	tokens = governor.burst -
		(Max(bucket->arrival, now) - now) / governor.interval;
	/* A billionth of a token is rounding. */
	tokens = Min(floor(tokens + 1e-9), PG_GETARG_INT32(1));
	if (tokens > 0)
		bucket->arrival = Max(bucket->arrival, now) +
			(int64) rint(tokens * governor.interval);
	alvyn_cell_unlock(&governor.cell, tokens > 0);
	alvyn_cell_close(&governor.cell);
	PG_RETURN_INT32(Max((int32) tokens, 0));
}

/*
 * alvyn.return_tokens(key text, tokens int) returns void
 *
 * Put tokens back that were taken a moment ago and are not needed.
 */
Datum
alvyn_return_tokens(PG_FUNCTION_ARGS)
{
	Governor	governor;
	Bucket	   *bucket;

	governor_open(&governor, fcinfo, "claim()");
	bucket = (Bucket *) alvyn_cell_lock(&governor.cell);
	bucket->arrival -= (int64) rint(PG_GETARG_INT32(1) * governor.interval);
	alvyn_cell_unlock(&governor.cell, true);
	alvyn_cell_close(&governor.cell);
	PG_RETURN_VOID();
}

/*
 * alvyn.stretch_tokens(key text, factor double precision) returns void
 *
 * The tokens that are missing take so many times as long to come in: for a
 * new rate.
 */
Datum
alvyn_stretch_tokens(PG_FUNCTION_ARGS)
{
	Governor	governor;
	Bucket	   *bucket;
	int64		now;

	governor_open(&governor, fcinfo, "alter_governor()");
	bucket = (Bucket *) alvyn_cell_lock(&governor.cell);
	now = governor_now(bucket);
	if (bucket->arrival > now)
		bucket->arrival = now +
			(int64) Min((bucket->arrival - now) * PG_GETARG_FLOAT8(1),
						LONGEST_DEBT_NS);
	alvyn_cell_unlock(&governor.cell, true);
	alvyn_cell_close(&governor.cell);
	PG_RETURN_VOID();
}

/*
 * Find the definition and the state of the governor in the first argument.
 */
static void
governor_open(Governor *governor, FunctionCallInfo fcinfo,
			  const char *command)
{
	Oid			function = fcinfo->flinfo->fn_oid;
	Relation	rel;
	ScanKeyData key;
	HeapTuple	row;
	bool		isnull;

	PreventCommandDuringRecovery(command);
	PreventCommandIfReadOnly(command);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be null", "key")));
	rel = alvyn_cell_table(function, "governor_definitions", AccessShareLock);
	ScanKeyInit(&key, DEFINITION_KEY, BTEqualStrategyNumber, F_TEXTEQ,
				PG_GETARG_DATUM(0));
	row = alvyn_cell_lookup(rel, &key, 1, NULL);
	if (row)
	{
		governor->interval = NS_PER_SECOND /
			DatumGetFloat8(heap_getattr(row, DEFINITION_RATE,
										RelationGetDescr(rel), &isnull));
		governor->burst =
			DatumGetFloat8(heap_getattr(row, DEFINITION_BURST,
										RelationGetDescr(rel), &isnull));
	}
	table_close(rel, AccessShareLock);
	ScanKeyInit(&key, STATE_KEY, BTEqualStrategyNumber, F_TEXTEQ,
				PG_GETARG_DATUM(0));
	if (row == NULL ||
		!alvyn_cell_find(&governor->cell, function, "governor_states", &key, 1))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("governor \"%s\" does not exist",
						text_to_cstring(PG_GETARG_TEXT_PP(0)))));
	Assert(governor->cell.width == sizeof(Bucket));
}

/*
 * The argument "cost".
 */
static double
governor_cost(FunctionCallInfo fcinfo, double burst)
{
	double		cost = PG_ARGISNULL(1) ? 0 : PG_GETARG_FLOAT8(1);

	/* Written so that NaN is refused. */
	if (!(cost > 0 && cost <= burst))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", "cost"),
				 errdetail("It must be more than 0 and at most the burst, %g.",
						   burst)));
	return cost;
}

/*
 * The argument "wait", in ns.
 */
static int64
governor_wait(FunctionCallInfo fcinfo)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		wait;

	if (PG_ARGISNULL(2))
		return 0;
	wait = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												   TimestampTzGetDatum(now),
												   PG_GETARG_DATUM(2))) - now;
	if (wait < 0 || wait > LONGEST_WAIT_US)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", "wait"),
				 errdetail("It must be 0 to 1 day.")));
	return wait * NANOS_PER_MICRO;
}

/*
 * Take tokens if they are there within "patience" ns.  Returns in how many ns
 * they are, 0 for now, and the theoretical arrival after them.
 */
static int64
governor_take(Governor *governor, double tokens, int64 patience,
			  int64 *arrival)
{
	int64		cost = (int64) rint(tokens * governor->interval);
	int64		ahead = (int64) rint(governor->burst * governor->interval);
	Bucket	   *bucket = (Bucket *) alvyn_cell_lock(&governor->cell);
	int64		now = governor_now(bucket);
	int64		delay;

	*arrival = Max(bucket->arrival, now) + cost;
	delay = Max(*arrival - ahead - now, 0);
	if (delay <= patience)
		bucket->arrival = *arrival;
	alvyn_cell_unlock(&governor->cell, delay <= patience);
	return delay;
}

/*
 * Sleep by the monotonic clock.
 */
static void
governor_sleep(int64 ns)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	for (;;)
	{
		instr_time	elapsed;
		int64		left;

		CHECK_FOR_INTERRUPTS();
		INSTR_TIME_SET_CURRENT(elapsed);
		INSTR_TIME_SUBTRACT(elapsed, start);
		left = ns - (int64) (INSTR_TIME_GET_DOUBLE(elapsed) * NS_PER_SECOND);
		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (left + NS_PER_MS - 1) / NS_PER_MS,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/*
 * Give back the tokens of a waiter that gives up, if it is the last in line:
 * those behind it would otherwise be joined by others in their moment.
 */
static void
governor_give_back(Governor *governor, double tokens, int64 arrival)
{
	Bucket	   *bucket = (Bucket *) alvyn_cell_lock(&governor->cell);
	bool		last = bucket->arrival == arrival;

	if (last)
		bucket->arrival -= (int64) rint(tokens * governor->interval);
	alvyn_cell_unlock(&governor->cell, last);
}

/*
 * The time now, after which a bucket has not been seen.
 */
static int64
governor_now(Bucket *bucket)
{
	int64		now = GetCurrentTimestamp() * NANOS_PER_MICRO;

	if (now < bucket->seen)
		bucket->arrival -= bucket->seen - now;
	bucket->seen = now;
	return now;
}
