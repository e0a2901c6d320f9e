/*-------------------------------------------------------------------------
 *
 * refold.h
 *		Checking snapshots against the events they summarize.
 *
 * IDENTIFICATION
 *		src/refold.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef REFOLD_H
#define REFOLD_H

#include "definition.h"
#include "scan.h"

extern bool alvyn_refold_agrees(EventLog *log, const SnapshotDefinition *def,
								text *stream_id, int64 stream_no,
								Snapshot snapshot, EventFacts *difference);

#endif							/* REFOLD_H */
