/*-------------------------------------------------------------------------
 *
 * scan.c
 *		Walking the events stream by stream, without their payloads.
 *
 * The index on (stream_no, version) gives the order and the places of the
 * rows.  The simple version fetches each row through the table access method,
 * which locks the page and checks the row's visibility every time; that makes
 * the walk twice as slow as count(*).  But nearly all pages of a log are
 * marked all-visible, and the events of a stream tend to stand together.  So
 * the walk keeps a page pinned while it stays on it and, where the page is
 * marked, reads rows from it in place, as a sequential scan does.
 *
 * Locking
 *		The mark is read without the page's content lock, but again for every
 *		row: whoever adds a row clears the mark before the index gets the
 *		entry that led here, so a row that our snapshot must not see is never
 *		met under a mark.  The mark stays true for our snapshot when it is
 *		cleared right after, and it cannot be set again over such a row while
 *		the snapshot lives.  The pin keeps rows from being moved.  The mark
 *		means nothing to a snapshot taken on a standby, and reading in place
 *		takes no predicate locks, so both go the simple way.
 *
 * IDENTIFICATION
 *		src/scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "event.h"
#include "executor/tuptable.h"
#include "scan.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"

static bool scan_read_in_place(EventScan *scan, ItemPointer tid,
							   EventFacts *facts);
static void scan_read_slot(TupleTableSlot *slot, EventFacts *facts);

/*
 * Open a walk.
 */
void
alvyn_scan_begin(EventScan *scan, EventLog *log, Snapshot snapshot)
{
	scan->log = log;
	scan->snapshot = snapshot;
	scan->index = alvyn_index_beginscan(log->events.rel,
										log->events_by_version, snapshot, 1);
	scan->may_skip = log->events.rel->rd_rel->relam == HEAP_TABLE_AM_OID &&
		!snapshot->takenDuringRecovery && !IsolationIsSerializable();
	scan->buffer = InvalidBuffer;
}

/*
 * Start walking the streams with the numbers "first" to "last".
 */
void
alvyn_scan_streams(EventScan *scan, int64 first, int64 last)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(first));
	index_rescan(scan->index, &key, 1, NULL, 0);
	scan->last = last;
}

/*
 * Read the next event.  Returns false at the end of the range.
 */
bool
alvyn_scan_next(EventScan *scan, EventFacts *facts)
{
	TupleTableSlot *slot = scan->log->events.slot;
	ItemPointer tid;

	while ((tid = index_getnext_tid(scan->index, ForwardScanDirection)) != NULL)
	{
		if (!scan_read_in_place(scan, tid, facts))
		{
			if (!index_fetch_heap(scan->index, slot))
				continue;
			scan_read_slot(slot, facts);
		}
		return facts->stream_no <= scan->last;
	}
	return false;
}

/*
 * The lowest or highest stream number that has events, whatever the range.
 */
bool
alvyn_scan_edge(EventScan *scan, ScanDirection direction, int64 *stream_no)
{
	TupleTableSlot *slot = scan->log->events.slot;
	IndexScanDesc index;
	bool		found;
	bool		isnull;

	index = alvyn_index_beginscan(scan->log->events.rel,
								  scan->log->events_by_version,
								  scan->snapshot, 0);
	index_rescan(index, NULL, 0, NULL, 0);
	found = index_getnext_slot(index, direction, slot);
	if (found)
		*stream_no = DatumGetInt64(slot_getattr(slot, EVENTS_STREAM_NO,
												&isnull));
	ExecClearTuple(slot);
	index_endscan(index);
	return found;
}

/*
 * Close a walk.
 */
void
alvyn_scan_end(EventScan *scan)
{
	if (BufferIsValid(scan->buffer))
		ReleaseBuffer(scan->buffer);
	ExecClearTuple(scan->log->events.slot);
	index_endscan(scan->index);
}

/*
 * Read a row in place, if its page allows that.
 */
static bool
scan_read_in_place(EventScan *scan, ItemPointer tid, EventFacts *facts)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	HeapTupleData tuple;
	EventFixed *row;
	Page		page;
	ItemId		item;

	if (!scan->may_skip)
		return false;
	if (!BufferIsValid(scan->buffer) ||
		BufferGetBlockNumber(scan->buffer) != block)
		scan->buffer = ReleaseAndReadBuffer(scan->buffer,
											scan->log->events.rel, block);
	page = BufferGetPage(scan->buffer);
	if (!PageIsAllVisible(page))
		return false;

	item = PageGetItemId(page, ItemPointerGetOffsetNumber(tid));
	if (!ItemIdIsNormal(item))
		return false;
	tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
	row = (EventFixed *) GETSTRUCT(&tuple);
	facts->position = row->position;
	facts->stream_no = row->stream_no;
	facts->version = row->version;
	facts->slot = row->slot;
	facts->snapshot = row->snapshot;
	return true;
}

/*
 * Take what a walk wants out of a slot.
 */
static void
scan_read_slot(TupleTableSlot *slot, EventFacts *facts)
{
	slot_getsomeattrs(slot, EVENTS_SNAPSHOT);
	facts->position = DatumGetInt64(slot->tts_values[EVENTS_POSITION - 1]);
	facts->stream_no = DatumGetInt64(slot->tts_values[EVENTS_STREAM_NO - 1]);
	facts->version = DatumGetInt64(slot->tts_values[EVENTS_VERSION - 1]);
	facts->slot = DatumGetInt16(slot->tts_values[EVENTS_SLOT - 1]);
	facts->snapshot = DatumGetBool(slot->tts_values[EVENTS_SNAPSHOT - 1]);
}
