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
 *	  this backend has proven before that the position stays empty.  Otherwise
 *	  its row may still be on its way.  A transaction inserts its events in the
 *	  order of their positions, so those of the pending transactions that have
 *	  a row in progress behind the hole will not fill it.  Wait for the others,
 *	  and read the index again from the missing position.  A reader that does
 *	  not want to wait stops there.
 *	- Anything else is final.
 *
 * Holes come from rollbacks and crashes only, so waiting is rare.  Nobody
 * waits for a transaction that does not append, and not for one that appends
 * behind the hole, unless it has rolled its events back to a savepoint: then
 * nothing tells where it was.
 *
 * Rows that an owner updates
 *		An update gives a row a second entry in the index, in any order.  With
 *		a dirty snapshot neither version may be seen when the update commits
 *		between the reading of the entries and that of the rows, and both when
 *		it commits between the reading of the rows.  So a position is delivered
 *		once, and where a row is neither visible nor dead to everybody, an MVCC
 *		snapshot has the last word.
 *
 * Crashes
 *		The sequence is flushed before a row is delivered or a bound told.  A
 *		position that a reader has seen or passed is then not given again after
 *		a crash, also if the event was lost with synchronous_commit = off.
 *		Whoever only looks whether there is something flushes nothing: many
 *		that wait would make the server write its WAL for each look.
 *
 * Filters
 *		The index on position carries the number of the stream.  Events of
 *		streams that the filter leaves out are passed by their index entries
 *		alone; rows are read of streams that it lets in.  What a number means
 *		is remembered by each backend, since streams never change their id.
 *
 * Mutations
 *		A build with -DALVYN_MUTATE_FEED=n is wrong on purpose, and
 *		test/t/025_feed_stress.pl shows that the tests notice:
 *		1	a hole is passed without waiting
 *		2	an MVCC snapshot is used instead of a dirty one
 *		3	the pending transactions are read before the last position
 *		4	rows below the oldest running transaction id are final
 *		5	the lock of the table is used instead of that of the sequence
 *		6	the index is not read again after a hole was found to stay empty
 *		7	no second look at rows that are being updated
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
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/pg_sequence.h"
#include "commands/sequence.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "feed.h"
#include "miscadmin.h"
#include "pending.h"
#include "storage/bufmgr.h"
#include "stream.h"
#include "streamname.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Columns of the index on position. */
#define INDEX_POSITION		1
#define INDEX_STREAM_NO		2

/* After so many rows, see which pending transactions have ended. */
#define LOOK_AGAIN_ROWS		1000

#ifndef ALVYN_MUTATE_FEED
#define ALVYN_MUTATE_FEED	0
#endif
#define MUTATED(n)			(ALVYN_MUTATE_FEED == (n))

/*
 * What this backend has proven: every position up to "resolved" is final, and
 * none up to "closed" that is missing will be filled.  Both are forgotten
 * with the sequence, or when it is set back.
 */
static int64 resolved = 0;
static int64 closed = 0;
static Oid	resolved_sequence = InvalidOid;
static Oid	resolved_file = InvalidOid;

static void feed_check_sequence(Oid sequence);
static void feed_start_scan(Feed *feed);
static void feed_flush(Feed *feed);
static void feed_end_scan(Feed *feed);
static bool feed_pass_hole(Feed *feed, int64 position);
static int64 feed_exclude_passed(Feed *feed, int64 position);
static bool feed_read_row(Feed *feed, int64 position, EventRow *row);
static bool feed_read_committed(Feed *feed, int64 position);
static bool feed_is_above_watermark(Feed *feed);
static bool feed_wants_key(Feed *feed, const EventRow *row);
static bool feed_starts_with(const text *id, const text *prefix);
static bool feed_is_category(const text *id, const text *category);
static int64 feed_last_position(Oid sequence, Oid *file, XLogRecPtr *lsn);

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
	feed->expected = after < PG_INT64_MAX ? after + 1 : after;
	feed->decided = after;
	feed->context = AllocSetContextCreate(CurrentMemoryContext, "alvyn feed",
										  ALLOCSET_SMALL_SIZES);
	InitDirtySnapshot(feed->dirty);
	feed_check_sequence(log->catalog->events_position_seq);
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
		if (!alvyn_feed_wants_stream(feed, stream_no))
			feed->expected = position + 1;
		else if (feed_read_row(feed, position, row))
		{
			feed_flush(feed);
			return true;
		}
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
	feed_flush(feed);
	return alvyn_feed_reached(feed);
}

/*
 * The same, for this backend only: a crash may give the position again.
 */
int64
alvyn_feed_reached(const Feed *feed)
{
	if (!feed->stopped && feed->high <= Max(resolved, closed))
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
 * Begin behind what this backend has proven to be final.
 */
void
alvyn_feed_skip_resolved(Feed *feed)
{
	if (feed->expected > resolved)
		return;
	feed->expected = resolved + 1;
	feed->decided = resolved;
	feed_start_scan(feed);
}

/*
 * Remember that every position up to the bound of a feed is final.  It must
 * have read all events from a position on that was final.
 */
void
alvyn_feed_prove(Feed *feed)
{
	resolved = Max(resolved, alvyn_feed_reached(feed));
}

/*
 * The last position up to which the feed is final.  "after" is known to be
 * final; the search begins there unless nothing is pending.
 */
int64
alvyn_feed_resolve(EventLog *log, int64 after, bool wait)
{
	static const FeedFilter all = {.snapshots = true,.last_slot = STREAM_SLOTS - 1};
	Feed		feed;
	EventRow	row;
	int64		bound;

	alvyn_feed_begin(&feed, log, &all, after, wait);
	alvyn_feed_skip_resolved(&feed);
	while (!alvyn_feed_is_resolved(&feed) && alvyn_feed_next(&feed, &row))
		;
	bound = alvyn_feed_bound(&feed);
	if (after == 0)
		alvyn_feed_prove(&feed);
	alvyn_feed_end(&feed);
	return bound;
}

/*
 * Done with reading.
 */
void
alvyn_feed_end(Feed *feed)
{
	feed_end_scan(feed);
	MemoryContextDelete(feed->context);
}

/*
 * Refuse a sequence whose last value does not tell which positions have been
 * taken.
 */
static void
feed_check_sequence(Oid sequence)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence));
	Form_pg_sequence form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", sequence);
	form = (Form_pg_sequence) GETSTRUCT(tuple);
	if (form->seqcache != 1 || form->seqincrement < 1 || form->seqcycle)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot read the feed in the order of sequence \"%s\"",
						get_rel_name(sequence)),
				 errdetail("Positions must rise, and no session may take any in advance."),
				 errhint("Use ALTER SEQUENCE with INCREMENT 1 CACHE 1 NO CYCLE.")));
	ReleaseSysCache(tuple);
}

/*
 * Learn what is pending, and start to read from the expected position.
 */
static void
feed_start_scan(Feed *feed)
{
	Oid			sequence = feed->log->catalog->events_position_seq;
	Oid			file;
	XLogRecPtr	lsn;
	ScanKeyData keys[2];

	feed_end_scan(feed);
	if (MUTATED(3))
	{
		alvyn_pending_read(&feed->pending, sequence);
		pg_usleep(1000);
	}
	feed->high = feed_last_position(sequence, &file, &lsn);
	if (!MUTATED(3))
		alvyn_pending_read(&feed->pending, MUTATED(5) ?
						   feed->log->catalog->events : sequence);
	feed->unflushed = lsn;

	if (sequence != resolved_sequence || file != resolved_file ||
		Max(resolved, closed) > feed->high)
		resolved = closed = 0;
	resolved_sequence = sequence;
	resolved_file = file;
	if (feed->pending.count == 0)
		resolved = feed->high;
	if (feed->expected > feed->high)
		return;

	ScanKeyInit(&keys[0], INDEX_POSITION, BTGreaterEqualStrategyNumber,
				F_INT8GE, Int64GetDatum(feed->expected));
	ScanKeyInit(&keys[1], INDEX_POSITION, BTLessEqualStrategyNumber,
				F_INT8LE, Int64GetDatum(feed->high));
	feed->scan = alvyn_index_beginscan(feed->log->events.rel,
									   feed->log->events_by_position,
									   MUTATED(2) ? GetActiveSnapshot() :
									   &feed->dirty, 2);
	feed->scan->xs_want_itup = true;
	index_rescan(feed->scan, keys, 2, NULL, 0);
}

/*
 * See to it that a crash does not take back what the sequence has given.
 */
static void
feed_flush(Feed *feed)
{
	if (feed->unflushed == InvalidXLogRecPtr)
		return;
	XLogFlush(feed->unflushed);
	feed->unflushed = InvalidXLogRecPtr;
}

/*
 * Stop reading, and let go of the pages.
 */
static void
feed_end_scan(Feed *feed)
{
	ExecClearTuple(feed->log->events.slot);
	if (feed->scan)
		index_endscan(feed->scan);
	feed->scan = NULL;
	alvyn_pending_free(&feed->pending);
}

/*
 * Pass the missing positions before "position".  Returns false when the scan
 * was stopped, or started again because they may have been filled meanwhile.
 */
static bool
feed_pass_hole(Feed *feed, int64 position)
{
	int64		passed;

	if (position - 1 <= Max(resolved, closed) || MUTATED(1) || MUTATED(4))
	{
		feed->expected = position;
		return true;
	}
	passed = feed_exclude_passed(feed, position);
	if (feed->pending.count > 0 && !feed->wait)
	{
		feed->expected = Max(feed->expected,
							 Min(Max(resolved, closed) + 1, position));
		feed->stopped = true;
		return false;
	}
	if (feed->pending.count == 0 && MUTATED(6))
	{
		feed->expected = position;
		return true;
	}

	/* No page stays pinned while others are waited for. */
	ExecClearTuple(feed->log->events.slot);
	index_endscan(feed->scan);
	feed->scan = NULL;
	alvyn_pending_wait(&feed->pending);
	closed = Max(closed, passed);
	feed_start_scan(feed);
	return false;
}

/*
 * Take those from the pending transactions that will not fill a position
 * before "position", because they have ended or have inserted there or behind.
 * Once the others have ended too, no position will be filled up to the one
 * that is returned.
 *
 * A trigger can append between the position that its row has taken and the
 * row; a transaction then need not insert in order.
 */
static int64
feed_exclude_passed(Feed *feed, int64 position)
{
	TriggerDesc *triggers = feed->log->events.rel->trigdesc;
	TupleTableSlot *slot = feed->log->events.slot;
	TransactionId last = InvalidTransactionId;
	int64		passed = feed->high;
	IndexScanDesc scan;
	ScanKeyData keys[2];
	int			count = 0;

	alvyn_pending_remove_ended(&feed->pending);
	if (triggers && (triggers->trig_insert_before_row ||
					 triggers->trig_insert_before_statement))
		return passed;

	ScanKeyInit(&keys[0], INDEX_POSITION, BTGreaterEqualStrategyNumber,
				F_INT8GE, Int64GetDatum(position));
	ScanKeyInit(&keys[1], INDEX_POSITION, BTLessEqualStrategyNumber,
				F_INT8LE, Int64GetDatum(feed->high));
	scan = alvyn_index_beginscan(feed->log->events.rel,
								 feed->log->events_by_position,
								 &feed->dirty, 2);
	index_rescan(scan, keys, 2, NULL, 0);
	while (feed->pending.count > 0 &&
		   index_getnext_slot(scan, BackwardScanDirection, slot))
	{
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (++count % LOOK_AGAIN_ROWS == 0)
			alvyn_pending_remove_ended(&feed->pending);
		if (!TransactionIdIsValid(feed->dirty.xmin) || feed->dirty.xmin == last)
			continue;
		last = feed->dirty.xmin;
		if (alvyn_pending_remove(&feed->pending, last))
			passed = DatumGetInt64(slot_getattr(slot, EVENTS_POSITION,
												&isnull)) - 1;
	}
	ExecClearTuple(slot);
	index_endscan(scan);
	return passed;
}

/*
 * Does the filter let a stream in?
 */
bool
alvyn_feed_wants_stream(Feed *feed, int64 stream_no)
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
		(VARSIZE_ANY_EXHDR(id) == length || VARDATA_ANY(id)[length] == '-') &&
		memchr(VARDATA_ANY(category), '-', length) == NULL;
}

/*
 * Read the row behind the current index entry.  Returns whether it is an
 * event that the filter wants; stops the scan at one in progress.
 */
static bool
feed_read_row(Feed *feed, int64 position, EventRow *row)
{
	TupleTableSlot *slot = feed->log->events.slot;
	MemoryContext old;
	bool		found;
	bool		pending;
	bool		wanted;

	/* Another version of a row that was read. */
	if (position <= feed->decided)
		return false;

	found = index_fetch_heap(feed->scan, slot);
	pending = found && TransactionIdIsValid(feed->dirty.xmin);
	if (pending || (!found && !feed->scan->kill_prior_tuple))
		found = feed_read_committed(feed, position);
	if (pending && !found && !MUTATED(4))
	{
		feed->expected = position;
		feed->stopped = true;
		return false;
	}
	feed->expected = Max(feed->expected, position + 1);
	if (!found || feed_is_above_watermark(feed))
		return false;

	feed->decided = position;
	alvyn_event_read(slot, row);
	MemoryContextReset(feed->context);
	old = MemoryContextSwitchTo(feed->context);
	wanted = alvyn_feed_wants_row(feed, row);
	MemoryContextSwitchTo(old);
	return wanted;
}

/*
 * Read the committed version of a row, if there is one.
 */
static bool
feed_read_committed(Feed *feed, int64 position)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan;
	ScanKeyData key;
	bool		found;

	ScanKeyInit(&key, INDEX_POSITION, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(position));
	scan = alvyn_index_beginscan(feed->log->events.rel,
								 feed->log->events_by_position, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	found = !MUTATED(7) && index_getnext_slot(scan, ForwardScanDirection,
											  feed->log->events.slot);
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/*
 * Is the row in the slot not final for a reader that trusts transaction ids?
 */
static bool
feed_is_above_watermark(Feed *feed)
{
	bool		isnull;
	Datum		xmin;

	if (!MUTATED(4))
		return false;
	xmin = slot_getsysattr(feed->log->events.slot,
						   MinTransactionIdAttributeNumber, &isnull);
	return !TransactionIdPrecedes(DatumGetTransactionId(xmin),
								  GetActiveSnapshot()->xmin);
}

/*
 * Does the filter want an event of a stream that it lets in?
 */
bool
alvyn_feed_wants_row(Feed *feed, const EventRow *row)
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
	}
	return slot >= filter->first_slot && slot <= filter->last_slot;
}

/*
 * The last position that was handed out in the store "function" belongs to.
 */
int64
alvyn_feed_last_position(Oid function)
{
	Oid			sequence = alvyn_log_catalog(function)->events_position_seq;

	return feed_last_position(sequence, NULL, NULL);
}

/*
 * The last position that was handed out, the file it stands in, and how far
 * WAL must be flushed so that a crash cannot take it back.
 */
static int64
feed_last_position(Oid sequence, Oid *file, XLogRecPtr *lsn)
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
	if (lsn)
		*lsn = PageGetLSN(page);
	if (file)
		*file = rel->rd_rel->relfilenode;
	UnlockReleaseBuffer(buffer);
	relation_close(rel, NoLock);
	return result;
}
