/*-------------------------------------------------------------------------
 *
 * cell.c
 *		Rows that change in place.
 *
 * The state of a queue or a rate limiter changes thousands of times a second.
 * The simple version, an UPDATE for each change, leaves a dead version of the
 * row each time, which nobody may remove while an old snapshot is open
 * anywhere: the table grows, and finding the row becomes slow.  Here the
 * columns of a row are overwritten where they stand, under the lock of the
 * page, so there is one version of it and the table keeps its size.
 *
 * That works for columns of fixed width that are never null, that stand
 * before all others and are in no index.  Rows are inserted and deleted by
 * SQL, and dumped and restored like others; nobody updates them by SQL, since
 * that would move them.  Changes are written to the log of the server as
 * changes of the page, so they survive a crash and reach physical standbys;
 * logical replication does not see them.
 *
 * A change is there at once, for everybody, and stays when the transaction
 * that made it rolls back.  That is what leases, fences, attempts and tokens
 * want: an attempt that a failing transaction made was an attempt.  A row
 * that is deleted meanwhile is changed in vain, and that does no harm: it
 * stays where it is while its page is pinned.
 *
 * Locking
 *		The lock of the page is held while a few fields are read, compared and
 *		written.  Nothing waits or fails under it, and no memory is allocated.
 *		The table is locked in RowExclusive mode to the end of the transaction,
 *		so that nothing that rewrites it moves rows meanwhile.  Whoever reads
 *		the row by SQL may get some fields from before a change and some from
 *		after it; what must be exact is read by alvyn_cell_read().
 *
 * IDENTIFICATION
 *		src/cell.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tupmacs.h"
#include "cell.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

static Oid	cell_relation(Oid schema, const char *name);
static Size cell_width(Relation rel);

/*
 * Open a table of the schema that "function" is in.
 */
Relation
alvyn_cell_table(Oid function, const char *name, LOCKMODE mode)
{
	return table_open(cell_relation(get_func_namespace(function), name), mode);
}

/*
 * A copy of the row that has these values in its primary key, or NULL.  With
 * "pin" its page stays pinned.
 */
HeapTuple
alvyn_cell_lookup(Relation rel, ScanKey keys, int nkeys, Buffer *pin)
{
	char	   *index = psprintf("%s_pkey", RelationGetRelationName(rel));
	SysScanDesc scan =
	systable_beginscan(rel, cell_relation(RelationGetNamespace(rel), index),
					   true, GetActiveSnapshot(), nkeys, keys);
	HeapTuple	row = systable_getnext(scan);

	if (HeapTupleIsValid(row))
	{
		row = heap_copytuple(row);
		if (pin)
			*pin = ReadBuffer(rel, ItemPointerGetBlockNumber(&row->t_self));
	}
	systable_endscan(scan);
	return row;
}

/*
 * Find the row that has these values in its primary key.  Returns false when
 * there is none.
 */
bool
alvyn_cell_find(Cell *cell, Oid function, const char *table, ScanKey keys,
				int nkeys)
{
	HeapTuple	row;

	cell->rel = alvyn_cell_table(function, table, RowExclusiveLock);
	row = alvyn_cell_lookup(cell->rel, keys, nkeys, &cell->buffer);
	if (row == NULL)
	{
		table_close(cell->rel, NoLock);
		return false;
	}
	Assert(!HeapTupleHasNulls(row));
	cell->tid = row->t_self;
	cell->width = cell_width(cell->rel);
	cell->change = NULL;
	heap_freetuple(row);
	return true;
}

/*
 * Copy the columns that change, all as of one moment.
 */
void
alvyn_cell_read(Cell *cell, void *copy)
{
	LockBuffer(cell->buffer, BUFFER_LOCK_SHARE);
	memcpy(copy, alvyn_cell_columns(BufferGetPage(cell->buffer), &cell->tid),
		   cell->width);
	LockBuffer(cell->buffer, BUFFER_LOCK_UNLOCK);
}

/*
 * Lock the row.  Returns the columns that change, to be read and written
 * until alvyn_cell_unlock(), without anything that can fail or wait.
 */
char *
alvyn_cell_lock(Cell *cell)
{
	Page		page;

	cell->change = GenericXLogStart(cell->rel);
	LockBuffer(cell->buffer, BUFFER_LOCK_EXCLUSIVE);
	page = GenericXLogRegisterBuffer(cell->change, cell->buffer, 0);
	return alvyn_cell_columns(page, &cell->tid);
}

/*
 * Unlock the row, and keep what was written or forget it.
 */
void
alvyn_cell_unlock(Cell *cell, bool changed)
{
	if (changed)
		GenericXLogFinish(cell->change);
	else
		GenericXLogAbort(cell->change);
	cell->change = NULL;
	LockBuffer(cell->buffer, BUFFER_LOCK_UNLOCK);
}

/*
 * Let go of the page; the lock of the table stays.
 */
void
alvyn_cell_close(Cell *cell)
{
	ReleaseBuffer(cell->buffer);
	table_close(cell->rel, NoLock);
}

/*
 * Where the columns of a row begin on a page.
 */
char *
alvyn_cell_columns(Page page, ItemPointer tid)
{
	ItemId		item = PageGetItemId(page, ItemPointerGetOffsetNumber(tid));
	HeapTupleHeader row = (HeapTupleHeader) PageGetItem(page, item);

	Assert(ItemIdIsNormal(item));
	return (char *) row + row->t_hoff;
}

/*
 * A relation by name; it can only be missing when an owner renamed it.
 */
static Oid
cell_relation(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" of extension \"alvyn\" does not exist",
						name),
				 errhint("Rename it back, or restore the extension from a backup.")));
	return relid;
}

/*
 * How many bytes the columns of fixed width take that a row begins with.
 */
static Size
cell_width(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Size		width = 0;
	int			i;

	for (i = 0; i < desc->natts && TupleDescAttr(desc, i)->attlen > 0; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		Assert(column->attnotnull && !column->attisdropped);
		width = att_align_nominal(width, column->attalign) + column->attlen;
	}
	return width;
}
