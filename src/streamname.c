/*-------------------------------------------------------------------------
 *
 * streamname.c
 *		What the number of a stream stands for.
 *
 * Events carry the number of their stream.  Whoever reads across streams needs
 * the id behind it, again and again for the same streams, so a backend
 * remembers what it has looked up.  A stream never changes its id and a number
 * is never used again, so an entry is never wrong; rows are read dirty,
 * because a stream may still be under creation when its events are first
 * seen.  A number without a row is not remembered.
 *
 * Memory is bounded by forgetting everything when there is too much.
 *
 * IDENTIFICATION
 *		src/streamname.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "stream.h"
#include "streamname.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Streams that are remembered at most. */
#define NAMES_MAX		65536

static MemoryContext context = NULL;
static HTAB *names = NULL;
static bool stale = false;

static void stream_name_forget(Datum arg, Oid relid);
static void stream_name_reset(void);
static text *stream_name_look_up(EventLog *log, int64 stream_no, int16 *slot);
static text *stream_name_read(EventLog *log, Relation index, int64 stream_no,
							  Snapshot snapshot, int16 *slot);

/*
 * Register the callback that forgets the names when the table is replaced.
 */
void
alvyn_stream_name_init(void)
{
	CacheRegisterRelcacheCallback(stream_name_forget, (Datum) 0);
}

/*
 * The name behind a number.  The result stays valid until the next call.
 */
const StreamName *
alvyn_stream_name(EventLog *log, int64 stream_no)
{
	static StreamName unknown;
	StreamName *name;
	MemoryContext old;
	text	   *id;
	int16		slot;

	if (names == NULL || stale || hash_get_num_entries(names) >= NAMES_MAX)
		stream_name_reset();
	name = hash_search(names, &stream_no, HASH_FIND, NULL);
	if (name)
		return name;

	id = stream_name_look_up(log, stream_no, &slot);
	if (id == NULL)
	{
		unknown.stream_no = stream_no;
		unknown.id = NULL;
		return &unknown;
	}
	old = MemoryContextSwitchTo(context);
	name = hash_search(names, &stream_no, HASH_ENTER, NULL);
	name->slot = slot;
	name->id = DatumGetTextPCopy(PointerGetDatum(id));
	MemoryContextSwitchTo(old);
	pfree(id);
	return name;
}

/*
 * Relation cache callback: the table of streams was truncated or dropped, or
 * something else has happened to it.  A name may be in use just now, so the
 * next call forgets them.
 */
static void
stream_name_forget(Datum arg, Oid relid)
{
	if (relid == InvalidOid || alvyn_log_holds_streams(relid))
		stale = true;
}

/*
 * Start with nothing remembered.
 */
static void
stream_name_reset(void)
{
	HASHCTL		control;

	if (context)
		MemoryContextDelete(context);
	names = NULL;
	stale = false;
	context = AllocSetContextCreate(TopMemoryContext, "alvyn stream names",
									ALLOCSET_DEFAULT_SIZES);
	memset(&control, 0, sizeof(control));
	control.keysize = sizeof(int64);
	control.entrysize = sizeof(StreamName);
	control.hcxt = context;
	names = hash_create("alvyn stream names", 1024, &control,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * Find the id and the slot of a stream, NULL when there is none.
 *
 * Appends that take snapshots update rows of streams.  A dirty snapshot can
 * miss a row whose update commits between the reading of the index and that
 * of the row; an MVCC snapshot cannot.
 */
static text *
stream_name_look_up(EventLog *log, int64 stream_no, int16 *slot)
{
	Relation	index = index_open(log->catalog->streams_pkey,
								   AccessShareLock);
	SnapshotData dirty;
	text	   *id;

	InitDirtySnapshot(dirty);
	id = stream_name_read(log, index, stream_no, &dirty, slot);
	if (id == NULL)
	{
		Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());

		id = stream_name_read(log, index, stream_no, latest, slot);
		UnregisterSnapshot(latest);
	}
	index_close(index, NoLock);
	return id;
}

/*
 * Read the id and the slot of a stream from its row, NULL when there is none.
 */
static text *
stream_name_read(EventLog *log, Relation index, int64 stream_no,
				 Snapshot snapshot, int16 *slot)
{
	IndexScanDesc scan;
	ScanKeyData key;
	text	   *id = NULL;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(stream_no));
	scan = alvyn_index_beginscan(log->streams, index, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	if (index_getnext_slot(scan, ForwardScanDirection, log->stream_slot))
	{
		bool		isnull;

		id = DatumGetTextPCopy(slot_getattr(log->stream_slot,
											STREAMS_STREAM_ID, &isnull));
		*slot = DatumGetInt16(slot_getattr(log->stream_slot, STREAMS_SLOT,
										   &isnull));
	}
	ExecClearTuple(log->stream_slot);
	index_endscan(scan);
	return id;
}
