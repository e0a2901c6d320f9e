/*-------------------------------------------------------------------------
 *
 * request.h
 *		What an append was asked to do, checked.
 *
 * IDENTIFICATION
 *		src/request.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "stream.h"

/* Longest stream id, event type, event id and idempotency key, in bytes. */
#define REQUEST_MAX_NAME	512

/* Special values of an expected version. */
#define EXPECTED_EXISTS		(-2)
#define EXPECTED_NONE		(-1)

/* One event to append.  A Datum of 0 stands for NULL. */
typedef struct AppendEvent
{
	struct AppendStream *stream;
	Datum		type;
	Datum		data;
	Datum		metadata;
	Datum		id;
	TimestampTz time;
	bool		has_time;
	int32		schema_version;
	int64		version;		/* when it is appended */
	int64		position;
} AppendEvent;

/* One stream of the request; below the line what the append finds out. */
typedef struct AppendStream
{
	text	   *id;
	bool		has_expected;
	int64		expected;
	Datum		command;		/* for a decider, or 0 */
	int			nevents;
	int			first_event;	/* index of its first event or command */

	bool		locked;
	bool		created;		/* by this call */
	StreamRow	row;
	int			checked;		/* events that were checked against rules */
	bool		knows_head;		/* has the caller read it under the lock? */
	int64		head;
	int64		seen;			/* head in the transaction's snapshot */
	int64		first_version;
	int64		last_version;
	int64		first_position;
	int64		last_position;
} AppendStream;

/* An append: its streams in byte order of their ids, its events in order. */
typedef struct AppendRequest
{
	int			nstreams;
	AppendStream *streams;
	int			nevents;
	AppendEvent *events;
	text	   *key;			/* idempotency key, or NULL */
	bool		is_command;		/* events are still to be decided */

	AppendStream *conflict;		/* whose version was not the expected one */
	bool		duplicate;		/* the key was used before */
} AppendRequest;

extern void alvyn_request_init(void);
extern void alvyn_request_single(AppendRequest *req, FunctionCallInfo fcinfo);
extern void alvyn_request_batch(AppendRequest *req, FunctionCallInfo fcinfo);
extern void alvyn_request_streams(AppendRequest *req, FunctionCallInfo fcinfo);
extern void alvyn_request_command(AppendRequest *req,
								  FunctionCallInfo fcinfo);
extern void alvyn_request_commands(AppendRequest *req,
								   FunctionCallInfo fcinfo);
extern void alvyn_request_check_event(AppendEvent *event, bool plural,
									  int element);

/* Arguments of other functions. */
extern text *alvyn_request_name(FunctionCallInfo fcinfo, int arg,
								const char *name);
extern void alvyn_request_at_least(FunctionCallInfo fcinfo, int arg,
								   const char *name, int64 least);

#endif							/* REQUEST_H */
