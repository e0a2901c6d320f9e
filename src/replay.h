/*-------------------------------------------------------------------------
 *
 * replay.h
 *		Reading the events of a stream, with their payloads.
 *
 * IDENTIFICATION
 *		src/replay.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "access/genam.h"
#include "event.h"
#include "log.h"
#include "utils/snapshot.h"

typedef struct Replay
{
	EventLog   *log;
	IndexScanDesc scan;
	ScanDirection direction;
	TupleTableSlot *slot;		/* that of the log, or one of the reader's */
} Replay;

extern void alvyn_replay_begin(Replay *replay, EventLog *log,
							   int64 stream_no, int64 first, int64 last,
							   ScanDirection direction, Snapshot snapshot);
extern bool alvyn_replay_next(Replay *replay, EventRow *row);
extern void alvyn_replay_end(Replay *replay);

#endif							/* REPLAY_H */
