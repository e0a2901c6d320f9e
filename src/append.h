/*-------------------------------------------------------------------------
 *
 * append.h
 *		Appending events to streams.
 *
 * IDENTIFICATION
 *		src/append.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef APPEND_H
#define APPEND_H

#include "compat.h"
#include "event.h"
#include "request.h"

/* Columns of alvyn.append_result. */
enum
{
	RESULT_STREAM_ID = 1,
	RESULT_FIRST_VERSION,
	RESULT_LAST_VERSION,
	RESULT_FIRST_POSITION,
	RESULT_LAST_POSITION,
	RESULT_VERSION,
	RESULT_DUPLICATE,
	RESULT_CONFLICT,
	RESULT_NATTS = RESULT_CONFLICT
};

extern void alvyn_append_run(EventLog *log, AppendRequest *req);
extern void alvyn_append_lock(EventLog *log, AppendStream *stream,
							  bool may_create);
extern void alvyn_append_discard(EventLog *log, AppendRequest *req);
extern bool alvyn_append_version_agrees(AppendStream *stream);
pg_noreturn extern void alvyn_append_refuse(AppendStream *stream);
extern void alvyn_append_row(const AppendEvent *event, EventRow *row);
extern void alvyn_append_result(AppendRequest *req, AppendStream *stream,
								Datum *values, bool *nulls);

#endif							/* APPEND_H */
