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
	STREAMS_STREAM_ID,
	STREAMS_SLOT,
	STREAMS_STATE,
	STREAMS_VERSION_FLOOR,
	STREAMS_CREATED_AT,
	STREAMS_NATTS = STREAMS_CREATED_AT
};

/* Values of alvyn.streams.state. */
#define STREAM_ACTIVE		'a'
#define STREAM_ARCHIVED		'z'
#define STREAM_TOMBSTONED	't'

/* One row of alvyn.streams. */
typedef struct StreamRow
{
	int64		stream_no;
	int16		slot;
	char		state;
	int64		version_floor;	/* versions up to here were removed */
	ItemPointerData tid;
} StreamRow;

extern int16 alvyn_stream_hash(const char *id, int length);
extern bool alvyn_stream_find(EventLog *log, text *id, Snapshot snapshot,
							  StreamRow *row);
extern bool alvyn_stream_lock(EventLog *log, text *id, StreamRow *row);
extern bool alvyn_stream_create(EventLog *log, text *id, StreamRow *row);
extern void alvyn_stream_discard(EventLog *log, StreamRow *row);
extern void alvyn_stream_read(TupleTableSlot *slot, StreamRow *row);

#endif							/* STREAM_H */
