/*-------------------------------------------------------------------------
 *
 * snapshot.h
 *		Snapshot events: finding the newest, taking the next.
 *
 * IDENTIFICATION
 *		src/snapshot.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ALVYN_SNAPSHOT_H
#define ALVYN_SNAPSHOT_H

#include "definition.h"
#include "event.h"
#include "fold.h"
#include "request.h"
#include "stream.h"

/* A state and where it comes from. */
typedef struct SnapshotState
{
	Jsonb	   *state;
	int64		version;		/* of the stream, at most the one asked for */
	int64		snapshot_version;	/* 0 when no snapshot was used */
	int64		replayed;		/* events that the definition handles */
} SnapshotState;

extern void alvyn_snapshot_check(EventLog *log, AppendRequest *req);
extern bool alvyn_snapshot_is_usable(const SnapshotDefinition *def,
									 const EventRow *row);
extern void alvyn_snapshot_maintain(EventLog *log, AppendRequest *req);
extern Fold *alvyn_snapshot_fold(EventLog *log, const SnapshotDefinition *def,
								 text *stream_id, const StreamRow *row,
								 int64 at_version, Snapshot snapshot,
								 SnapshotState *result);
extern void alvyn_snapshot_compute(EventLog *log,
								   const SnapshotDefinition *def,
								   text *stream_id, const StreamRow *row,
								   int64 at_version, Snapshot snapshot,
								   SnapshotState *result);

#endif							/* ALVYN_SNAPSHOT_H */
