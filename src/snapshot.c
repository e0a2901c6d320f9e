/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *		Snapshot events: finding the newest, taking the next.
 *
 * A snapshot is an event of the same stream, written by the append that makes
 * it due and in the same transaction.  When is one due?  When the stream has
 * "every" handled events since the last one.  The simple version counts them
 * in every append and so reads up to "every" rows to find, nearly always,
 * that none is due.
 *
 * Instead the row of the stream, which an append locks anyway, carries for
 * each snapshot a mark:
 *
 *		snapshot number, schema version, version of the newest snapshot,
 *		version up to which handled events were counted, their number
 *
 * No snapshot can be due before as many events have come behind the counted
 * ones as are still needed.  Only then are the new ones counted, and either a
 * snapshot is taken or the mark is moved.  So a mark is written at most once
 * for every snapshot in a stream whose events are all handled, and the
 * distance to the next look shrinks geometrically where only some are.
 *
 * A mark whose schema version is not that of the definition is as good as
 * none, and its snapshot is not used.  Neither is one that no longer leads to
 * a snapshot event.
 *
 * Locking
 *		Marks are read and written under the lock of the stream.
 *
 * IDENTIFICATION
 *		src/snapshot.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "fold.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "replay.h"
#include "snapshot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* A stream under maintenance. */
typedef struct Maintenance
{
	EventLog   *log;
	text	   *stream_id;
	StreamRow  *row;
	int64	   *head;			/* of the stream, moved by every snapshot */
	bool		changed;		/* were marks changed? */
} Maintenance;

PG_FUNCTION_INFO_V1(alvyn_check_rules);
PG_FUNCTION_INFO_V1(alvyn_snapshot_version);
PG_FUNCTION_INFO_V1(alvyn_take_snapshot);

static void snapshot_maintain_stream(Maintenance *m,
									 const Definitions *all);
static bool snapshot_maintain(Maintenance *m, const SnapshotDefinition *def);
static void snapshot_write(Maintenance *m, const SnapshotDefinition *def,
						   Jsonb *state);
static int64 snapshot_count(EventLog *log, const SnapshotDefinition *def,
							int64 stream_no, int64 first, int64 last);
static StreamMark *snapshot_mark(StreamRow *row,
								 const SnapshotDefinition *def);
static StreamMark *snapshot_find_mark(const StreamRow *row, int64 snapshot_no);
static Jsonb *snapshot_read(EventLog *log, const SnapshotDefinition *def,
							const StreamRow *row, int64 at_version,
							Snapshot snapshot, int64 *version);
static Jsonb *snapshot_search(EventLog *log, const SnapshotDefinition *def,
							  int64 stream_no, int64 first, int64 last,
							  Snapshot snapshot, int64 *version);

/*
 * alvyn.check_rules(rules jsonb) returns void
 *
 * Raise 22023 unless "rules" is a set of rules.
 */
Datum
alvyn_check_rules(PG_FUNCTION_ARGS)
{
	alvyn_rules_parse(PG_GETARG_JSONB_P(0));
	PG_RETURN_VOID();
}

/*
 * alvyn.snapshot_version(stream_id text, snapshot_name text) returns bigint
 *
 * The version of the newest usable snapshot of a stream, 1 when there is none:
 * the version to load from.
 */
Datum
alvyn_snapshot_version(PG_FUNCTION_ARGS)
{
	text	   *id = alvyn_request_name(fcinfo, 0, "stream_id");
	char	   *name = text_to_cstring(alvyn_request_name(fcinfo, 1, "snapshot_name"));
	const SnapshotDefinition *def = alvyn_definition_snapshot(fcinfo->flinfo->fn_oid,
															  name);
	Snapshot	snapshot = GetActiveSnapshot();
	int64		version = 0;
	EventLog	log;
	StreamRow	row;

	alvyn_definition_check_stream(def, id);
	alvyn_log_open_read(&log, fcinfo->flinfo->fn_oid);
	if (alvyn_stream_find(&log, id, snapshot, &row))
	{
		snapshot_read(&log, def, &row, PG_INT64_MAX, snapshot, &version);
		if (version == 0 && row.version_floor > 0)
			alvyn_stream_refuse_removed(id, &row);
	}
	alvyn_log_close_read(&log);
	PG_RETURN_INT64(Max(version, 1));
}

/*
 * alvyn.take_snapshot(stream_id text, snapshot_name text) returns boolean
 *
 * Take the snapshot of a stream now if it is due; returns whether it was.
 */
Datum
alvyn_take_snapshot(PG_FUNCTION_ARGS)
{
	text	   *id = alvyn_request_name(fcinfo, 0, "stream_id");
	char	   *name = text_to_cstring(alvyn_request_name(fcinfo, 1, "snapshot_name"));
	const SnapshotDefinition *def = alvyn_definition_snapshot(fcinfo->flinfo->fn_oid,
															  name);
	bool		taken = false;
	EventLog	log;
	StreamRow	row;
	int64		head;
	Maintenance m = {&log, id, &row, &head, false};

	PreventCommandIfReadOnly("take_snapshot()");
	alvyn_definition_check_stream(def, id);
	alvyn_log_open_write(&log, fcinfo->flinfo->fn_oid);
	if (alvyn_stream_lock(&log, id, &row) && row.state == STREAM_ACTIVE)
	{
		head = alvyn_event_head(&log, row.stream_no, 0, SnapshotSelf);
		taken = snapshot_maintain(&m, def);
		if (m.changed)
			alvyn_stream_update_marks(&log, &row);
	}
	alvyn_log_close_write(&log);
	CommandCounterIncrement();
	PG_RETURN_BOOL(taken);
}

/*
 * Refuse events that the rules of a snapshot could not fold, before they are
 * written: later they would fail every append that makes a snapshot due.
 */
void
alvyn_snapshot_check(EventLog *log, AppendRequest *req)
{
	const Definitions *all = alvyn_definitions(log->function);
	int			i;
	int			j;

	for (i = 0; i < all->nsnapshots; i++)
	{
		const SnapshotDefinition *def = &all->snapshots[i];

		if (def->rules == NULL)
			continue;
		for (j = 0; j < req->nstreams; j++)
			req->streams[j].checked = 0;
		for (j = 0; j < req->nevents; j++)
		{
			AppendEvent *event = &req->events[j];
			AppendStream *stream = event->stream;

			stream->checked++;
			if (alvyn_definition_covers(def->prefix, stream->id))
				alvyn_fold_check(def, stream->id,
								 stream->head + stream->checked,
								 event->type, event->data);
		}
	}
}

/*
 * Take the snapshots that an append has made due.
 */
void
alvyn_snapshot_maintain(EventLog *log, AppendRequest *req)
{
	const Definitions *all = alvyn_definitions(log->function);
	MemoryContext context;
	MemoryContext old;
	int			i;

	if (all->nsnapshots == 0)
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "alvyn snapshots",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];
		Maintenance m = {log, stream->id, &stream->row, &stream->head, false};

		if (stream->nevents > 0)
			snapshot_maintain_stream(&m, all);

		/* Marks that were added go with the context. */
		stream->row.nmarks = 0;
		stream->row.marks = NULL;
		MemoryContextReset(context);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * Compute a state as of a version, from the newest snapshot at or before it.
 */
void
alvyn_snapshot_compute(EventLog *log, const SnapshotDefinition *def,
					   text *stream_id, const StreamRow *row,
					   int64 at_version, Snapshot snapshot,
					   SnapshotState *result)
{
	Fold	   *fold = alvyn_snapshot_fold(log, def, stream_id, row, at_version,
										   snapshot, result);

	result->state = alvyn_fold_state(fold);
	alvyn_fold_end(fold);
}

/*
 * The same, but return the fold, for more events to be folded.
 */
Fold *
alvyn_snapshot_fold(EventLog *log, const SnapshotDefinition *def,
					text *stream_id, const StreamRow *row, int64 at_version,
					Snapshot snapshot, SnapshotState *result)
{
	Jsonb	   *state;
	int64		first;
	Fold	   *fold;

	state = snapshot_read(log, def, row, at_version, snapshot,
						  &result->snapshot_version);
	if (state == NULL && row->version_floor > 0 && at_version > 0)
		alvyn_stream_refuse_removed(stream_id, row);
	first = result->snapshot_version + 1;
	if (state == NULL)
		state = def->initial_state;

	fold = alvyn_fold_begin(log, def, stream_id, state);
	result->version = alvyn_fold_replay(fold, row->stream_no, first,
										at_version, snapshot);
	result->replayed = alvyn_fold_count(fold);
	return fold;
}

/*
 * Is an event a snapshot of this definition as it is now?
 */
bool
alvyn_snapshot_is_usable(const SnapshotDefinition *def, const EventRow *row)
{
	text	   *type = DatumGetTextPP(row->type);

	return row->snapshot && row->schema_version == def->schema_version &&
		VARSIZE_ANY_EXHDR(type) == strlen(def->event_type) &&
		memcmp(VARDATA_ANY(type), def->event_type,
			   VARSIZE_ANY_EXHDR(type)) == 0;
}

/*
 * Take the snapshots that are due in one stream.
 */
static void
snapshot_maintain_stream(Maintenance *m, const Definitions *all)
{
	int			i;

	for (i = 0; i < all->nsnapshots; i++)
	{
		if (alvyn_definition_covers(all->snapshots[i].prefix, m->stream_id))
			snapshot_maintain(m, &all->snapshots[i]);
	}
	if (m->changed)
		alvyn_stream_update_marks(m->log, m->row);
}

/*
 * Take one snapshot of a stream if it is due.
 */
static bool
snapshot_maintain(Maintenance *m, const SnapshotDefinition *def)
{
	StreamMark	none = {def->snapshot_no, def->schema_version, 0, 0, 0};
	StreamMark *mark = snapshot_find_mark(m->row, def->snapshot_no);
	StreamMark	now = none;
	SnapshotState state;
	bool		taken = false;

	if (mark && mark->schema_version == def->schema_version &&
		mark->version <= *m->head && mark->counted <= *m->head)
		now = *mark;

	/* Without its beginning, a stream needs a snapshot to go on from. */
	if (m->row->version_floor > 0 && now.version <= m->row->version_floor)
		return false;
	if (now.handled + (*m->head - now.counted) < def->every)
		return false;

	now.handled += snapshot_count(m->log, def, m->row->stream_no,
								  now.counted + 1, *m->head);
	now.counted = *m->head;
	if (now.handled >= def->every)
	{
		alvyn_snapshot_compute(m->log, def, m->stream_id, m->row, *m->head,
							   SnapshotSelf, &state);
		snapshot_write(m, def, state.state);
		now.version = now.counted = *m->head;
		now.handled = 0;
		taken = true;
	}
	*snapshot_mark(m->row, def) = now;
	m->changed = true;
	return taken;
}

/*
 * Write a snapshot event.
 */
static void
snapshot_write(Maintenance *m, const SnapshotDefinition *def, Jsonb *state)
{
	EventRow	row;

	memset(&row, 0, sizeof(row));
	row.position = alvyn_event_next_position(m->log);
	row.stream_no = m->row->stream_no;
	row.version = ++*m->head;
	row.time = GetCurrentTimestamp();
	row.schema_version = def->schema_version;
	row.slot = m->row->slot;
	row.snapshot = true;
	row.type = CStringGetTextDatum(def->event_type);
	row.data = JsonbPGetDatum(state);
	alvyn_event_insert(m->log, &row);
}

/*
 * How many of a range of events does a definition handle?
 */
static int64
snapshot_count(EventLog *log, const SnapshotDefinition *def, int64 stream_no,
			   int64 first, int64 last)
{
	Replay		replay;
	EventRow	row;
	int64		count = 0;

	alvyn_replay_begin(&replay, log, stream_no, first, last,
					   ForwardScanDirection, SnapshotSelf);
	while (alvyn_replay_next(&replay, &row))
		count += alvyn_fold_handles(def, &row);
	alvyn_replay_end(&replay);
	return count;
}

/*
 * The mark of a snapshot in the row of a stream, a new one if there is none.
 */
static StreamMark *
snapshot_mark(StreamRow *row, const SnapshotDefinition *def)
{
	StreamMark *mark = snapshot_find_mark(row, def->snapshot_no);

	if (mark == NULL)
	{
		if (row->marks == NULL)
			row->marks = palloc(sizeof(StreamMark));
		else
			row->marks = repalloc(row->marks,
								  sizeof(StreamMark) * (row->nmarks + 1));
		mark = &row->marks[row->nmarks++];
	}
	return mark;
}

/*
 * The mark of a snapshot, or NULL.
 */
static StreamMark *
snapshot_find_mark(const StreamRow *row, int64 snapshot_no)
{
	int			i;

	for (i = 0; i < row->nmarks; i++)
	{
		if (row->marks[i].snapshot_no == snapshot_no)
			return &row->marks[i];
	}
	return NULL;
}

/*
 * The state in the newest usable snapshot at or before a version, with its
 * version; NULL and 0 when there is none.
 *
 * The mark leads to the newest.  Whoever asks for an earlier one reads the
 * stream backwards, which costs no more than the replay from it will.
 */
static Jsonb *
snapshot_read(EventLog *log, const SnapshotDefinition *def,
			  const StreamRow *row, int64 at_version, Snapshot snapshot,
			  int64 *version)
{
	StreamMark *mark = snapshot_find_mark(row, def->snapshot_no);
	Jsonb	   *state = NULL;

	*version = 0;
	if (mark == NULL || mark->schema_version != def->schema_version ||
		mark->version == 0)
		return NULL;
	if (mark->version <= at_version)
		state = snapshot_search(log, def, row->stream_no, mark->version,
								mark->version, snapshot, version);
	if (state == NULL)
		state = snapshot_search(log, def, row->stream_no, 1,
								Min(mark->version, at_version), snapshot,
								version);
	return state;
}

/*
 * The state in the last usable snapshot within a range of versions.
 */
static Jsonb *
snapshot_search(EventLog *log, const SnapshotDefinition *def,
				int64 stream_no, int64 first, int64 last, Snapshot snapshot,
				int64 *version)
{
	Replay		replay;
	EventRow	row;
	Jsonb	   *state = NULL;

	alvyn_replay_begin(&replay, log, stream_no, first, last,
					   BackwardScanDirection, snapshot);
	while (state == NULL && alvyn_replay_next(&replay, &row))
	{
		if (alvyn_snapshot_is_usable(def, &row))
		{
			*version = row.version;
			state = DatumGetJsonbPCopy(row.data);
		}
	}
	alvyn_replay_end(&replay);
	return state;
}
