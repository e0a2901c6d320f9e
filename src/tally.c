/*-------------------------------------------------------------------------
 *
 * tally.c
 *		Counters that stay when the transaction is rolled back.
 *
 * A message that is refused ends in an error, and what its transaction has
 * written is gone.  Its count must not be.  An ordinary UPDATE cannot do that,
 * a sequence can count one thing only and would have to be made for each
 * source and reason.  So a count changes its row of alvyn.inbox_counts where
 * it stands, as the server itself does with the statistics in pg_class: no new
 * row version, nothing to roll back, nothing to vacuum.  The change is WAL
 * like any other, through the interface that the server has for extensions.
 *
 * Only rows that are never updated otherwise can be treated so; those are
 * inserted and deleted with their source.  A change that is on its page but
 * whose WAL was not flushed when the server crashed is lost: the next commit of
 * anybody flushes it.
 *
 * Locking
 *		The row is found with the index, which leaves its page pinned, so that
 *		it cannot be moved.  It is read and written under the exclusive lock of
 *		the page, which is held for that moment only.
 *
 * IDENTIFICATION
 *		src/tally.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "compat.h"
#include "fmgr.h"
#include "log.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* The counters are the first columns of the row, all of them bigint. */
#define TALLY_NCOUNTERS		6
#define TALLY_SOURCE		(TALLY_NCOUNTERS + 1)

PG_FUNCTION_INFO_V1(alvyn_count_message);

static void tally_add(Relation rel, TupleTableSlot *slot, int counter);

/*
 * alvyn.count_message(source text, counter int) returns void
 *
 * Add 1 to a counter of a source, for good.
 */
Datum
alvyn_count_message(PG_FUNCTION_ARGS)
{
	int			counter = PG_GETARG_INT32(1);
	Oid			schema = alvyn_log_catalog(fcinfo->flinfo->fn_oid)->schema;
	Oid			relid = get_relname_relid("inbox_counts", schema);
	Oid			indexid = get_relname_relid("inbox_counts_pkey", schema);
	Relation	rel;
	Relation	index;
	TupleTableSlot *slot;
	IndexScanDesc scan;
	ScanKeyData key;

	if (counter < 0 || counter >= TALLY_NCOUNTERS)
		elog(ERROR, "there is no counter %d", counter);
	PreventCommandIfReadOnly("receive()");
	rel = table_open(relid, RowExclusiveLock);
	index = index_open(indexid, AccessShareLock);
	slot = table_slot_create(rel, NULL);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, PG_GETARG_DATUM(0));
	key.sk_collation = C_COLLATION_OID;
	scan = alvyn_index_beginscan(rel, index, SnapshotSelf, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	if (index_getnext_slot(scan, ForwardScanDirection, slot))
		tally_add(rel, slot, counter);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * Add 1 to a counter in the row that a slot holds.
 */
static void
tally_add(Relation rel, TupleTableSlot *slot, int counter)
{
	Buffer		buffer = ReadBuffer(rel, ItemPointerGetBlockNumber(&slot->tts_tid));
	GenericXLogState *state;
	HeapTupleHeader tuple;
	Page		page;
	char	   *place;
	int64		count;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	state = GenericXLogStart(rel);
	page = GenericXLogRegisterBuffer(state, buffer, 0);
	tuple = (HeapTupleHeader)
		PageGetItem(page, PageGetItemId(page,
										ItemPointerGetOffsetNumber(&slot->tts_tid)));
	place = (char *) tuple + tuple->t_hoff + counter * sizeof(int64);
	memcpy(&count, place, sizeof(count));
	count++;
	memcpy(place, &count, sizeof(count));
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
}
