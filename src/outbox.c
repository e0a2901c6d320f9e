/*-------------------------------------------------------------------------
 *
 * outbox.c
 *		The partitions of outboxes: read, changed at once, or with the commit.
 *
 * What a claim does with a partition is decided in sql/install/44_outbox.sql.
 * Here its row is compared and exchanged in place: the change is made if the
 * row is what the caller has seen, so of two who decide at the same time one
 * fails and takes another partition.
 *
 * A claim changes the row at once, as an attempt counts whatever becomes of
 * the transaction.  A completion must not be there before the work that
 * commits with it, nor stay when that rolls back: then events would be lost.
 * So it is kept in the backend and made after the commit.  Doing it before
 * the commit would be simpler, and would lose events when the server stops in
 * between.  This way they are delivered again then.
 *
 * After the commit nothing may fail, because the server would have to stop.
 * So the page is pinned and the memory for its change is allocated when the
 * completion is asked for, and then only the lock of the page is taken and
 * the log written, as the server itself does there.  The change comes behind
 * the commit in the log, so no crash keeps it without the rows that the
 * transaction has written.  If the partition was taken by another worker in
 * between, the row is not what it was, and the change is left out.
 *
 * A prepared transaction has no backend that could do this, and is refused.
 *
 * IDENTIFICATION
 *		src/outbox.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "cell.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "outbox.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* Columns of alvyn.outbox_partitions. */
#define PARTITION_PARTITION	1
#define PARTITION_TOPIC		14

PG_FUNCTION_INFO_V1(alvyn_partition_state);
PG_FUNCTION_INFO_V1(alvyn_change_partition);
PG_FUNCTION_INFO_V1(alvyn_change_at_commit);

/* A page that will be changed, pinned. */
typedef struct PendingPage
{
	Buffer		buffer;
	GenericXLogState *change;
	struct PendingPage *next;
} PendingPage;

/* A change of a row on such a page. */
typedef struct PendingChange
{
	SubTransactionId subxact;
	PendingPage *page;
	Oid			relid;
	Cell		cell;
	char	   *before;
	char	   *after;
	struct PendingChange *older;
	struct PendingChange *newer;
} PendingChange;

/* Of the transaction, in its memory; the oldest change first. */
static PendingPage *pages = NULL;
static PendingChange *changes = NULL;
static PendingChange *newest = NULL;

static void outbox_xact(XactEvent event, void *arg);
static void outbox_subxact(SubXactEvent event, SubTransactionId subxact,
						   SubTransactionId parent, void *arg);
static void outbox_find(Cell *cell, Oid function, Datum topic,
						Datum partition);
static HeapTupleHeader outbox_row(FunctionCallInfo fcinfo, int arg);
static void outbox_find_row(Cell *cell, FunctionCallInfo fcinfo);
static char *outbox_columns(FunctionCallInfo fcinfo, int arg, Size width);
static PendingChange *outbox_pending(Cell *cell);
static void outbox_forget(Cell *cell);
static PendingPage *outbox_page(Cell *cell);
static void outbox_apply(PendingPage *page);
static bool outbox_apply_changes(PendingPage *page, Page image);

/*
 * Register what is done at the end of transactions.
 */
void
alvyn_outbox_init(void)
{
	RegisterXactCallback(outbox_xact, NULL);
	RegisterSubXactCallback(outbox_subxact, NULL);
}

/*
 * alvyn.partition_state(topic text, partition int, pending boolean) returns
 * alvyn.outbox_partitions
 *
 * The row of a partition as of one moment; with "pending", as this
 * transaction will leave it.
 */
Datum
alvyn_partition_state(PG_FUNCTION_ARGS)
{
	PendingChange *change = NULL;
	HeapTuple	row;
	ScanKeyData keys[2];
	Cell		cell;
	Datum		result;

	outbox_find(&cell, fcinfo->flinfo->fn_oid, PG_GETARG_DATUM(0),
				PG_GETARG_DATUM(1));
	ScanKeyInit(&keys[0], PARTITION_TOPIC, BTEqualStrategyNumber, F_TEXTEQ,
				PG_GETARG_DATUM(0));
	ScanKeyInit(&keys[1], PARTITION_PARTITION, BTEqualStrategyNumber, F_INT4EQ,
				PG_GETARG_DATUM(1));
	row = alvyn_cell_lookup(cell.rel, keys, 2, NULL);
	if (PG_GETARG_BOOL(2))
		change = outbox_pending(&cell);
	if (change)
		memcpy((char *) row->t_data + row->t_data->t_hoff, change->after,
			   cell.width);
	else
		alvyn_cell_read(&cell, (char *) row->t_data + row->t_data->t_hoff);
	result = heap_copy_tuple_as_datum(row, RelationGetDescr(cell.rel));
	alvyn_cell_close(&cell);
	PG_RETURN_DATUM(result);
}

/*
 * alvyn.change_partition(before alvyn.outbox_partitions, after
 * alvyn.outbox_partitions) returns boolean
 *
 * Change the row of a partition at once if it still is what it was before.
 */
Datum
alvyn_change_partition(PG_FUNCTION_ARGS)
{
	Cell		cell;
	char	   *before;
	char	   *after;
	char	   *columns;
	bool		same;

	outbox_find_row(&cell, fcinfo);
	before = outbox_columns(fcinfo, 0, cell.width);
	after = outbox_columns(fcinfo, 1, cell.width);
	columns = alvyn_cell_lock(&cell);
	same = memcmp(columns, before, cell.width) == 0;
	if (same)
		memcpy(columns, after, cell.width);
	alvyn_cell_unlock(&cell, same);
	if (same)
		outbox_forget(&cell);
	alvyn_cell_close(&cell);
	PG_RETURN_BOOL(same);
}

/*
 * alvyn.change_at_commit(before alvyn.outbox_partitions, after
 * alvyn.outbox_partitions) returns void
 *
 * Change the row of a partition after the commit of this transaction if it
 * then is what it was before.
 */
Datum
alvyn_change_at_commit(PG_FUNCTION_ARGS)
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	PendingChange *change = palloc0(sizeof(PendingChange));

	/* Lock and pin last to the end of the transaction. */
	CurrentResourceOwner = TopTransactionResourceOwner;
	outbox_find_row(&change->cell, fcinfo);
	change->relid = RelationGetRelid(change->cell.rel);
	change->subxact = GetCurrentSubTransactionId();
	change->before = outbox_columns(fcinfo, 0, change->cell.width);
	change->after = outbox_columns(fcinfo, 1, change->cell.width);
	change->page = outbox_page(&change->cell);
	table_close(change->cell.rel, NoLock);
	change->cell.rel = NULL;
	change->older = newest;
	if (newest)
		newest->newer = change;
	else
		changes = change;
	newest = change;
	CurrentResourceOwner = owner;
	MemoryContextSwitchTo(old);
	PG_RETURN_VOID();
}

/*
 * Make the changes after a commit, forget them after an abort.
 */
static void
outbox_xact(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_PREPARE && changes)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot prepare a transaction that has answered for deliveries"),
				 errhint("Use COMMIT, or answer in a transaction of its own.")));
	if (event == XACT_EVENT_COMMIT && pages)
	{
		ResourceOwner owner = CurrentResourceOwner;
		PendingPage *page;

		CurrentResourceOwner = TopTransactionResourceOwner;
		for (page = pages; page; page = page->next)
			outbox_apply(page);
		CurrentResourceOwner = owner;
	}
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
	{
		pages = NULL;
		changes = NULL;
		newest = NULL;
	}
}

/*
 * Give the changes of a subtransaction to its parent, or forget them.  They
 * are the newest ones.
 */
static void
outbox_subxact(SubXactEvent event, SubTransactionId subxact,
			   SubTransactionId parent, void *arg)
{
	PendingChange *change;

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (newest && newest->subxact == subxact)
			newest = newest->older;
		if (newest)
			newest->newer = NULL;
		else
			changes = NULL;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (change = newest; change && change->subxact == subxact;
			 change = change->older)
			change->subxact = parent;
	}
}

/*
 * Find the row of a partition.
 */
static void
outbox_find(Cell *cell, Oid function, Datum topic, Datum partition)
{
	ScanKeyData keys[2];

	PreventCommandDuringRecovery("claim()");
	PreventCommandIfReadOnly("claim()");
	ScanKeyInit(&keys[0], PARTITION_TOPIC, BTEqualStrategyNumber, F_TEXTEQ,
				topic);
	ScanKeyInit(&keys[1], PARTITION_PARTITION, BTEqualStrategyNumber, F_INT4EQ,
				partition);
	if (!alvyn_cell_find(cell, function, "outbox_partitions", keys, 2))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("outbox \"%s\" does not exist or has no partition %d",
						TextDatumGetCString(topic),
						DatumGetInt32(partition))));
}

/*
 * A row in an argument, as a caller may have made it up.
 */
static HeapTupleHeader
outbox_row(FunctionCallInfo fcinfo, int arg)
{
	HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(arg);

	if (row->t_infomask & HEAP_HASNULL)
		elog(ERROR, "row of a partition has nulls");
	return row;
}

/*
 * Find the row that the arguments are versions of.  Both are checked before
 * anything is held that only the end of the transaction would release.
 */
static void
outbox_find_row(Cell *cell, FunctionCallInfo fcinfo)
{
	HeapTupleHeader row = outbox_row(fcinfo, 0);
	bool		isnull;
	Datum		topic = GetAttributeByNum(row, PARTITION_TOPIC, &isnull);
	Datum		partition = GetAttributeByNum(row, PARTITION_PARTITION,
											  &isnull);

	(void) outbox_row(fcinfo, 1);
	outbox_find(cell, fcinfo->flinfo->fn_oid, topic, partition);
}

/*
 * A copy of the columns that change of a row in an argument.
 */
static char *
outbox_columns(FunctionCallInfo fcinfo, int arg, Size width)
{
	HeapTupleHeader row = outbox_row(fcinfo, arg);
	char	   *copy = palloc(width);

	memcpy(copy, (char *) row + row->t_hoff, width);
	return copy;
}

/*
 * The newest change of a row that is pending, or NULL.
 */
static PendingChange *
outbox_pending(Cell *cell)
{
	PendingChange *change = newest;

	while (change &&
		   !(change->relid == RelationGetRelid(cell->rel) &&
			 ItemPointerEquals(&change->cell.tid, &cell->tid)))
		change = change->older;
	return change;
}

/*
 * Forget the changes of a row that are pending: it is not what it was before
 * them any more.
 */
static void
outbox_forget(Cell *cell)
{
	PendingChange *change;

	while ((change = outbox_pending(cell)) != NULL)
	{
		change->relid = InvalidOid;
		change->page = NULL;
	}
}

/*
 * The page of a row among those that will be changed.  One pin is enough.
 */
static PendingPage *
outbox_page(Cell *cell)
{
	PendingPage *page = pages;

	while (page && page->buffer != cell->buffer)
		page = page->next;
	if (page)
	{
		ReleaseBuffer(cell->buffer);
		return page;
	}
	page = palloc0(sizeof(PendingPage));
	page->buffer = cell->buffer;
	page->change = GenericXLogStart(cell->rel);
	page->next = pages;
	pages = page;
	return page;
}

/*
 * Make all changes of a page.  Nothing here may fail: the transaction is
 * committed.
 */
static void
outbox_apply(PendingPage *page)
{
	Page		image;

	LockBuffer(page->buffer, BUFFER_LOCK_EXCLUSIVE);
	image = GenericXLogRegisterBuffer(page->change, page->buffer, 0);
	if (outbox_apply_changes(page, image))
		GenericXLogFinish(page->change);
	else
		GenericXLogAbort(page->change);
	LockBuffer(page->buffer, BUFFER_LOCK_UNLOCK);
	ReleaseBuffer(page->buffer);
}

/*
 * Make the changes of a page, the oldest first.
 */
static bool
outbox_apply_changes(PendingPage *page, Page image)
{
	PendingChange *change;
	bool		changed = false;

	for (change = changes; change; change = change->newer)
	{
		char	   *columns;

		if (change->page != page)
			continue;
		columns = alvyn_cell_columns(image, &change->cell.tid);
		if (memcmp(columns, change->before, change->cell.width) == 0)
		{
			memcpy(columns, change->after, change->cell.width);
			changed = true;
		}
	}
	return changed;
}
