/*-------------------------------------------------------------------------
 *
 * feed.c
 *		Reading all events in the order of their positions, completely.
 *
 * Positions come from a sequence before their transactions commit, so they
 * become visible out of order, and some never do.  A reader that remembers
 * the last position it saw must not pass one that is still to come.  The
 * simple version, reading up to the oldest transaction id that is running,
 * loses events of transactions that got their id before they took a position,
 * and stalls behind transactions that never append.
 *
 * What is known instead: nextval locks its sequence before it hands out a
 * number, and the lock is held to the end of the transaction.  So, in this
 * order,
 *
 *	1. high = the last position handed out;
 *	2. pending = the transactions that hold the lock of the sequence.
 *
 * Every position up to "high" then belongs to a pending transaction, or to
 * one that has ended.  The index on position is read with a dirty snapshot
 * from the cursor to "high":
 *
 *	- A row of a transaction in progress: stop before it.
 *	- A position that is missing: nothing if no transaction was pending, or if
 *	  this backend has proven before that the position is final.  Otherwise
 *	  its row may still be on its way: wait for exactly the pending
 *	  transactions, after which everything up to "high" is final, and go on
 *	  from the missing position.  A reader that does not want to wait stops
 *	  there.
 *	- Anything else is final.
 *
 * Holes come from rollbacks and crashes only, so waiting is rare, and nobody
 * waits for a transaction that does not append.
 *
 * Filters
 *		The index on position carries the number of the stream.  Events of
 *		streams that the filter leaves out are passed by their index entries
 *		alone; rows are read of streams that it lets in.  What a number means
 *		is remembered by each backend, since streams never change their id.
 *
 * IDENTIFICATION
 *		src/feed.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/itup.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "commands/sequence.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "feed.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "stream.h"
#include "streamname.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

/* Columns of the index on position. */
#define INDEX_POSITION		1
#define INDEX_STREAM_NO		2

/* Every position up to here is final, as this backend has proven. */
static int64 resolved = 0;
static Oid	resolved_sequence = InvalidOid;

static void feed_start_scan(Feed *feed);
static bool feed_pass_hole(Feed *feed, int64 position);
static bool feed_wants_stream(Feed *feed, int64 stream_no);
static bool feed_read_row(Feed *feed, int64 position, EventRow *row);
static bool feed_wants_row(Feed *feed, const EventRow *row);
static bool feed_wants_key(Feed *feed, const EventRow *row);
static bool feed_starts_with(const text *id, const text *prefix);
static bool feed_is_category(const text *id, const text *category);
static VirtualTransactionId *feed_pending(Oid sequence);
static int64 feed_last_position(Oid sequence);

/*
 * Begin reading behind the position "after".
 */
void
alvyn_feed_begin(Feed *feed, EventLog *log, const FeedFilter *filter,
				 int64 after, bool wait)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot read the feed during recovery"),
				 errdetail("A standby does not know which positions are still to come."),
				 errhint("Read the feed on the primary; streams can be loaded here.")));

	memset(feed, 0, sizeof(*feed));
	feed->log = log;
	feed->filter = filter;
	feed->wait = wait;
	feed->expected = after + 1;
	InitDirtySnapshot(feed->dirty);
	feed_start_scan(feed);
}

/*
 * Read the next event that the filter wants.  Returns false when there is
 * none up to the bound.
 */
bool
alvyn_feed_next(Feed *feed, EventRow *row)
{
	while (!feed->stopped && feed->scan &&
		   index_getnext_tid(feed->scan, ForwardScanDirection) != NULL)
	{
		bool		isnull;
		int64		position =
		DatumGetInt64(index_getattr(feed->scan->xs_itup, INDEX_POSITION,
									feed->scan->xs_itupdesc, &isnull));
		int64		stream_no =
		DatumGetInt64(index_getattr(feed->scan->xs_itup, INDEX_STREAM_NO,
									feed->scan->xs_itupdesc, &isnull));

		CHECK_FOR_INTERRUPTS();
		if (position > feed->expected && !feed_pass_hole(feed, position))
			continue;
		if (!feed_wants_stream(feed, stream_no))
			feed->expected = position + 1;
		else if (feed_read_row(feed, position, row))
			return true;
	}
	return false;
}

/*
 * How far the reader has come: everything up to here was delivered, filtered
 * out, or will never exist.
 */
int64
alvyn_feed_bound(Feed *feed)
{
	if (!feed->stopped && alvyn_feed_is_resolved(feed))
		return Max(feed->high, feed->expected - 1);
	return feed->expected - 1;
}

/*
 * Was everything that had been handed out at the start final already?
 */
bool
alvyn_feed_is_resolved(const Feed *feed)
{
	return feed->high <= resolved;
}

/*
 * The higher of a position that is known to be final and what this backend
 * has proven.
 */
int64
alvyn_feed_resolved(int64 position)
{
	return Max(position, resolved);
}

/*
 * Done with reading.
 */
void
alvyn_feed_end(Feed *feed)
{
	ExecClearTuple(feed->log->events.slot);
	if (feed->scan)
		index_endscan(feed->scan);
	feed->scan = NULL;
}

/*
 * Learn what is pending, and start to read from the expected position.
 */
static void
feed_start_scan(Feed *feed)
{
	Oid			sequence = feed->log->catalog->events_position_seq;
	ScanKeyData keys[2];

	if (feed->scan)
		index_endscan(feed->scan);
	feed->scan = NULL;

	feed->high = feed_last_position(sequence);
	feed->pending = feed_pending(sequence);
	if (sequence != resolved_sequence || resolved > feed->high)
		resolved = 0;
	resolved_sequence = sequence;
	if (!VirtualTransactionIdIsValid(feed->pending[0]))
		resolved = feed->high;
	if (feed->expected > feed->high)
		return;

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(feed->expected));
	ScanKeyInit(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(feed->high));
	feed->scan = alvyn_index_beginscan(feed->log->events.rel,
									   feed->log->events_by_position,
									   &feed->dirty, 2);
	feed->scan->xs_want_itup = true;
	index_rescan(feed->scan, keys, 2, NULL, 0);
}

/*
 * Pass the missing positions before "position".  Returns false when the scan
 * was stopped, or started again after waiting for them.
 */
static bool
feed_pass_hole(Feed *feed, int64 position)
{
	VirtualTransactionId *pending;

	if (position - 1 <= resolved)
	{
		feed->expected = position;
		return true;
	}
	if (!feed->wait)
	{
		feed->expected = Max(feed->expected, Min(resolved + 1, position));
		feed->stopped = true;
		return false;
	}
	for (pending = feed->pending; VirtualTransactionIdIsValid(*pending);
		 pending++)
		VirtualXactLock(*pending, true);
	resolved = Max(resolved, feed->high);
	feed_start_scan(feed);
	return false;
}

/*
 * Does the filter let a stream in?
 */
static bool
feed_wants_stream(Feed *feed, int64 stream_no)
{
	const FeedFilter *filter = feed->filter;
	const StreamName *name = alvyn_stream_name(feed->log, stream_no);

	feed->stream_id = name->id;
	if (name->id == NULL)
		return true;
	if (filter->key == NULL &&
		(name->slot < filter->first_slot || name->slot > filter->last_slot))
		return false;
	if (filter->prefix && !feed_starts_with(name->id, filter->prefix))
		return false;
	return filter->category == NULL ||
		feed_is_category(name->id, filter->category);
}

/*
 * Does a stream id begin with a prefix?
 */
static bool
feed_starts_with(const text *id, const text *prefix)
{
	return VARSIZE_ANY_EXHDR(id) >= VARSIZE_ANY_EXHDR(prefix) &&
		memcmp(VARDATA_ANY(id), VARDATA_ANY(prefix),
			   VARSIZE_ANY_EXHDR(prefix)) == 0;
}

/*
 * Is a stream id of a category, which is what stands before the first "-"?
 */
static bool
feed_is_category(const text *id, const text *category)
{
	Size		length = VARSIZE_ANY_EXHDR(category);

	return feed_starts_with(id, category) &&
		(VARSIZE_ANY_EXHDR(id) == length || VARDATA_ANY(id)[length] == '-');
}

/*
 * Read the row behind the current index entry.  Returns whether it is an
 * event that the filter wants; stops the scan at one in progress.
 */
static bool
feed_read_row(Feed *feed, int64 position, EventRow *row)
{
	TupleTableSlot *slot = feed->log->events.slot;
	bool		found = index_fetch_heap(feed->scan, slot);

	if (found && TransactionIdIsValid(feed->dirty.xmin))
	{
		/* A newer version of a row that was already read can be skipped. */
		if (position < feed->expected)
			return false;
		feed->expected = position;
		feed->stopped = true;
		return false;
	}
	feed->expected = Max(feed->expected, position + 1);
	if (!found)
		return false;
	alvyn_event_read(slot, row);
	return feed_wants_row(feed, row);
}

/*
 * Does the filter want an event of a stream that it lets in?
 */
static bool
feed_wants_row(Feed *feed, const EventRow *row)
{
	const FeedFilter *filter = feed->filter;
	text	   *type = DatumGetTextPP(row->type);
	int			i;

	if (row->snapshot && !filter->snapshots)
		return false;
	if (filter->key && !feed_wants_key(feed, row))
		return false;
	for (i = 0; i < filter->ntypes; i++)
	{
		if (VARSIZE_ANY_EXHDR(filter->types[i]) == VARSIZE_ANY_EXHDR(type) &&
			memcmp(VARDATA_ANY(filter->types[i]), VARDATA_ANY(type),
				   VARSIZE_ANY_EXHDR(type)) == 0)
			return true;
	}
	return filter->ntypes == 0;
}

/*
 * Does the value at the key path of the payload belong to the wanted slots?
 * A payload without it counts as the empty text.
 */
static bool
feed_wants_key(Feed *feed, const EventRow *row)
{
	LOCAL_FCINFO(extract, 2);
	const FeedFilter *filter = feed->filter;
	Datum		value;
	int			slot = alvyn_stream_hash("", 0);

	InitFunctionCallInfoData(*extract, NULL, 2, InvalidOid, NULL, NULL);
	extract->args[0].value = row->data;
	extract->args[0].isnull = false;
	extract->args[1].value = PointerGetDatum(filter->key);
	extract->args[1].isnull = false;
	value = jsonb_extract_path_text(extract);
	if (!extract->isnull)
	{
		text	   *key = DatumGetTextPP(value);

		slot = alvyn_stream_hash(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
		pfree(key);
	}
	return slot >= filter->first_slot && slot <= filter->last_slot;
}

/*
 * The last position that was handed out in the store "function" belongs to.
 */
int64
alvyn_feed_last_position(Oid function)
{
	return feed_last_position(alvyn_log_catalog(function)->events_position_seq);
}

/*
 * The other transactions that hold the lock of the sequence, an invalid one
 * behind the last.
 */
static VirtualTransactionId *
feed_pending(Oid sequence)
{
	LOCKTAG		tag;
	int			count;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, sequence);
	return GetLockConflicts(&tag, ShareLock, &count);
}

/*
 * The last position that was handed out.
 */
static int64
feed_last_position(Oid sequence)
{
	Relation	rel = relation_open(sequence, AccessShareLock);
	Buffer		buffer = ReadBuffer(rel, 0);
	Page		page;
	Form_pg_sequence_data data;
	int64		result;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	data = (Form_pg_sequence_data)
		PageGetItem(page, PageGetItemId(page, FirstOffsetNumber));
	data = (Form_pg_sequence_data)
		((char *) data + ((HeapTupleHeader) data)->t_hoff);
	result = data->is_called ? data->last_value : data->last_value - 1;
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	return result;
}
