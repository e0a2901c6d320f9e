/*-------------------------------------------------------------------------
 *
 * event.h
 *		Rows of alvyn.events: the head of a stream, and inserting.
 *
 * IDENTIFICATION
 *		src/event.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVENT_H
#define EVENT_H

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "log.h"
#include "utils/snapshot.h"

/* Columns of alvyn.events. */
enum
{
	EVENTS_POSITION = 1,
	EVENTS_STREAM_NO,
	EVENTS_VERSION,
	EVENTS_TIME,
	EVENTS_SCHEMA_VERSION,
	EVENTS_SLOT,
	EVENTS_SNAPSHOT,
	EVENTS_TYPE,
	EVENTS_DATA,
	EVENTS_METADATA,
	EVENTS_ID,
	EVENTS_NATTS = EVENTS_ID
};

/* Columns of the row type alvyn.event, counted from 0. */
enum
{
	EVENT_POSITION,
	EVENT_STREAM_ID,
	EVENT_VERSION,
	EVENT_ID,
	EVENT_TYPE,
	EVENT_TIME,
	EVENT_DATA,
	EVENT_METADATA,
	EVENT_SCHEMA_VERSION,
	EVENT_SNAPSHOT,
	EVENT_NATTS
};

/* The columns before the first of variable length, as a row stores them. */
typedef struct EventFixed
{
	int64		position;
	int64		stream_no;
	int64		version;
	TimestampTz time;
	int32		schema_version;
	int16		slot;
	bool		snapshot;
} EventFixed;

/* One row to insert; a Datum of 0 in metadata or id stands for NULL. */
typedef struct EventRow
{
	int64		position;
	int64		stream_no;
	int64		version;
	TimestampTz time;
	int32		schema_version;
	int16		slot;
	bool		snapshot;
	Datum		type;
	Datum		data;
	Datum		metadata;
	Datum		id;
} EventRow;

/* Rows on their way into the table, inserted many at a time. */
typedef struct EventWriter
{
	EventLog   *log;
	int			max_rows;
	int			nrows;
	Size		bytes;
	TupleTableSlot **slots;
	MemoryContext context;		/* of the tuples, reset with every flush */
} EventWriter;

extern int64 alvyn_event_head(EventLog *log, int64 stream_no, int64 guess,
							  Snapshot snapshot);
extern void alvyn_event_read(TupleTableSlot *slot, EventRow *row);
extern void alvyn_event_values(const EventRow *row, const text *stream_id,
							   Datum *values, bool *nulls);
extern int64 alvyn_event_next_position(EventLog *log);
extern void alvyn_event_insert(EventLog *log, const EventRow *row);
extern void alvyn_event_writer_begin(EventWriter *writer, EventLog *log,
									 int nrows);
extern void alvyn_event_writer_add(EventWriter *writer, const EventRow *row);
extern void alvyn_event_writer_end(EventWriter *writer);

#endif							/* EVENT_H */
