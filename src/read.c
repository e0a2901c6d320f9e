/*-------------------------------------------------------------------------
 *
 * read.c
 *		SQL functions over the feed.
 *
 * A page of the feed is collected before its first row is returned, so that
 * a reader that stops early leaves nothing open.
 *
 * IDENTIFICATION
 *		src/read.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/itup.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "feed.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "request.h"
#include "stream.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "wake.h"

/* So often alvyn.wait() finds something new. */
#define WAIT_PACE_MS		4

PG_FUNCTION_INFO_V1(alvyn_read);
PG_FUNCTION_INFO_V1(alvyn_read_backwards);
PG_FUNCTION_INFO_V1(alvyn_position_at);
PG_FUNCTION_INFO_V1(alvyn_skip);
PG_FUNCTION_INFO_V1(alvyn_resolved_from);
PG_FUNCTION_INFO_V1(alvyn_wait);
PG_FUNCTION_INFO_V1(alvyn_last_position);

static const FeedFilter read_all = {.snapshots = true,.last_slot = STREAM_SLOTS - 1};

static bool wait_until(FunctionCallInfo fcinfo, const FeedFilter *filter,
					   int64 after, TimestampTz deadline);
static void wait_pace(TimestampTz event_time, TimestampTz deadline);
static void read_filter(FeedFilter *filter, FunctionCallInfo fcinfo, int arg);
static void read_wanted(FeedFilter *filter, FunctionCallInfo fcinfo, int arg);
static void read_down(EventLog *log, const FeedFilter *filter, int64 last,
					  int max_count, ReturnSetInfo *result);
static text *read_text(FunctionCallInfo fcinfo, int arg);
static int	read_slot(FunctionCallInfo fcinfo, int arg, int otherwise);
static int	read_max_count(FunctionCallInfo fcinfo, int arg);
static void read_open(EventLog *log, FunctionCallInfo fcinfo);
static void read_close(EventLog *log);
static int64 read_bound(EventLog *log, const FeedFilter *filter, int64 after,
						bool wait);

/*
 * alvyn.read_slots(after bigint, max_count int, category text, prefix text,
 * types text[], snapshots boolean, key text[], first_slot int, last_slot int,
 * wait boolean) returns setof event
 *
 * The events behind a position that a filter wants, in the order of their
 * positions.  Raises 22023 for arguments, 55000 during recovery.
 */
Datum
alvyn_read(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext context;
	MemoryContext old;
	FeedFilter	filter;
	EventLog	log;
	Feed		feed;
	EventRow	row;
	int			max_count;
	int			count = 0;

	alvyn_request_at_least(fcinfo, 0, "after", 0);
	max_count = read_max_count(fcinfo, 1);
	alvyn_materialize(fcinfo);
	read_filter(&filter, fcinfo, 2);
	read_open(&log, fcinfo);
	alvyn_feed_begin(&feed, &log, &filter, PG_GETARG_INT64(0),
					 PG_ARGISNULL(9) || PG_GETARG_BOOL(9));
	context = AllocSetContextCreate(CurrentMemoryContext, "alvyn read",
									ALLOCSET_DEFAULT_SIZES);
	while (count < max_count && alvyn_feed_next(&feed, &row))
	{
		Datum		values[EVENT_NATTS];
		bool		nulls[EVENT_NATTS];

		old = MemoryContextSwitchTo(context);
		alvyn_event_values(&row, feed.stream_id, values, nulls);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
		count++;
	}
	alvyn_feed_end(&feed);
	read_close(&log);
	MemoryContextDelete(context);
	PG_RETURN_NULL();
}

/*
 * alvyn.read_backwards(before bigint, max_count int, category text, prefix
 * text, types text[], snapshots boolean) returns setof event
 *
 * The events before a position that a filter wants, the newest first.  Below
 * the bound of the feed everything is final, so one snapshot taken after the
 * bound sees all of it, whatever the transaction's snapshot sees.
 */
Datum
alvyn_read_backwards(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	FeedFilter	filter = {.last_slot = STREAM_SLOTS - 1};
	EventLog	log;
	int			max_count;
	int64		last;

	if (!PG_ARGISNULL(0))
		alvyn_request_at_least(fcinfo, 0, "before", 1);
	max_count = read_max_count(fcinfo, 1);
	alvyn_materialize(fcinfo);
	read_wanted(&filter, fcinfo, 2);
	read_open(&log, fcinfo);
	last = alvyn_feed_resolve(&log, 0, true);
	if (!PG_ARGISNULL(0))
		last = Min(last, PG_GETARG_INT64(0) - 1);
	read_down(&log, &filter, last, max_count, result);
	read_close(&log);
	PG_RETURN_NULL();
}

/*
 * alvyn.position_at("time" timestamptz) returns bigint
 *
 * The last position such that no event at or before it has this time or a
 * later one.  Callers set times as they like, so only looking at all events
 * up to the first such one is exact.
 */
Datum
alvyn_position_at(PG_FUNCTION_ARGS)
{
	TimestampTz time;
	EventLog	log;
	Feed		feed;
	EventRow	row;
	int64		position = -1;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be null", "time")));
	time = PG_GETARG_TIMESTAMPTZ(0);
	read_open(&log, fcinfo);
	alvyn_feed_begin(&feed, &log, &read_all, 0, true);
	while (position < 0 && alvyn_feed_next(&feed, &row))
	{
		if (row.time >= time)
			position = row.position - 1;
	}
	if (position < 0)
		position = alvyn_feed_bound(&feed);
	alvyn_feed_end(&feed);
	read_close(&log);
	PG_RETURN_INT64(position);
}

/*
 * alvyn.skip(after bigint, category text, prefix text, types text[],
 * snapshots boolean, key text[], first_slot int, last_slot int, wait boolean)
 * returns bigint
 *
 * The last position up to which the filter wants nothing behind "after", now
 * or ever.
 */
Datum
alvyn_skip(PG_FUNCTION_ARGS)
{
	FeedFilter	filter;
	EventLog	log;
	int64		bound;

	alvyn_request_at_least(fcinfo, 0, "after", 0);
	read_filter(&filter, fcinfo, 1);
	read_open(&log, fcinfo);
	bound = read_bound(&log, &filter, PG_GETARG_INT64(0),
					   PG_ARGISNULL(8) || PG_GETARG_BOOL(8));
	read_close(&log);
	PG_RETURN_INT64(bound);
}

/*
 * alvyn.resolved_from(position bigint, wait boolean) returns bigint
 *
 * The last position up to which the feed is final.  "position" is known to be
 * final; the search begins there unless nothing is pending.
 */
Datum
alvyn_resolved_from(PG_FUNCTION_ARGS)
{
	EventLog	log;
	int64		bound;

	alvyn_request_at_least(fcinfo, 0, "position", 0);
	read_open(&log, fcinfo);
	bound = alvyn_feed_resolve(&log, PG_GETARG_INT64(0),
							   PG_ARGISNULL(1) || PG_GETARG_BOOL(1));
	read_close(&log);
	PG_RETURN_INT64(bound);
}

/*
 * alvyn.wait_position(after bigint, timeout interval, category text, prefix
 * text, types text[], snapshots boolean, key text[], first_slot int, last_slot
 * int) returns boolean
 *
 * Sleep until there is an event behind a position that the filter wants and
 * that a read returns.  Returns false when the time is over.
 *
 * A look costs one read of the sequence while nothing is appended.
 */
Datum
alvyn_wait(PG_FUNCTION_ARGS)
{
	TimestampTz deadline;
	FeedFilter	filter;
	volatile bool found = false;

	alvyn_request_at_least(fcinfo, 0, "after", 0);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be null", "timeout")));
	deadline = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
													   TimestampTzGetDatum(GetCurrentTimestamp()),
													   PG_GETARG_DATUM(1)));
	read_filter(&filter, fcinfo, 2);
	alvyn_wake_begin();
	PG_TRY();
	{
		found = wait_until(fcinfo, &filter, PG_GETARG_INT64(0), deadline);
	}
	PG_FINALLY();
	{
		alvyn_wake_end();
	}
	PG_END_TRY();
	PG_RETURN_BOOL(found);
}

/*
 * alvyn.last_position() returns bigint
 *
 * The last position that was handed out, whatever has become of it.
 */
Datum
alvyn_last_position(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(alvyn_feed_last_position(fcinfo->flinfo->fn_oid));
}

/*
 * Look at the feed and sleep, in turns, until there is something or the time
 * is over.
 */
static bool
wait_until(FunctionCallInfo fcinfo, const FeedFilter *filter, int64 after,
		   TimestampTz deadline)
{
	for (;;)
	{
		EventLog	log;
		Feed		feed;
		EventRow	row;
		bool		found;
		long		left;

		read_open(&log, fcinfo);
		alvyn_feed_begin(&feed, &log, filter, after, false);
		found = alvyn_feed_next(&feed, &row);
		after = Max(after, found ? after : alvyn_feed_reached(&feed));
		alvyn_feed_end(&feed);
		read_close(&log);
		if (found)
		{
			wait_pace(row.time, deadline);
			return true;
		}

		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		if (left <= 0)
			return false;
		alvyn_wake_sleep(left);
	}
}

/*
 * Let a few more events come when a session asks again at once for what has
 * only just been appended.  Under load a consumer then reads pages and not
 * single events, and leaves the machine to the appenders.  Who is behind, or
 * has not asked for a while, goes on at once.
 */
static void
wait_pace(TimestampTz event_time, TimestampTz deadline)
{
	static TimestampTz last = 0;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = Min(Min(last, event_time) + WAIT_PACE_MS * 1000,
							deadline);

	if (until > now && last <= now)
	{
		pg_usleep(Min(until - now, WAIT_PACE_MS * 1000));
		CHECK_FOR_INTERRUPTS();
		now = until;
	}
	last = now;
}

/*
 * The filter in the arguments from "arg" on: category, prefix, types,
 * snapshots, key, first and last slot.
 */
static void
read_filter(FeedFilter *filter, FunctionCallInfo fcinfo, int arg)
{
	memset(filter, 0, sizeof(*filter));
	read_wanted(filter, fcinfo, arg);
	filter->key = PG_ARGISNULL(arg + 4) ? NULL : PG_GETARG_ARRAYTYPE_P(arg + 4);
	filter->first_slot = read_slot(fcinfo, arg + 5, 0);
	filter->last_slot = read_slot(fcinfo, arg + 6, STREAM_SLOTS - 1);
}

/*
 * The part of it that every reader has: category, prefix, types, snapshots.
 */
static void
read_wanted(FeedFilter *filter, FunctionCallInfo fcinfo, int arg)
{
	filter->category = read_text(fcinfo, arg);
	filter->prefix = read_text(fcinfo, arg + 1);
	if (!PG_ARGISNULL(arg + 2))
	{
		ArrayType  *array = PG_GETARG_ARRAYTYPE_P(arg + 2);
		Datum	   *types;
		bool	   *nulls;
		int			i;

		deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT,
						  &types, &nulls, &filter->ntypes);
		filter->types = palloc(sizeof(text *) * filter->ntypes);
		for (i = 0; i < filter->ntypes; i++)
		{
			if (nulls[i])
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("argument \"types[%d]\" must not be null",
								i + 1)));
			filter->types[i] = DatumGetTextPP(types[i]);
		}
	}
	filter->snapshots = !PG_ARGISNULL(arg + 3) && PG_GETARG_BOOL(arg + 3);
}

/*
 * A text argument, or NULL.
 */
static text *
read_text(FunctionCallInfo fcinfo, int arg)
{
	return PG_ARGISNULL(arg) ? NULL : PG_GETARG_TEXT_PP(arg);
}

/*
 * An argument that limits the rows.
 */
static int
read_max_count(FunctionCallInfo fcinfo, int arg)
{
	int			max_count = PG_ARGISNULL(arg) ? INT_MAX : PG_GETARG_INT32(arg);

	if (max_count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be at least %d", "max_count", 0),
				 errdetail("It is %d.", max_count)));
	return max_count;
}

/*
 * A slot argument.
 */
static int
read_slot(FunctionCallInfo fcinfo, int arg, int otherwise)
{
	return PG_ARGISNULL(arg) ? otherwise : PG_GETARG_INT32(arg);
}

/*
 * Open the store with its index on position.
 */
static void
read_open(EventLog *log, FunctionCallInfo fcinfo)
{
	alvyn_log_open_read(log, fcinfo->flinfo->fn_oid);
	log->events_by_position = index_open(log->catalog->events_pkey,
										 AccessShareLock);
}

/*
 * Close what read_open() opened.
 */
static void
read_close(EventLog *log)
{
	index_close(log->events_by_position, NoLock);
	alvyn_log_close_read(log);
}

/*
 * How far a filter wants nothing.
 */
static int64
read_bound(EventLog *log, const FeedFilter *filter, int64 after, bool wait)
{
	Feed		feed;
	EventRow	row;
	int64		bound;

	alvyn_feed_begin(&feed, log, filter, after, wait);
	if (alvyn_feed_next(&feed, &row))
		bound = row.position - 1;
	else
		bound = alvyn_feed_bound(&feed);
	alvyn_feed_end(&feed);
	return bound;
}

/*
 * Return the events up to "last" that a filter wants, backwards.  As in the
 * feed, events of other streams are passed by their index entries.
 */
static void
read_down(EventLog *log, const FeedFilter *filter, int64 last, int max_count,
		  ReturnSetInfo *result)
{
	Feed		feed = {.log = log,.filter = filter};
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = log->events.slot;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "alvyn read backwards",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	IndexScanDesc scan;
	ScanKeyData key;
	int			count = 0;

	ScanKeyInit(&key, 1, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(last));
	scan = alvyn_index_beginscan(log->events.rel, log->events_by_position,
								 snapshot, 1);
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);
	while (count < max_count &&
		   index_getnext_tid(scan, BackwardScanDirection) != NULL)
	{
		bool		isnull;
		Datum		stream_no = index_getattr(scan->xs_itup, 2,
											  scan->xs_itupdesc, &isnull);
		EventRow	row;
		Datum		values[EVENT_NATTS];
		bool		nulls[EVENT_NATTS];

		CHECK_FOR_INTERRUPTS();
		if (!alvyn_feed_wants_stream(&feed, DatumGetInt64(stream_no)) ||
			!index_fetch_heap(scan, slot))
			continue;
		alvyn_event_read(slot, &row);
		MemoryContextReset(context);
		old = MemoryContextSwitchTo(context);
		if (alvyn_feed_wants_row(&feed, &row))
		{
			alvyn_event_values(&row, feed.stream_id, values, nulls);
			tuplestore_putvalues(result->setResult, result->setDesc, values,
								 nulls);
			count++;
		}
		MemoryContextSwitchTo(old);
	}
	ExecClearTuple(slot);
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(context);
}
