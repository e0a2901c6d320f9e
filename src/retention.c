/*-------------------------------------------------------------------------
 *
 * retention.c
 *		What the removal of history needs of the C code.
 *
 * Removing is SQL (sql/install/48_retention.sql).  Two things it cannot do:
 * take the lock of a stream that appends take, and look at what others have
 * committed when the transaction has an older snapshot.
 *
 * IDENTIFICATION
 *		src/retention.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "compat.h"
#include "event.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "request.h"
#include "stream.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Column of alvyn.removals. */
#define REMOVALS_REMOVAL_NO		1

PG_FUNCTION_INFO_V1(alvyn_lock_stream);
PG_FUNCTION_INFO_V1(alvyn_max_removal);

/*
 * alvyn.lock_stream(stream_id text, wait boolean) returns bigint
 *
 * Lock a stream to the end of the transaction, as an append does.  Returns its
 * head as committed now, NULL when there is no such stream, or when it need not
 * wait and somebody has the lock.  A transaction that holds the stream by its
 * row only is still waited for, as long as lock_timeout says.
 */
Datum
alvyn_lock_stream(PG_FUNCTION_ARGS)
{
	text	   *id = alvyn_request_name(fcinfo, 0, "stream_id");
	int64		head = 0;
	bool		found;
	EventLog	log;
	StreamRow	row;

	PreventCommandIfReadOnly("lock_stream()");
	alvyn_log_open_write(&log, fcinfo->flinfo->fn_oid);
	if (!PG_GETARG_BOOL(1) && !alvyn_stream_is_unlocked(&log, id))
	{
		alvyn_log_close_write(&log);
		PG_RETURN_NULL();
	}
	found = alvyn_stream_lock(&log, id, &row);
	if (found)
		head = Max(alvyn_event_head(&log, row.stream_no, 0, SnapshotSelf),
				   row.version_floor);
	alvyn_log_close_write(&log);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_INT64(head);
}

/*
 * alvyn.max_removal() returns bigint
 *
 * The number of the last removal of history that has been committed, 0 when
 * there was none.
 */
Datum
alvyn_max_removal(PG_FUNCTION_ARGS)
{
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	Relation	rel = table_open(get_relname_relid("removals", schema),
								 AccessShareLock);
	Relation	index = index_open(get_relname_relid("removals_pkey", schema),
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan = alvyn_index_beginscan(rel, index, snapshot, 0);
	int64		result = 0;
	bool		isnull;

	index_rescan(scan, NULL, 0, NULL, 0);
	if (index_getnext_slot(scan, BackwardScanDirection, slot))
		result = DatumGetInt64(slot_getattr(slot, REMOVALS_REMOVAL_NO,
											&isnull));
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(rel, NoLock);
	PG_RETURN_INT64(result);
}
