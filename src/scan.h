/*-------------------------------------------------------------------------
 *
 * scan.h
 *		Walking the events stream by stream, without their payloads.
 *
 * IDENTIFICATION
 *		src/scan.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCAN_H
#define SCAN_H

#include "access/genam.h"
#include "log.h"
#include "storage/buf.h"
#include "utils/snapshot.h"

/* What a walk reads of each event. */
typedef struct EventFacts
{
	int64		position;
	int64		stream_no;
	int64		version;
	int16		slot;
	bool		snapshot;
} EventFacts;

typedef struct EventScan
{
	EventLog   *log;
	Snapshot	snapshot;
	IndexScanDesc index;
	int64		last;			/* highest stream number wanted */
	bool		may_skip;		/* may visibility checks be left out? */
	Buffer		buffer;			/* pinned heap page, or invalid */
} EventScan;

extern void alvyn_scan_begin(EventScan *scan, EventLog *log,
							 Snapshot snapshot);
extern void alvyn_scan_streams(EventScan *scan, int64 first, int64 last);
extern bool alvyn_scan_next(EventScan *scan, EventFacts *facts);
extern bool alvyn_scan_edge(EventScan *scan, ScanDirection direction,
							int64 *stream_no);
extern void alvyn_scan_end(EventScan *scan);

#endif							/* SCAN_H */
