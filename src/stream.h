/*-------------------------------------------------------------------------
 *
 * stream.h
 *		Rows of alvyn.streams: finding, creating and locking a stream.
 *
 * IDENTIFICATION
 *		src/stream.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAM_H
#define STREAM_H

#include "log.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

/* Stream ids are spread over this many slots, for ever. */
#define STREAM_SLOTS	1024

/* Columns of alvyn.streams. */
enum
{
	STREAMS_STREAM_NO = 1,
	STREAMS_VERSION_FLOOR,
	STREAMS_CREATED_AT,
	STREAMS_SLOT,
	STREAMS_STATE,
	STREAMS_STREAM_ID,
	STREAMS_SNAPSHOTS,
	STREAMS_NATTS = STREAMS_SNAPSHOTS
};

/* Values of alvyn.streams.state. */
#define STREAM_ACTIVE		'a'
#define STREAM_ARCHIVED		'z'
#define STREAM_TOMBSTONED	't'

/*
 * Where the snapshots of one definition stand in a stream (see snapshot.c).
 * The column holds the numbers of all marks one behind the other.
 */
typedef struct StreamMark
{
	int64		snapshot_no;
	int64		schema_version;
	int64		version;		/* of the newest snapshot, or 0 */
	int64		counted;		/* events up to here were counted */
	int64		handled;		/* those since the snapshot */
} StreamMark;

#define STREAM_MARK_WIDTH	((int) (sizeof(StreamMark) / sizeof(int64)))

/* One row of alvyn.streams. */
typedef struct StreamRow
{
	int64		stream_no;
	int16		slot;
	char		state;
	int64		version_floor;	/* versions up to here were removed */
	ItemPointerData tid;
	int			nmarks;
	StreamMark *marks;			/* copied, in the caller's context */
} StreamRow;

extern int16 alvyn_stream_hash(const char *id, int length);
extern bool alvyn_stream_find(EventLog *log, text *id, Snapshot snapshot,
							  StreamRow *row);
extern bool alvyn_stream_lock(EventLog *log, text *id, StreamRow *row);
extern bool alvyn_stream_is_unlocked(EventLog *log, const text *id);
extern bool alvyn_stream_create(EventLog *log, text *id, StreamRow *row);
extern void alvyn_stream_update_marks(EventLog *log, StreamRow *row);
extern void alvyn_stream_discard(EventLog *log, StreamRow *row);
extern void alvyn_stream_check_readable(const text *id, const StreamRow *row);
extern void alvyn_stream_refuse_removed(const text *id, const StreamRow *row);
extern void alvyn_stream_read(TupleTableSlot *slot, StreamRow *row);

#endif							/* STREAM_H */
