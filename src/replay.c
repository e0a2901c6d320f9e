/*-------------------------------------------------------------------------
 *
 * replay.c
 *		Reading the events of a stream, with their payloads.
 *
 * The values of a row point into the page it stands on and last until the
 * next row is read; whoever keeps one copies it.
 *
 * IDENTIFICATION
 *		src/replay.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "replay.h"
#include "utils/fmgroids.h"

/*
 * Begin reading the versions "first" to "last" of a stream, up or down.
 */
void
alvyn_replay_begin(Replay *replay, EventLog *log, int64 stream_no,
				   int64 first, int64 last, ScanDirection direction,
				   Snapshot snapshot)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(stream_no));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(first));
	ScanKeyInit(&keys[2], 2, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(last));
	replay->log = log;
	replay->direction = direction;
	replay->slot = log->events.slot;
	replay->scan = alvyn_index_beginscan(log->events.rel,
										 log->events_by_version, snapshot, 3);
	index_rescan(replay->scan, keys, 3, NULL, 0);
}

/*
 * Read the next event.  Returns false when there is none.
 */
bool
alvyn_replay_next(Replay *replay, EventRow *row)
{
	CHECK_FOR_INTERRUPTS();
	if (!index_getnext_slot(replay->scan, replay->direction, replay->slot))
		return false;

	alvyn_event_read(replay->slot, row);
	return true;
}

/*
 * Stop reading.
 */
void
alvyn_replay_end(Replay *replay)
{
	ExecClearTuple(replay->slot);
	index_endscan(replay->scan);
}
