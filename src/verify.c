/*-------------------------------------------------------------------------
 *
 * verify.c
 *		Recomputing from the events that nothing is missing or out of order.
 *
 * The index on (stream_no, version) is walked in its order, the rows behind
 * it are visited, and each stream must show the versions that follow its
 * floor, one by one, with positions that rise.  The registry is walked beside
 * it in the order of its primary key: it must know every stream that has
 * events, under the right slot, and a stream that it knows must have events
 * unless they were all removed up to its floor.  Nothing is taken from the
 * registry but what is compared.
 *
 * A whole store is cut into slices of stream numbers, so that the planner can
 * give slices to parallel workers: alvyn.verify() adds up what
 * alvyn.verify_slice() returns.  With a prefix the streams come from the
 * index on stream_id instead, and a slice is a residue of the stream number.
 *
 * When snapshots are to be folded again, there is one walk and no worker: it
 * calls functions of users, which a worker may not.
 *
 * Locking
 *		AccessShare on the tables; everything is read with the snapshot of
 *		the calling statement.
 *
 * IDENTIFICATION
 *		src/verify.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "compat.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "refold.h"
#include "scan.h"
#include "stream.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

/* Columns of alvyn.verification. */
enum
{
	VERIFICATION_STREAMS,
	VERIFICATION_SOURCE_EVENTS,
	VERIFICATION_STORED_EVENTS,
	VERIFICATION_SNAPSHOT_EVENTS,
	VERIFICATION_FIRST_POSITION,
	VERIFICATION_LAST_POSITION,
	VERIFICATION_BROKEN_STREAMS,
	VERIFICATION_OK,
	VERIFICATION_NATTS
};

/* Columns of alvyn.problem. */
enum
{
	PROBLEM_STREAM_NO,
	PROBLEM_STREAM_ID,
	PROBLEM_PROBLEM,
	PROBLEM_VERSION,
	PROBLEM_POSITION,
	PROBLEM_DETAIL,
	PROBLEM_NATTS
};

/* A walk over streams, and what it has found. */
typedef struct VerifyWalk
{
	EventLog	log;
	Snapshot	snapshot;
	EventScan	events;

	/* The registry, when it is walked beside the events. */
	Relation	registry_index;
	IndexScanDesc registry;
	bool		registry_done;

	/* The stream of the last event. */
	bool		in_stream;
	bool		broken;
	bool		has_snapshots;
	int64		stream_no;
	text	   *stream_id;		/* NULL when it is not registered */
	int16		slot;
	int64		last_version;
	int64		last_position;

	/* Sums. */
	int64		streams;
	int64		broken_streams;
	int64		stored_events;
	int64		snapshot_events;
	int64		first_position;
	int64		max_position;

	bool		check_snapshots;
	ReturnSetInfo *problems;	/* where problems go, or NULL */
} VerifyWalk;

PG_FUNCTION_INFO_V1(alvyn_verify_slice);
PG_FUNCTION_INFO_V1(alvyn_verify_refold);
PG_FUNCTION_INFO_V1(alvyn_verify_streams);

static void verify_begin(VerifyWalk *walk, FunctionCallInfo fcinfo);
static void verify_end(VerifyWalk *walk);
static void verify_store(VerifyWalk *walk, int slice, int slices);
static void verify_prefix(VerifyWalk *walk, text *prefix, int slice,
						  int slices);
static void verify_events(VerifyWalk *walk, int64 first, int64 last);
static void verify_event(VerifyWalk *walk, const EventFacts *event);
static void verify_enter_stream(VerifyWalk *walk, int64 stream_no);
static void verify_leave_stream(VerifyWalk *walk);
static void verify_snapshots(VerifyWalk *walk);
static void verify_no_events(VerifyWalk *walk);
static bool verify_seek_registry(VerifyWalk *walk, int64 stream_no);
static void verify_register(VerifyWalk *walk, TupleTableSlot *slot);
static void verify_problem(VerifyWalk *walk, const char *problem,
						   const EventFacts *event, const char *detail);
static Datum verify_result(VerifyWalk *walk, FunctionCallInfo fcinfo);

/*
 * alvyn.verify_slice(prefix text, slice int, slices int) returns verification
 *
 * Verify one of "slices" parts of the store, or of the streams with a prefix.
 */
Datum
alvyn_verify_slice(PG_FUNCTION_ARGS)
{
	VerifyWalk	walk;
	int			slice = PG_GETARG_INT32(1);
	int			slices = PG_GETARG_INT32(2);

	if (PG_ARGISNULL(1) || PG_ARGISNULL(2) || slice < 0 || slice >= slices)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"slice\" is out of range"),
				 errdetail("It must be at least 0 and less than \"slices\".")));

	verify_begin(&walk, fcinfo);
	if (PG_ARGISNULL(0))
		verify_store(&walk, slice, slices);
	else
		verify_prefix(&walk, PG_GETARG_TEXT_PP(0), slice, slices);
	verify_end(&walk);
	return verify_result(&walk, fcinfo);
}

/*
 * alvyn.verify_refold(prefix text) returns verification
 *
 * Verify the store, or the streams with a prefix, and fold all snapshots
 * again.
 */
Datum
alvyn_verify_refold(PG_FUNCTION_ARGS)
{
	VerifyWalk	walk;

	verify_begin(&walk, fcinfo);
	walk.check_snapshots = true;
	if (PG_ARGISNULL(0))
		verify_store(&walk, 0, 1);
	else
		verify_prefix(&walk, PG_GETARG_TEXT_PP(0), 0, 1);
	verify_end(&walk);
	return verify_result(&walk, fcinfo);
}

/*
 * alvyn.verify_streams(prefix text, check_snapshots boolean) returns setof
 * problem
 *
 * The faults of the store, or of the streams with a prefix, a row each.
 */
Datum
alvyn_verify_streams(PG_FUNCTION_ARGS)
{
	VerifyWalk	walk;

	alvyn_materialize(fcinfo);
	verify_begin(&walk, fcinfo);
	walk.problems = (ReturnSetInfo *) fcinfo->resultinfo;
	walk.check_snapshots = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	if (PG_ARGISNULL(0))
		verify_store(&walk, 0, 1);
	else
		verify_prefix(&walk, PG_GETARG_TEXT_PP(0), 0, 1);
	verify_end(&walk);
	PG_RETURN_NULL();
}

/*
 * Open the store for a walk.
 */
static void
verify_begin(VerifyWalk *walk, FunctionCallInfo fcinfo)
{
	memset(walk, 0, sizeof(*walk));
	walk->first_position = PG_INT64_MAX;
	walk->stream_no = PG_INT64_MIN;
	walk->snapshot = GetActiveSnapshot();
	alvyn_log_open_read(&walk->log, fcinfo->flinfo->fn_oid);
	alvyn_scan_begin(&walk->events, &walk->log, walk->snapshot);
}

/*
 * Close what verify_begin() opened.
 */
static void
verify_end(VerifyWalk *walk)
{
	alvyn_scan_end(&walk->events);
	alvyn_log_close_read(&walk->log);
}

/*
 * Walk a slice of the stream numbers.  The outer slices reach to the ends of
 * what a stream number can be.
 */
static void
verify_store(VerifyWalk *walk, int slice, int slices)
{
	int64		first = 0;
	int64		last = 0;
	int64		width;

	alvyn_scan_edge(&walk->events, ForwardScanDirection, &first);
	alvyn_scan_edge(&walk->events, BackwardScanDirection, &last);
	width = (last - first) / slices + 1;

	walk->registry_index = index_open(walk->log.catalog->streams_pkey,
									  AccessShareLock);
	walk->registry = alvyn_index_beginscan(walk->log.streams,
										   walk->registry_index,
										   walk->snapshot, 1);
	verify_events(walk,
				  slice == 0 ? PG_INT64_MIN : first + slice * width,
				  slice == slices - 1 ? PG_INT64_MAX :
				  first + (slice + 1) * width - 1);
	index_endscan(walk->registry);
	index_close(walk->registry_index, NoLock);
}

/*
 * Walk the registered streams whose ids begin with a prefix.
 */
static void
verify_prefix(VerifyWalk *walk, text *prefix, int slice, int slices)
{
	IndexScanDesc scan;
	ScanKeyData key;
	StreamRow	row;
	TupleTableSlot *slot = walk->log.stream_slot;
	int			length = VARSIZE_ANY_EXHDR(prefix);
	int64		streams;
	bool		isnull;

	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_TEXT_GE,
				PointerGetDatum(prefix));
	key.sk_collation = C_COLLATION_OID;
	scan = alvyn_index_beginscan(walk->log.streams,
								 alvyn_log_streams_by_id(&walk->log),
								 walk->snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		text	   *id = DatumGetTextPP(slot_getattr(slot, STREAMS_STREAM_ID,
													 &isnull));

		if (VARSIZE_ANY_EXHDR(id) < length ||
			memcmp(VARDATA_ANY(id), VARDATA_ANY(prefix), length) != 0)
			break;
		alvyn_stream_read(slot, &row);
		if (row.stream_no % slices != slice)
			continue;
		verify_register(walk, slot);
		streams = walk->streams;
		verify_events(walk, row.stream_no, row.stream_no);
		if (walk->streams == streams)
			verify_no_events(walk);
	}
	ExecClearTuple(slot);
	index_endscan(scan);
}

/*
 * Walk the events of a range of stream numbers.
 */
static void
verify_events(VerifyWalk *walk, int64 first, int64 last)
{
	EventFacts	facts;

	alvyn_scan_streams(&walk->events, first, last);
	if (walk->registry)
	{
		ScanKeyData key;

		ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_INT8GE,
					Int64GetDatum(first));
		index_rescan(walk->registry, &key, 1, NULL, 0);
	}
	while (alvyn_scan_next(&walk->events, &facts))
	{
		verify_event(walk, &facts);
		CHECK_FOR_INTERRUPTS();
	}
	verify_leave_stream(walk);
	if (walk->registry)
		verify_seek_registry(walk, last == PG_INT64_MAX ? last : last + 1);
}

/*
 * Check one event against the one before it.
 */
static void
verify_event(VerifyWalk *walk, const EventFacts *event)
{
	if (!walk->in_stream || event->stream_no != walk->stream_no)
		verify_enter_stream(walk, event->stream_no);

	if (event->version > walk->last_version + 1)
		verify_problem(walk, "missing versions", event,
					   psprintf("%lld versions are missing before this one.",
								(long long) (event->version -
											 walk->last_version - 1)));
	else if (event->version <= walk->last_version)
		verify_problem(walk, "repeated version", event,
					   "This version was there before.");
	if (event->position <= walk->last_position)
		verify_problem(walk, "position order", event,
					   psprintf("The version before it has position %lld.",
								(long long) walk->last_position));
	if (walk->stream_id && event->slot != walk->slot)
		verify_problem(walk, "wrong slot", event,
					   "The event is not in the slot of its stream.");

	walk->last_version = event->version;
	walk->last_position = event->position;
	walk->stored_events++;
	walk->snapshot_events += event->snapshot;
	walk->has_snapshots |= event->snapshot;
	walk->first_position = Min(walk->first_position, event->position);
	walk->max_position = Max(walk->max_position, event->position);
}

/*
 * Begin with the events of another stream.
 */
static void
verify_enter_stream(VerifyWalk *walk, int64 stream_no)
{
	bool		registered;

	verify_leave_stream(walk);
	registered = walk->registry && verify_seek_registry(walk, stream_no);
	walk->in_stream = true;
	walk->streams++;
	walk->stream_no = stream_no;
	walk->last_position = 0;
	if (walk->registry == NULL)
		return;

	if (registered)
		verify_register(walk, walk->log.stream_slot);
	else
	{
		walk->stream_id = NULL;
		walk->last_version = 0;
		verify_problem(walk, "unregistered stream", NULL,
					   "The stream has events but no row in the registry.");
	}
}

/*
 * Done with the events of a stream.
 */
static void
verify_leave_stream(VerifyWalk *walk)
{
	if (!walk->in_stream)
		return;
	if (walk->check_snapshots && walk->has_snapshots && walk->stream_id)
		verify_snapshots(walk);
	walk->has_snapshots = false;
	if (walk->broken)
		walk->broken_streams++;
	walk->in_stream = false;
	walk->broken = false;
}

/*
 * Fold the stream again and compare its snapshots.
 */
static void
verify_snapshots(VerifyWalk *walk)
{
	const Definitions *all = alvyn_definitions(walk->log.function);
	int			i;

	for (i = 0; i < all->nsnapshots; i++)
	{
		const SnapshotDefinition *def = &all->snapshots[i];
		EventFacts	where;

		if (alvyn_definition_covers(def->prefix, walk->stream_id) &&
			!alvyn_refold_agrees(&walk->log, def, walk->stream_id,
								 walk->stream_no, walk->snapshot, &where))
			verify_problem(walk, "wrong snapshot", &where,
						   psprintf("Snapshot \"%s\" is not the state of the events before it.",
									def->name));
	}
}

/*
 * Done with a registered stream that turned out to have no events.
 */
static void
verify_no_events(VerifyWalk *walk)
{
	if (walk->last_version == 0)
		verify_problem(walk, "no events", NULL,
					   "The stream is registered, and nothing says that its events were removed.");
	if (walk->broken)
		walk->broken_streams++;
	walk->broken = false;
}

/*
 * Walk the registry forward to the row of a stream.  Rows that are passed
 * belong to streams without events, but for that of the stream before.
 * Returns whether the stream has a row.
 */
static bool
verify_seek_registry(VerifyWalk *walk, int64 stream_no)
{
	TupleTableSlot *slot = walk->log.stream_slot;
	bool		isnull;
	int64		at;

	while (!walk->registry_done)
	{
		if (!TTS_EMPTY(slot))
		{
			at = DatumGetInt64(slot_getattr(slot, STREAMS_STREAM_NO, &isnull));
			if (at >= stream_no)
				return at == stream_no;
			if (at != walk->stream_no)
			{
				verify_register(walk, slot);
				verify_no_events(walk);
			}
		}
		if (!index_getnext_slot(walk->registry, ForwardScanDirection, slot))
			walk->registry_done = true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * Take over what the registry says of the stream that comes now.
 */
static void
verify_register(VerifyWalk *walk, TupleTableSlot *slot)
{
	StreamRow	row;
	text	   *id;
	bool		isnull;

	alvyn_stream_read(slot, &row);
	id = DatumGetTextPP(slot_getattr(slot, STREAMS_STREAM_ID, &isnull));
	walk->broken = false;
	walk->stream_no = row.stream_no;
	walk->stream_id = id;
	walk->slot = row.slot;
	walk->last_version = row.version_floor;
	if (row.slot != alvyn_stream_hash(VARDATA_ANY(id), VARSIZE_ANY_EXHDR(id)))
		verify_problem(walk, "wrong slot", NULL,
					   "The registry has another slot than the id.");
}

/*
 * Note a fault of the current stream, at an event or at none.
 */
static void
verify_problem(VerifyWalk *walk, const char *problem,
			   const EventFacts *event, const char *detail)
{
	Datum		values[PROBLEM_NATTS];
	bool		nulls[PROBLEM_NATTS] = {false};

	walk->broken = true;
	if (walk->problems == NULL)
		return;

	values[PROBLEM_STREAM_NO] = Int64GetDatum(walk->stream_no);
	values[PROBLEM_STREAM_ID] = PointerGetDatum(walk->stream_id);
	nulls[PROBLEM_STREAM_ID] = walk->stream_id == NULL;
	values[PROBLEM_PROBLEM] = CStringGetTextDatum(problem);
	nulls[PROBLEM_VERSION] = event == NULL;
	nulls[PROBLEM_POSITION] = event == NULL;
	if (event)
	{
		values[PROBLEM_VERSION] = Int64GetDatum(event->version);
		values[PROBLEM_POSITION] = Int64GetDatum(event->position);
	}
	values[PROBLEM_DETAIL] = CStringGetTextDatum(detail);
	tuplestore_putvalues(walk->problems->setResult, walk->problems->setDesc,
						 values, nulls);
}

/*
 * The sums of a walk as a value of alvyn.verification.
 */
static Datum
verify_result(VerifyWalk *walk, FunctionCallInfo fcinfo)
{
	TupleDesc	desc;
	Datum		values[VERIFICATION_NATTS];
	bool		nulls[VERIFICATION_NATTS] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	BlessTupleDesc(desc);

	values[VERIFICATION_STREAMS] = Int64GetDatum(walk->streams);
	values[VERIFICATION_SOURCE_EVENTS] =
		Int64GetDatum(walk->stored_events - walk->snapshot_events);
	values[VERIFICATION_STORED_EVENTS] = Int64GetDatum(walk->stored_events);
	values[VERIFICATION_SNAPSHOT_EVENTS] = Int64GetDatum(walk->snapshot_events);
	values[VERIFICATION_FIRST_POSITION] = Int64GetDatum(walk->first_position);
	nulls[VERIFICATION_FIRST_POSITION] = walk->stored_events == 0;
	values[VERIFICATION_LAST_POSITION] = Int64GetDatum(walk->max_position);
	nulls[VERIFICATION_LAST_POSITION] = walk->stored_events == 0;
	values[VERIFICATION_BROKEN_STREAMS] = Int64GetDatum(walk->broken_streams);
	values[VERIFICATION_OK] = BoolGetDatum(walk->broken_streams == 0);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}
