/*-------------------------------------------------------------------------
 *
 * place.c
 *		Where the rows of streams stood when they were last locked.
 *
 * A connection tends to append to the same streams again, and finding the row
 * of a stream through the index takes more than the rest of locking it.  So
 * each backend remembers the places of the rows it has locked, in a small
 * table without collision handling: a hash of the id, and a tuple id.
 *
 * A place is only a guess.  The row that stands there is fetched and its id
 * compared, so nothing has to be invalidated: a row that was updated, moved
 * or replaced is not found there, and the index is asked.  The one thing a
 * guess must not do is point behind the end of the table.  A table gets
 * shorter only under a lock that excludes the one an append holds, and tells
 * all backends first; the server then forgets the length it had cached, and
 * it is asked for again.
 *
 * IDENTIFICATION
 *		src/place.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "place.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "stream.h"
#include "utils/snapmgr.h"

/* Places that are remembered at most; a power of two. */
#define PLACES_MAX		4096

typedef struct Place
{
	uint32		hash;
	ItemPointerData tid;		/* offset 0 when unused */
} Place;

static Place places[PLACES_MAX];

static uint32 place_hash(const text *id);
static bool place_exists(Relation rel, ItemPointer tid);

/*
 * Fetch the row of a stream into the slot from where it was last.  Returns
 * false when it is not known to be there.
 */
bool
alvyn_place_recall(EventLog *log, const text *id)
{
	uint32		hash = place_hash(id);
	Place	   *place = &places[hash % PLACES_MAX];
	TupleTableSlot *slot = log->stream_slot;
	text	   *found;
	bool		isnull;

	if (place->hash != hash || !ItemPointerIsValid(&place->tid) ||
		!place_exists(log->streams, &place->tid) ||
		!table_tuple_fetch_row_version(log->streams, &place->tid, SnapshotSelf,
									   slot))
		return false;

	found = DatumGetTextPP(slot_getattr(slot, STREAMS_STREAM_ID, &isnull));
	if (VARSIZE_ANY_EXHDR(found) == VARSIZE_ANY_EXHDR(id) &&
		memcmp(VARDATA_ANY(found), VARDATA_ANY(id),
			   VARSIZE_ANY_EXHDR(id)) == 0)
		return true;
	ExecClearTuple(slot);
	return false;
}

/*
 * Remember where the row of a stream stands.
 */
void
alvyn_place_note(const text *id, ItemPointer tid)
{
	uint32		hash = place_hash(id);

	places[hash % PLACES_MAX].hash = hash;
	places[hash % PLACES_MAX].tid = *tid;
}

/*
 * The hash of a stream id.
 */
static uint32
place_hash(const text *id)
{
	return hash_bytes((const unsigned char *) VARDATA_ANY(id),
					  VARSIZE_ANY_EXHDR(id));
}

/*
 * Does a tuple id lie within the table?
 */
static bool
place_exists(Relation rel, ItemPointer tid)
{
	BlockNumber known = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	return (known != InvalidBlockNumber && block < known) ||
		block < RelationGetNumberOfBlocks(rel);
}
