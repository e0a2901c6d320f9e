/*-------------------------------------------------------------------------
 *
 * refold.c
 *		Checking snapshots against the events they summarize.
 *
 * The stream is folded once from its beginning, and each snapshot that is met
 * on the way must be the state at that point.  Snapshots of another schema
 * version are passed over, as loads do.  Where the beginning of the stream
 * was removed, the first snapshot that is left is taken for true.
 *
 * IDENTIFICATION
 *		src/refold.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fold.h"
#include "refold.h"
#include "replay.h"
#include "snapshot.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

static bool refold_same_state(Fold *fold, const EventRow *row);

/*
 * Do all snapshots of a definition in a stream agree with its events?  The
 * first that does not is returned in "difference".
 */
bool
alvyn_refold_agrees(EventLog *log, const SnapshotDefinition *def,
					text *stream_id, int64 stream_no, Snapshot snapshot,
					EventFacts *difference)
{
	Fold	   *fold = NULL;
	Replay		replay;
	EventRow	row;
	bool		agrees = true;

	alvyn_replay_begin(&replay, log, stream_no, 1, PG_INT64_MAX,
					   ForwardScanDirection, snapshot);
	while (agrees && alvyn_replay_next(&replay, &row))
	{
		if (fold == NULL && row.version == 1)
			fold = alvyn_fold_begin(log, def, stream_id, def->initial_state);
		if (!alvyn_snapshot_is_usable(def, &row))
		{
			if (fold)
				alvyn_fold_event(fold, &row);
		}
		else if (fold == NULL)
			fold = alvyn_fold_begin(log, def, stream_id,
									DatumGetJsonbP(row.data));
		else if (!refold_same_state(fold, &row))
		{
			difference->version = row.version;
			difference->position = row.position;
			agrees = false;
		}
	}
	alvyn_replay_end(&replay);
	if (fold)
		alvyn_fold_end(fold);
	return agrees;
}

/*
 * Is a snapshot the state folded so far?
 */
static bool
refold_same_state(Fold *fold, const EventRow *row)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "alvyn refold",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Jsonb	   *state = alvyn_fold_state(fold);
	Jsonb	   *stored = DatumGetJsonbP(row->data);
	bool		same = compareJsonbContainers(&state->root, &stored->root) == 0;

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return same;
}
