/*-------------------------------------------------------------------------
 *
 * fold.h
 *		Folding the events of a stream to a state.
 *
 * IDENTIFICATION
 *		src/fold.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef FOLD_H
#define FOLD_H

#include "definition.h"
#include "event.h"
#include "log.h"
#include "utils/snapshot.h"

typedef struct Fold Fold;

extern Fold *alvyn_fold_begin(EventLog *log, const SnapshotDefinition *def,
							  text *stream_id, Jsonb *state);
extern bool alvyn_fold_handles(const SnapshotDefinition *def,
							   const EventRow *row);
extern void alvyn_fold_check(const SnapshotDefinition *def, text *stream_id,
							 int64 version, Datum type, Datum data);
extern void alvyn_fold_event(Fold *fold, const EventRow *row);
extern int64 alvyn_fold_replay(Fold *fold, int64 stream_no, int64 first,
							   int64 last, Snapshot snapshot);
extern int64 alvyn_fold_count(const Fold *fold);
extern Jsonb *alvyn_fold_state(Fold *fold);
extern void alvyn_fold_end(Fold *fold);

extern void alvyn_fold_call_begin(bool *was_read_only);
extern void alvyn_fold_call_end(bool was_read_only);

#endif							/* FOLD_H */
