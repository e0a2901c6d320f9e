/*-------------------------------------------------------------------------
 *
 * event.c
 *		Rows of alvyn.events: the head of a stream, and inserting.
 *
 * The head of a stream is the last entry for its number in the index on
 * (stream_no, version): one descent, and no counter that every append would
 * have to rewrite.
 *
 * Several rows go into the heap together through table_multi_insert(), which
 * writes one WAL record per page instead of one per row.
 *
 * Locking
 *		Whoever calls anything but alvyn_event_head() holds the lock of the
 *		stream (see stream.c).
 *
 * IDENTIFICATION
 *		src/event.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/sequence.h"
#include "compat.h"
#include "event.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "wake.h"

/* Rows and bytes that are collected before they are written. */
#define WRITER_MAX_ROWS		100
#define WRITER_MAX_BYTES	(256 * 1024)

/* Digits and sign of a bigint. */
#define MAXINT8LEN			20

PG_FUNCTION_INFO_V1(alvyn_event_id);

static void event_store(TupleTableSlot *slot, const EventRow *row);
static text *event_derived_id(const text *stream_id, int64 version);
static int64 event_last_version(EventLog *log, int64 stream_no, int64 first,
								Snapshot snapshot);
static void event_writer_flush(EventWriter *writer);

/*
 * alvyn.event_id(id text, stream_id text, version bigint) returns text
 *
 * The id of an event: the one its writer gave, or else stream_id/version.
 */
Datum
alvyn_event_id(PG_FUNCTION_ARGS)
{
	if (!PG_ARGISNULL(0))
		PG_RETURN_DATUM(PG_GETARG_DATUM(0));
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(event_derived_id(PG_GETARG_TEXT_PP(1),
									  PG_GETARG_INT64(2)));
}

/*
 * The highest version of a stream that "snapshot" sees, 0 when there is none.
 *
 * A btree scan reads all matching entries of a leaf page before it returns
 * the first, some 180 of them in a long stream.  Whoever guesses a version
 * that the stream has, such as the one a caller expects, saves that: only
 * entries from "guess" on are read.  A wrong guess costs a second descent.
 */
int64
alvyn_event_head(EventLog *log, int64 stream_no, int64 guess,
				 Snapshot snapshot)
{
	int64		head = 0;

	if (guess > 1)
		head = event_last_version(log, stream_no, guess, snapshot);
	if (head == 0)
		head = event_last_version(log, stream_no, 1, snapshot);
	return head;
}

/*
 * Take a row out of a slot.  Its values point into the slot.
 */
void
alvyn_event_read(TupleTableSlot *slot, EventRow *row)
{
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;

	slot_getsomeattrs(slot, EVENTS_NATTS);
	row->position = DatumGetInt64(values[EVENTS_POSITION - 1]);
	row->stream_no = DatumGetInt64(values[EVENTS_STREAM_NO - 1]);
	row->version = DatumGetInt64(values[EVENTS_VERSION - 1]);
	row->time = DatumGetTimestampTz(values[EVENTS_TIME - 1]);
	row->schema_version = DatumGetInt32(values[EVENTS_SCHEMA_VERSION - 1]);
	row->slot = DatumGetInt16(values[EVENTS_SLOT - 1]);
	row->snapshot = DatumGetBool(values[EVENTS_SNAPSHOT - 1]);
	row->type = values[EVENTS_TYPE - 1];
	row->data = values[EVENTS_DATA - 1];
	row->metadata = nulls[EVENTS_METADATA - 1] ? (Datum) 0 :
		values[EVENTS_METADATA - 1];
	row->id = nulls[EVENTS_ID - 1] ? (Datum) 0 : values[EVENTS_ID - 1];
}

/*
 * An event as the columns of alvyn.event.
 */
void
alvyn_event_values(const EventRow *row, const text *stream_id, Datum *values,
				   bool *nulls)
{
	memset(nulls, false, EVENT_NATTS * sizeof(bool));
	values[EVENT_POSITION] = Int64GetDatum(row->position);
	values[EVENT_STREAM_ID] = PointerGetDatum(stream_id);
	nulls[EVENT_STREAM_ID] = stream_id == NULL;
	values[EVENT_VERSION] = Int64GetDatum(row->version);
	values[EVENT_ID] = row->id;
	if (row->id == (Datum) 0 && stream_id)
		values[EVENT_ID] = PointerGetDatum(event_derived_id(stream_id,
															row->version));
	nulls[EVENT_ID] = values[EVENT_ID] == (Datum) 0;
	values[EVENT_TYPE] = row->type;
	values[EVENT_TIME] = TimestampTzGetDatum(row->time);
	values[EVENT_DATA] = row->data;
	values[EVENT_METADATA] = row->metadata;
	nulls[EVENT_METADATA] = row->metadata == (Datum) 0;
	values[EVENT_SCHEMA_VERSION] = Int32GetDatum(row->schema_version);
	values[EVENT_SNAPSHOT] = BoolGetDatum(row->snapshot);
}

/*
 * Take the next position.  nextval locks the sequence until the end of the
 * transaction, and the feed relies on that lock: call this only after every
 * check that could refuse the append.  The feed also relies on a transaction
 * inserting its events in the order of their positions.
 */
int64
alvyn_event_next_position(EventLog *log)
{
	alvyn_wake_taken++;
	return nextval_internal(log->catalog->events_position_seq, false);
}

/*
 * Insert one row.
 */
void
alvyn_event_insert(EventLog *log, const EventRow *row)
{
	event_store(log->events.slot, row);
	alvyn_log_insert(log, &log->events);
	ExecClearTuple(log->events.slot);
}

/*
 * Prepare for inserting "nrows" rows.
 */
void
alvyn_event_writer_begin(EventWriter *writer, EventLog *log, int nrows)
{
	int			i;

	writer->log = log;
	writer->max_rows = Min(nrows, WRITER_MAX_ROWS);
	writer->nrows = 0;
	writer->bytes = 0;
	writer->context = AllocSetContextCreate(CurrentMemoryContext,
											"alvyn append batch",
											ALLOCSET_DEFAULT_SIZES);
	writer->slots = palloc(writer->max_rows * sizeof(TupleTableSlot *));
	for (i = 0; i < writer->max_rows; i++)
		writer->slots[i] = table_slot_create(log->events.rel, NULL);
}

/*
 * Add a row; it is written now or with one of those that follow.
 */
void
alvyn_event_writer_add(EventWriter *writer, const EventRow *row)
{
	if (!writer->log->events.plain)
	{
		alvyn_event_insert(writer->log, row);
		return;
	}
	event_store(writer->slots[writer->nrows++], row);
	writer->bytes += VARSIZE_ANY(DatumGetPointer(row->data));
	if (writer->nrows == writer->max_rows || writer->bytes > WRITER_MAX_BYTES)
		event_writer_flush(writer);
}

/*
 * Write what is left and release the slots.
 */
void
alvyn_event_writer_end(EventWriter *writer)
{
	int			i;

	event_writer_flush(writer);
	for (i = 0; i < writer->max_rows; i++)
		ExecDropSingleTupleTableSlot(writer->slots[i]);
	MemoryContextDelete(writer->context);
}

/*
 * The id of an event that its writer gave none: stream_id/version.
 */
static text *
event_derived_id(const text *stream_id, int64 version)
{
	Size		length = VARSIZE_ANY_EXHDR(stream_id);
	text	   *result = palloc(VARHDRSZ + length + 1 + MAXINT8LEN + 1);
	char	   *end = VARDATA(result) + length;

	memcpy(VARDATA(result), VARDATA_ANY(stream_id), length);
	*end++ = '/';
	end += pg_lltoa(version, end);
	SET_VARSIZE(result, end - (char *) result);
	return result;
}

/*
 * The highest version from "first" on, 0 when there is none.
 */
static int64
event_last_version(EventLog *log, int64 stream_no, int64 first,
				   Snapshot snapshot)
{
	IndexScanDesc scan;
	ScanKeyData keys[2];
	int64		version = 0;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(stream_no));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(first));
	scan = alvyn_index_beginscan(log->events.rel, log->events_by_version,
								 snapshot, 2);
	index_rescan(scan, keys, 2, NULL, 0);
	if (index_getnext_slot(scan, BackwardScanDirection, log->events.slot))
	{
		bool		isnull;

		version = DatumGetInt64(slot_getattr(log->events.slot, EVENTS_VERSION,
											 &isnull));
	}
	ExecClearTuple(log->events.slot);
	index_endscan(scan);
	return version;
}

/*
 * Write the collected rows and their index entries.
 */
static void
event_writer_flush(EventWriter *writer)
{
	EventLog   *log = writer->log;
	MemoryContext old;
	int			i;

	if (writer->nrows == 0)
		return;

	old = MemoryContextSwitchTo(writer->context);
	table_multi_insert(log->events.rel, writer->slots, writer->nrows,
					   GetCurrentCommandId(true), 0, NULL);
	for (i = 0; i < writer->nrows; i++)
	{
		alvyn_insert_index_tuples(log->events.result, writer->slots[i],
								  log->estate, false, NULL, NIL);
		ResetPerTupleExprContext(log->estate);
		ExecClearTuple(writer->slots[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(writer->context);
	writer->nrows = 0;
	writer->bytes = 0;
	CHECK_FOR_INTERRUPTS();
}

/*
 * Put a row into a slot.
 */
static void
event_store(TupleTableSlot *slot, const EventRow *row)
{
	Datum	   *values = slot->tts_values;
	bool	   *nulls = slot->tts_isnull;
	int			natts = slot->tts_tupleDescriptor->natts;

	ExecClearTuple(slot);
	memset(nulls, false, EVENTS_NATTS * sizeof(bool));
	values[EVENTS_POSITION - 1] = Int64GetDatum(row->position);
	values[EVENTS_STREAM_NO - 1] = Int64GetDatum(row->stream_no);
	values[EVENTS_VERSION - 1] = Int64GetDatum(row->version);
	values[EVENTS_TIME - 1] = TimestampTzGetDatum(row->time);
	values[EVENTS_SCHEMA_VERSION - 1] = Int32GetDatum(row->schema_version);
	values[EVENTS_SLOT - 1] = Int16GetDatum(row->slot);
	values[EVENTS_SNAPSHOT - 1] = BoolGetDatum(row->snapshot);
	values[EVENTS_TYPE - 1] = row->type;
	values[EVENTS_DATA - 1] = row->data;
	values[EVENTS_METADATA - 1] = row->metadata;
	nulls[EVENTS_METADATA - 1] = row->metadata == (Datum) 0;
	values[EVENTS_ID - 1] = row->id;
	nulls[EVENTS_ID - 1] = row->id == (Datum) 0;

	/* Columns that an owner added. */
	if (natts > EVENTS_NATTS)
		memset(nulls + EVENTS_NATTS, true,
			   (natts - EVENTS_NATTS) * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}
