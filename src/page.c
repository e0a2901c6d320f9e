/*-------------------------------------------------------------------------
 *
 * page.c
 *		Reading a set of streams together, page by page.
 *
 * The events of the streams are merged in the order of their positions.  Each
 * stream is read through the index on (stream_no, version), where positions
 * rise with the versions; a heap holds the next event of each.  So a page
 * reads its own events, one more of each stream, and nothing of others.
 *
 * There is no index on (stream_no, position).  The version at which a page
 * begins is found by halving the range of versions, a descent of the index
 * each; a stream that has nothing new costs one.
 *
 * A page ends at the bound of the feed, and is read with a snapshot that was
 * taken after it.  So no event can appear before one that was returned, at any
 * isolation level.
 *
 * IDENTIFICATION
 *		src/page.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "feed.h"
#include "funcapi.h"
#include "lib/binaryheap.h"
#include "miscadmin.h"
#include "replay.h"
#include "request.h"
#include "stream.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

/* Streams that are read together; each keeps a page of the table pinned. */
#define PAGE_MAX_STREAMS	1000

/* One of the streams, with its next event. */
typedef struct PageStream
{
	text	   *id;
	Replay		replay;
	EventRow	row;
} PageStream;

typedef struct PageReader
{
	EventLog	log;
	Snapshot	snapshot;
	int64		bound;			/* of the feed */
	bool		descending;
	binaryheap *heap;			/* of streams that have more */
	int			nseen;
	int64	   *seen;			/* numbers of all streams, to find doubles */
} PageReader;

PG_FUNCTION_INFO_V1(alvyn_read_streams);

static Datum *page_ids(FunctionCallInfo fcinfo, int *count);
static void page_open(PageReader *reader, FunctionCallInfo fcinfo);
static void page_close(PageReader *reader);
static void page_add_stream(PageReader *reader, text *id, int64 position);
static bool page_is_new(PageReader *reader, int64 stream_no);
static bool page_advance(PageReader *reader, PageStream *stream);
static int64 page_first_behind(PageReader *reader, int64 stream_no,
							   int64 position);
static bool page_look(PageReader *reader, int64 stream_no, int64 version,
					  ScanDirection direction, EventRow *row);
static int	page_compare_up(Datum a, Datum b, void *arg);
static int	page_compare_down(Datum a, Datum b, void *arg);

/*
 * alvyn.read_streams(stream_ids text[], max_count int, position bigint,
 * descending boolean) returns setof event
 *
 * The events of some streams behind a position, or before it, in the order of
 * their positions; from the beginning or the end when it is null.
 */
Datum
alvyn_read_streams(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			count;
	Datum	   *ids = page_ids(fcinfo, &count);
	int			max_count = PG_ARGISNULL(1) ? INT_MAX : PG_GETARG_INT32(1);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "alvyn page",
												  ALLOCSET_SMALL_SIZES);
	PageReader	reader;
	int64		position;
	int			i;

	if (max_count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be at least %d", "max_count", 0),
				 errdetail("It is %d.", max_count)));
	alvyn_materialize(fcinfo);
	page_open(&reader, fcinfo);
	reader.heap = binaryheap_allocate(Max(count, 1), reader.descending ?
									  page_compare_down : page_compare_up,
									  NULL);
	reader.nseen = 0;
	reader.seen = palloc(sizeof(int64) * Max(count, 1));
	position = reader.descending ? reader.bound + 1 : 0;
	if (!PG_ARGISNULL(2))
		position = reader.descending ? Min(position, PG_GETARG_INT64(2)) :
			PG_GETARG_INT64(2);
	for (i = 0; i < count; i++)
		page_add_stream(&reader, DatumGetTextPP(ids[i]), position);

	for (i = 0; i < max_count && !binaryheap_empty(reader.heap); i++)
	{
		PageStream *next = (PageStream *)
		DatumGetPointer(binaryheap_first(reader.heap));
		MemoryContext old = MemoryContextSwitchTo(context);
		Datum		values[EVENT_NATTS];
		bool		nulls[EVENT_NATTS];

		alvyn_event_values(&next->row, next->id, values, nulls);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
		if (page_advance(&reader, next))
			binaryheap_replace_first(reader.heap, PointerGetDatum(next));
		else
			(void) binaryheap_remove_first(reader.heap);
	}
	page_close(&reader);
	MemoryContextDelete(context);
	PG_RETURN_NULL();
}

/*
 * The ids of the streams, checked.
 */
static Datum *
page_ids(FunctionCallInfo fcinfo, int *count)
{
	Datum	   *ids;
	bool	   *nulls;
	int			i;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be null", "stream_ids")));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false,
					  TYPALIGN_INT, &ids, &nulls, count);
	if (*count > PAGE_MAX_STREAMS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("argument \"%s\" has too many elements", "stream_ids"),
				 errdetail("It has %d, the limit is %d.", *count,
						   PAGE_MAX_STREAMS)));
	for (i = 0; i < *count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"stream_ids[%d]\" must not be null",
							i + 1)));
	}
	return ids;
}

/*
 * Open the store, and learn how far it can be read.
 */
static void
page_open(PageReader *reader, FunctionCallInfo fcinfo)
{
	EventLog   *log = &reader->log;
	int64		final = 0;

	reader->descending = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);
	if (!PG_ARGISNULL(2) && !reader->descending)
		final = PG_GETARG_INT64(2);
	alvyn_log_open_read(log, fcinfo->flinfo->fn_oid);
	log->events_by_position = index_open(log->catalog->events_pkey,
										 AccessShareLock);
	reader->bound = alvyn_feed_resolve(log, final, true);
	reader->snapshot = RegisterSnapshot(GetLatestSnapshot());
}

/*
 * Close it, and the scans of the streams that were not read to their ends.
 */
static void
page_close(PageReader *reader)
{
	while (!binaryheap_empty(reader->heap))
	{
		PageStream *stream = (PageStream *)
		DatumGetPointer(binaryheap_remove_first(reader->heap));

		alvyn_replay_end(&stream->replay);
		ExecDropSingleTupleTableSlot(stream->replay.slot);
	}
	UnregisterSnapshot(reader->snapshot);
	index_close(reader->log.events_by_position, NoLock);
	alvyn_log_close_read(&reader->log);
}

/*
 * Begin to read a stream behind a position, or before it.
 */
static void
page_add_stream(PageReader *reader, text *id, int64 position)
{
	PageStream *stream;
	StreamRow	row;
	int64		first = 1;
	int64		last = PG_INT64_MAX;

	if (!alvyn_stream_find(&reader->log, id, reader->snapshot, &row) ||
		!page_is_new(reader, row.stream_no))
		return;
	if (reader->descending)
		last = page_first_behind(reader, row.stream_no, position - 1) - 1;
	else if (position > 0)
		first = page_first_behind(reader, row.stream_no, position);

	stream = palloc(sizeof(PageStream));
	stream->id = id;
	alvyn_replay_begin(&stream->replay, &reader->log, row.stream_no, first,
					   last, reader->descending ? BackwardScanDirection :
					   ForwardScanDirection, reader->snapshot);
	stream->replay.slot = table_slot_create(reader->log.events.rel, NULL);
	if (page_advance(reader, stream))
		binaryheap_add(reader->heap, PointerGetDatum(stream));
}

/*
 * Note the number of a stream.  Returns false when it is there already.
 */
static bool
page_is_new(PageReader *reader, int64 stream_no)
{
	int			i;

	for (i = 0; i < reader->nseen; i++)
	{
		if (reader->seen[i] == stream_no)
			return false;
	}
	reader->seen[reader->nseen++] = stream_no;
	return true;
}

/*
 * Read the next event of a stream.  Returns false, and closes the stream, when
 * there is none up to the bound.
 */
static bool
page_advance(PageReader *reader, PageStream *stream)
{
	if (alvyn_replay_next(&stream->replay, &stream->row) &&
		stream->row.position <= reader->bound)
		return true;
	alvyn_replay_end(&stream->replay);
	ExecDropSingleTupleTableSlot(stream->replay.slot);
	return false;
}

/*
 * The version from which on a stream has only positions behind "position";
 * one that no stream has when there is none.
 */
static int64
page_first_behind(PageReader *reader, int64 stream_no, int64 position)
{
	EventRow	row;
	int64		low = 1;
	int64		high;

	if (!page_look(reader, stream_no, PG_INT64_MAX, BackwardScanDirection,
				   &row) || row.position <= position)
		return PG_INT64_MAX;
	high = row.version;
	while (low < high)
	{
		int64		middle = low + (high - low) / 2;

		if (!page_look(reader, stream_no, middle, ForwardScanDirection, &row) ||
			row.position > position)
			high = middle;
		else
			low = row.version + 1;
	}
	return low;
}

/*
 * Look at the first event of a stream from a version on, up or down.
 */
static bool
page_look(PageReader *reader, int64 stream_no, int64 version,
		  ScanDirection direction, EventRow *row)
{
	bool		up = ScanDirectionIsForward(direction);
	Replay		replay;
	bool		found;

	alvyn_replay_begin(&replay, &reader->log, stream_no, up ? version : 1,
					   up ? PG_INT64_MAX : version, direction,
					   reader->snapshot);
	found = alvyn_replay_next(&replay, row);
	alvyn_replay_end(&replay);
	return found;
}

/*
 * Order of a heap whose first stream has the lowest position.
 */
static int
page_compare_up(Datum a, Datum b, void *arg)
{
	return -page_compare_down(a, b, arg);
}

/*
 * Order of a heap whose first stream has the highest position.
 */
static int
page_compare_down(Datum a, Datum b, void *arg)
{
	int64		left = ((PageStream *) DatumGetPointer(a))->row.position;
	int64		right = ((PageStream *) DatumGetPointer(b))->row.position;

	return left < right ? -1 : left > right;
}
