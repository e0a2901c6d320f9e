/*-------------------------------------------------------------------------
 *
 * feed.h
 *		Reading all events in the order of their positions, completely.
 *
 * IDENTIFICATION
 *		src/feed.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef FEED_H
#define FEED_H

#include "access/genam.h"
#include "event.h"
#include "log.h"
#include "pending.h"
#include "utils/array.h"
#include "utils/snapshot.h"

/* Which events a reader wants; a field that is NULL or empty wants all. */
typedef struct FeedFilter
{
	text	   *category;
	text	   *prefix;
	int			ntypes;
	text	  **types;
	bool		snapshots;		/* also generated snapshots? */
	ArrayType  *key;			/* payload path that is hashed to a slot, or
								 * NULL for the slot of the stream */
	int			first_slot;
	int			last_slot;
} FeedFilter;

typedef struct Feed
{
	EventLog   *log;
	const FeedFilter *filter;
	bool		wait;			/* for holes that may still be filled */

	int64		expected;		/* the position that comes next */
	int64		high;			/* last position handed out at the start */
	XLogRecPtr	unflushed;		/* WAL of the sequence then, or invalid */
	Pending		pending;		/* that held the sequence then */
	IndexScanDesc scan;			/* or NULL when there is nothing to read */
	SnapshotData dirty;
	bool		stopped;
	int64		decided;		/* the row that was read last */
	MemoryContext context;		/* of what the filter computes from a row */
	const text *stream_id;		/* of the event that was read last, or NULL */
} Feed;

extern void alvyn_feed_begin(Feed *feed, EventLog *log,
							 const FeedFilter *filter, int64 after,
							 bool wait);
extern bool alvyn_feed_next(Feed *feed, EventRow *row);
extern int64 alvyn_feed_bound(Feed *feed);
extern int64 alvyn_feed_reached(const Feed *feed);
extern bool alvyn_feed_is_resolved(const Feed *feed);
extern void alvyn_feed_skip_resolved(Feed *feed);
extern void alvyn_feed_prove(Feed *feed);
extern int64 alvyn_feed_resolve(EventLog *log, int64 after, bool wait);
extern bool alvyn_feed_wants_stream(Feed *feed, int64 stream_no);
extern bool alvyn_feed_wants_row(Feed *feed, const EventRow *row);
extern int64 alvyn_feed_last_position(Oid function);
extern void alvyn_feed_end(Feed *feed);

#endif							/* FEED_H */
