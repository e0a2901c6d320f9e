/*-------------------------------------------------------------------------
 *
 * cell.h
 *		Rows that change in place.
 *
 * IDENTIFICATION
 *		src/cell.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef CELL_H
#define CELL_H

#include "access/generic_xlog.h"
#include "access/skey.h"
#include "storage/buf.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

/* A row that was found; its page is pinned. */
typedef struct Cell
{
	Relation	rel;
	Buffer		buffer;
	ItemPointerData tid;
	Size		width;			/* bytes of the columns that change */
	GenericXLogState *change;	/* of the page, while it is locked */
} Cell;

extern Relation alvyn_cell_table(Oid function, const char *name,
								 LOCKMODE mode);
extern HeapTuple alvyn_cell_lookup(Relation rel, ScanKey keys, int nkeys,
								   Buffer *pin);
extern bool alvyn_cell_find(Cell *cell, Oid function, const char *table,
							ScanKey keys, int nkeys);
extern void alvyn_cell_read(Cell *cell, void *copy);
extern char *alvyn_cell_lock(Cell *cell);
extern void alvyn_cell_unlock(Cell *cell, bool changed);
extern char *alvyn_cell_columns(Page page, ItemPointer tid);
extern void alvyn_cell_close(Cell *cell);

#endif							/* CELL_H */
