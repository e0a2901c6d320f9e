/*-------------------------------------------------------------------------
 *
 * append.c
 *		Appending events to streams.
 *
 * Every append, of one event or of many to several streams, goes the same
 * way, and the order of its steps is what the invariants rest on:
 *
 *	1. Lock the streams in the byte order of their ids, creating those that
 *	   are to be new (stream.c).  Two calls over the same streams therefore
 *	   never deadlock.
 *	2. Look the idempotency key up; a call that was made before ends here.
 *	3. Read the heads under the locks and compare them with what the caller
 *	   expects.  A call that is refused ends here, before it has taken a
 *	   position.
 *	4. Take a position for each event from the sequence, insert the events.
 *
 * The simple version, reading the head first and letting the unique index
 * refuse the loser, does not do: the loser would get a unique violation, hold
 * a position that others wait for, and "any version" would conflict.
 *
 * Isolation
 *		Under READ COMMITTED the head is whatever is committed once the lock
 *		is granted.  Under REPEATABLE READ and SERIALIZABLE the transaction
 *		cannot see events that were committed after its snapshot, so when the
 *		head has moved since, the append is refused like any other conflict.
 *		Reading the head with the transaction's snapshot also takes the
 *		predicate locks that SERIALIZABLE needs.
 *
 * At the end the command counter is advanced, so that a second append in the
 * same SQL statement sees the rows of the first.
 *
 * IDENTIFICATION
 *		src/append.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "append.h"
#include "event.h"
#include "funcapi.h"
#include "gate.h"
#include "idempotency.h"
#include "miscadmin.h"
#include "request.h"
#include "snapshot.h"
#include "tcop/utility.h"
#include "tenant.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(alvyn_append);
PG_FUNCTION_INFO_V1(alvyn_append_batch);
PG_FUNCTION_INFO_V1(alvyn_append_streams);
PG_FUNCTION_INFO_V1(alvyn_try_append);
PG_FUNCTION_INFO_V1(alvyn_try_append_batch);
PG_FUNCTION_INFO_V1(alvyn_try_append_streams);

typedef void (*RequestReader) (AppendRequest *req, FunctionCallInfo fcinfo);

static Datum append_one(FunctionCallInfo fcinfo, RequestReader reader,
						bool raise);
static Datum append_set(FunctionCallInfo fcinfo, bool raise);
static void append_run(AppendRequest *req, FunctionCallInfo fcinfo);
static void append_new(EventLog *log, AppendRequest *req);
static void append_check_state(AppendStream *stream);
static void append_read_head(EventLog *log, AppendStream *stream);
static AppendStream *append_find_conflict(AppendRequest *req);
static void append_write(EventLog *log, AppendRequest *req);
static void append_number(EventLog *log, AppendEvent *event, EventRow *row);
static Datum *append_results(AppendRequest *req, FunctionCallInfo fcinfo,
							 uint64 *count);
static int	append_result_order(const void *a, const void *b);
static Datum append_result(AppendRequest *req, AppendStream *stream,
						   FunctionCallInfo fcinfo);

/*
 * alvyn.append(stream_id, expected_version, type, data, metadata, id, "time",
 * schema_version, idempotency_key) returns append_result
 *
 * Append one event.  Raises 40001 (constraint expected_version) when the
 * stream is not at the expected version, 23505 (idempotency_key) when the key
 * was used for other content, 22023 and 54000 for arguments, 55000 for a
 * stream that is closed.
 */
Datum
alvyn_append(PG_FUNCTION_ARGS)
{
	return append_one(fcinfo, alvyn_request_single, true);
}

/*
 * alvyn.try_append(...) returns append_result
 *
 * The same, but a version conflict is a result instead of an error.
 */
Datum
alvyn_try_append(PG_FUNCTION_ARGS)
{
	return append_one(fcinfo, alvyn_request_single, false);
}

/*
 * alvyn.append_batch(stream_id, expected_version, types, data, metadata, ids,
 * times, schema_versions, idempotency_key) returns append_result
 *
 * Append several events to one stream.
 */
Datum
alvyn_append_batch(PG_FUNCTION_ARGS)
{
	return append_one(fcinfo, alvyn_request_batch, true);
}

/*
 * alvyn.try_append_batch(...) returns append_result
 */
Datum
alvyn_try_append_batch(PG_FUNCTION_ARGS)
{
	return append_one(fcinfo, alvyn_request_batch, false);
}

/*
 * alvyn.append_streams(stream_ids, types, data, metadata, check_streams,
 * check_versions, idempotency_key) returns setof append_result
 *
 * Append events to several streams, one element of the arrays each.  Returns
 * a row for each stream written, in the order of their first events.
 */
Datum
alvyn_append_streams(PG_FUNCTION_ARGS)
{
	return append_set(fcinfo, true);
}

/*
 * alvyn.try_append_streams(...) returns setof append_result
 *
 * The same; a version conflict returns one row, for the stream that has it.
 */
Datum
alvyn_try_append_streams(PG_FUNCTION_ARGS)
{
	return append_set(fcinfo, false);
}

/*
 * An append with one result.
 */
static Datum
append_one(FunctionCallInfo fcinfo, RequestReader reader, bool raise)
{
	AppendRequest req;

	reader(&req, fcinfo);
	append_run(&req, fcinfo);
	if (raise && req.conflict)
		alvyn_append_refuse(req.conflict);
	return append_result(&req, req.streams, fcinfo);
}

/*
 * An append with a result a stream.  All is done in the first call.
 */
static Datum
append_set(FunctionCallInfo fcinfo, bool raise)
{
	FuncCallContext *context;
	Datum	   *results;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		AppendRequest req;

		context = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
		alvyn_request_streams(&req, fcinfo);
		append_run(&req, fcinfo);
		if (raise && req.conflict)
			alvyn_append_refuse(req.conflict);
		context->user_fctx = append_results(&req, fcinfo, &context->max_calls);
		MemoryContextSwitchTo(old);
	}

	context = SRF_PERCALL_SETUP();
	results = context->user_fctx;
	if (context->call_cntr < context->max_calls)
	{
		/* The macro counts before it evaluates its argument. */
		Datum		result = results[context->call_cntr];

		SRF_RETURN_NEXT(context, result);
	}
	SRF_RETURN_DONE(context);
}

/*
 * Open the store and do what a request asks for.
 */
static void
append_run(AppendRequest *req, FunctionCallInfo fcinfo)
{
	EventLog	log;

	PreventCommandIfReadOnly("append()");
	PreventCommandIfParallelMode("append()");
	alvyn_gate_enter();
	alvyn_log_open_write(&log, fcinfo->flinfo->fn_oid);
	alvyn_append_run(&log, req);
	alvyn_log_close_write(&log);
	CommandCounterIncrement();
}

/*
 * Do what a request asks for.  A version conflict is left in the request.
 */
void
alvyn_append_run(EventLog *log, AppendRequest *req)
{
	int			i;

	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];

		if (!stream->locked)
			alvyn_append_lock(log, stream, !stream->has_expected ||
							  stream->expected == 0 ||
							  stream->expected == EXPECTED_NONE);
		CHECK_FOR_INTERRUPTS();
	}
	if (!req->key || !alvyn_idempotency_find(log, req))
	{
		for (i = 0; i < req->nstreams; i++)
			append_check_state(&req->streams[i]);
		append_new(log, req);
	}
	alvyn_append_discard(log, req);
}

/*
 * Do what a request asks for under the locks, unless it was done before.
 */
static void
append_new(EventLog *log, AppendRequest *req)
{
	int			i;

	for (i = 0; i < req->nstreams; i++)
		append_read_head(log, &req->streams[i]);
	req->conflict = append_find_conflict(req);
	if (req->conflict)
		return;

	alvyn_tenant_charge(log, req);
	alvyn_snapshot_check(log, req);
	append_write(log, req);
	alvyn_snapshot_maintain(log, req);
	if (req->key)
		alvyn_idempotency_store(log, req);
}

/*
 * Lock a stream, creating it when it is not there but may be new.
 */
void
alvyn_append_lock(EventLog *log, AppendStream *stream, bool may_create)
{
	do
	{
		stream->locked = alvyn_stream_lock(log, stream->id, &stream->row);
		if (!stream->locked && may_create)
			stream->created = alvyn_stream_create(log, stream->id,
												  &stream->row);
	} while (may_create && !stream->locked && !stream->created);
}

/*
 * Refuse a stream that takes no more events.
 */
static void
append_check_state(AppendStream *stream)
{
	if (stream->nevents > 0 && stream->locked &&
		stream->row.state != STREAM_ACTIVE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream \"%s\" is %s", text_to_cstring(stream->id),
						stream->row.state == STREAM_ARCHIVED ?
						"archived" : "tombstoned"),
				 errdetail("It takes no more events.")));
}

/*
 * Read the head of a stream, also as the transaction's snapshot sees it.
 */
static void
append_read_head(EventLog *log, AppendStream *stream)
{
	int64		guess = stream->has_expected ? stream->expected : 0;

	if (!stream->locked)
		return;
	if (stream->knows_head)
	{
		stream->seen = stream->head;
		return;
	}
	stream->head = alvyn_event_head(log, stream->row.stream_no, guess,
									SnapshotSelf);
	stream->head = Max(stream->head, stream->row.version_floor);
	stream->seen = stream->head;
	if (IsolationUsesXactSnapshot())
		stream->seen = Max(alvyn_event_head(log, stream->row.stream_no,
											stream->head,
											GetTransactionSnapshot()),
						   stream->row.version_floor);
}

/*
 * The first stream that is not at its expected version, or NULL.
 */
static AppendStream *
append_find_conflict(AppendRequest *req)
{
	int			i;

	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];

		if (!alvyn_append_version_agrees(stream) || stream->head != stream->seen)
			return stream;
	}
	return NULL;
}

/*
 * Is a stream at its expected version?
 */
bool
alvyn_append_version_agrees(AppendStream *stream)
{
	if (!stream->has_expected)
		return true;
	if (stream->expected == EXPECTED_EXISTS)
		return stream->head > 0;
	if (stream->expected == EXPECTED_NONE)
		return stream->head == 0;
	return stream->head == stream->expected;
}

/*
 * Take back the streams that this call has created and written nothing to:
 * those of a call that was refused or made before, and those that it only had
 * to find absent.  Until the transaction ends, others still wait for the row.
 */
void
alvyn_append_discard(EventLog *log, AppendRequest *req)
{
	int			i;

	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];

		if (stream->created &&
			(req->conflict || req->duplicate || stream->nevents == 0))
			alvyn_stream_discard(log, &stream->row);
	}
}

/*
 * Insert the events.
 */
static void
append_write(EventLog *log, AppendRequest *req)
{
	EventRow	row;
	int			i;

	if (req->nevents == 1)
	{
		append_number(log, &req->events[0], &row);
		alvyn_event_insert(log, &row);
	}
	else
	{
		EventWriter writer;

		alvyn_event_writer_begin(&writer, log, req->nevents);
		for (i = 0; i < req->nevents; i++)
		{
			append_number(log, &req->events[i], &row);
			alvyn_event_writer_add(&writer, &row);
		}
		alvyn_event_writer_end(&writer);
	}
}

/*
 * Give an event its version, position and time, and make a row of it.
 */
static void
append_number(EventLog *log, AppendEvent *event, EventRow *row)
{
	AppendStream *stream = event->stream;

	event->position = alvyn_event_next_position(log);
	event->version = ++stream->head;
	if (!event->has_time)
		event->time = GetCurrentTimestamp();
	alvyn_append_row(event, row);

	if (stream->first_version == 0)
	{
		stream->first_version = event->version;
		stream->first_position = event->position;
	}
	stream->last_version = event->version;
	stream->last_position = event->position;
}

/*
 * The row of an event that has its version, position and time.
 */
void
alvyn_append_row(const AppendEvent *event, EventRow *row)
{
	row->position = event->position;
	row->stream_no = event->stream->row.stream_no;
	row->version = event->version;
	row->time = event->time;
	row->schema_version = event->schema_version;
	row->slot = event->stream->row.slot;
	row->snapshot = false;
	row->type = event->type;
	row->data = event->data;
	row->metadata = event->metadata;
	row->id = event->id;
}

/*
 * Raise the error for a stream that is not at its expected version.
 */
void
alvyn_append_refuse(AppendStream *stream)
{
	const char *id = text_to_cstring(stream->id);
	long long	actual = (long long) stream->head;
	long long	expected = (long long) stream->expected;

	if (alvyn_append_version_agrees(stream))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access to stream \"%s\"", id),
				 errdetail("Expected version %lld as of the transaction's snapshot, actual version %lld.",
						   (long long) stream->seen, actual),
				 errhint("Retry the transaction."),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "expected_version")));
	if (stream->expected == EXPECTED_EXISTS)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("stream \"%s\" does not exist", id),
				 errdetail("Expected version %lld, actual version %lld.",
						   expected, actual),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "expected_version")));
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("stream \"%s\" is at version %lld, not %lld", id, actual,
					Max(expected, 0)),
			 errdetail("Expected version %lld, actual version %lld.",
					   expected, actual),
			 errhint("Load the stream again and retry the append."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "expected_version")));
}

/*
 * The results of a request for several streams: those written in the order
 * of their first events, or the one that has the conflict.
 */
static Datum *
append_results(AppendRequest *req, FunctionCallInfo fcinfo, uint64 *count)
{
	Datum	   *results = palloc(sizeof(Datum) * req->nstreams);
	int			i;

	*count = 0;
	if (req->conflict)
	{
		results[(*count)++] = append_result(req, req->conflict, fcinfo);
		return results;
	}
	qsort(req->streams, req->nstreams, sizeof(AppendStream),
		  append_result_order);
	for (i = 0; i < req->nstreams; i++)
	{
		if (req->streams[i].nevents > 0)
			results[(*count)++] = append_result(req, &req->streams[i], fcinfo);
	}
	return results;
}

/*
 * Order of results; streams that were only checked have no first event.
 */
static int
append_result_order(const void *a, const void *b)
{
	const AppendStream *x = a;
	const AppendStream *y = b;

	return (x->first_event > y->first_event) -
		(x->first_event < y->first_event);
}

/*
 * The result of a request for one stream, as a value of alvyn.append_result.
 */
static Datum
append_result(AppendRequest *req, AppendStream *stream,
			  FunctionCallInfo fcinfo)
{
	const LogCatalog *catalog = alvyn_log_catalog(fcinfo->flinfo->fn_oid);
	TupleDesc	desc = lookup_rowtype_tupdesc(catalog->append_result, -1);
	Datum		values[RESULT_NATTS];
	bool		nulls[RESULT_NATTS];
	HeapTuple	tuple;

	alvyn_append_result(req, stream, values, nulls);
	tuple = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	return HeapTupleGetDatum(tuple);
}

/*
 * The columns of a result.  What was not written is null.
 */
void
alvyn_append_result(AppendRequest *req, AppendStream *stream, Datum *values,
					bool *nulls)
{
	memset(nulls, stream->first_version == 0, RESULT_NATTS * sizeof(bool));
	nulls[RESULT_STREAM_ID - 1] = false;
	nulls[RESULT_VERSION - 1] = false;
	nulls[RESULT_DUPLICATE - 1] = false;
	nulls[RESULT_CONFLICT - 1] = false;
	values[RESULT_STREAM_ID - 1] = PointerGetDatum(stream->id);
	values[RESULT_FIRST_VERSION - 1] = Int64GetDatum(stream->first_version);
	values[RESULT_LAST_VERSION - 1] = Int64GetDatum(stream->last_version);
	values[RESULT_FIRST_POSITION - 1] = Int64GetDatum(stream->first_position);
	values[RESULT_LAST_POSITION - 1] = Int64GetDatum(stream->last_position);
	values[RESULT_VERSION - 1] = Int64GetDatum(stream->head);
	values[RESULT_DUPLICATE - 1] = BoolGetDatum(req->duplicate);
	values[RESULT_CONFLICT - 1] = BoolGetDatum(req->conflict != NULL);
}
