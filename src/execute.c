/*-------------------------------------------------------------------------
 *
 * execute.c
 *		States and commands: load, decide and append in one call.
 *
 * A command locks its streams first, in the order in which appends lock them,
 * then computes the states, lets the deciders decide, and appends.  Under the
 * locks no other transaction can move the streams, so nothing is decided on a
 * state that is already past, and nothing has to be decided twice.  The
 * simple version, deciding on an unlocked state and retrying the conflict,
 * wastes a decision for every command that waited.
 *
 * One conflict remains: a stream that does not exist yet and is being created
 * by a transaction with very many streams, which its lock does not cover.
 * When that transaction has committed by the time of the append, the append
 * has waited for it and holds the lock; the command is then decided again on
 * the state that is there now.  A command on several streams creates the
 * missing ones before it decides, each in its turn: created only by the
 * append, after streams that come later in the order were locked, they could
 * close a circle of waiting transactions.  They are taken back when nothing
 * is decided for them.
 *
 * Decide functions run like evolve functions, with writing forbidden.  Their
 * queries see what is committed once the locks are held.
 *
 * IDENTIFICATION
 *		src/execute.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "append.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "event.h"
#include "executor/executor.h"
#include "fold.h"
#include "funcapi.h"
#include "gate.h"
#include "idempotency.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "snapshot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

/* Columns of alvyn.stream_state. */
enum
{
	STATE_STATE,
	STATE_VERSION,
	STATE_SNAPSHOT_VERSION,
	STATE_REPLAYED_EVENTS,
	STATE_NATTS
};

/* Columns of alvyn.execute_result: those of append_result, and the state. */
#define EXECUTE_STATE	(RESULT_NATTS + 1)
#define EXECUTE_NATTS	EXECUTE_STATE

/* Columns of alvyn.new_event. */
enum
{
	NEW_EVENT_TYPE,
	NEW_EVENT_DATA,
	NEW_EVENT_METADATA,
	NEW_EVENT_ID,
	NEW_EVENT_TIME,
	NEW_EVENT_SCHEMA_VERSION,
	NEW_EVENT_NATTS
};

/* A stream of a command. */
typedef struct Decision
{
	AppendStream *stream;
	const DeciderDefinition *decider;
	const SnapshotDefinition *snapshot;
	bool		has_expected;	/* did the caller expect a version? */
	int64		expected;
	SnapshotState state;
	Fold	   *fold;			/* at that state */
} Decision;

typedef struct Command
{
	EventLog	log;
	AppendRequest req;
	Decision   *decisions;		/* in the caller's order */
	int			max_events;		/* room in req.events */
	int			max_retries;
} Command;

PG_FUNCTION_INFO_V1(alvyn_state);
PG_FUNCTION_INFO_V1(alvyn_execute);
PG_FUNCTION_INFO_V1(alvyn_execute_streams);

static int	command_retries(FunctionCallInfo fcinfo, int arg);
static void command_run(Command *command, FunctionCallInfo fcinfo);
static void command_resolve(Command *command, Oid function);
static int	decision_compare(const void *a, const void *b);
static bool command_decide(Command *command);
static void command_lock(Command *command);
static void decision_load(Command *command, Decision *decision,
						  Snapshot snapshot);
static void decision_decide(Command *command, Decision *decision);
static void decision_context(void *arg);
static Tuplestorestate *decision_call(Decision *decision, EState *estate,
									  TupleDesc desc);
static void command_add_event(Command *command, Decision *decision,
							  TupleTableSlot *slot, int element);
static void decision_finish(Command *command, Decision *decision);
static Datum decision_result(Command *command, Decision *decision,
							 TupleDesc desc);
static TupleDesc result_desc(FunctionCallInfo fcinfo);

/*
 * alvyn.state(stream_id text, snapshot_name text, at_version bigint) returns
 * stream_state
 *
 * The state of a stream, now or as of a version, from the newest snapshot at
 * or before it.  Raises 42704 when there is no such snapshot, 22023 when it
 * does not cover the stream.
 */
Datum
alvyn_state(PG_FUNCTION_ARGS)
{
	text	   *id = alvyn_request_name(fcinfo, 0, "stream_id");
	char	   *name = text_to_cstring(alvyn_request_name(fcinfo, 1, "snapshot_name"));
	const SnapshotDefinition *def = alvyn_definition_snapshot(fcinfo->flinfo->fn_oid,
															  name);
	int64		at_version = PG_INT64_MAX;
	SnapshotState state = {def->initial_state, 0, 0, 0};
	EventLog	log;
	StreamRow	row;
	Datum		values[STATE_NATTS];
	bool		nulls[STATE_NATTS] = {false};

	if (!PG_ARGISNULL(2))
	{
		alvyn_request_at_least(fcinfo, 2, "at_version", 0);
		at_version = PG_GETARG_INT64(2);
	}
	alvyn_definition_check_stream(def, id);

	alvyn_log_open_read(&log, fcinfo->flinfo->fn_oid);
	if (alvyn_stream_find(&log, id, GetActiveSnapshot(), &row))
	{
		alvyn_stream_check_readable(id, &row);
		alvyn_snapshot_compute(&log, def, id, &row, at_version,
							   GetActiveSnapshot(), &state);
	}
	alvyn_log_close_read(&log);

	values[STATE_STATE] = JsonbPGetDatum(state.state);
	values[STATE_VERSION] = Int64GetDatum(state.version);
	values[STATE_SNAPSHOT_VERSION] = Int64GetDatum(state.snapshot_version);
	nulls[STATE_SNAPSHOT_VERSION] = state.snapshot_version == 0;
	values[STATE_REPLAYED_EVENTS] = Int64GetDatum(state.replayed);
	return HeapTupleGetDatum(heap_form_tuple(result_desc(fcinfo), values,
											 nulls));
}

/*
 * alvyn.execute(stream_id text, command jsonb, expected_version bigint,
 * idempotency_key text, max_retries int) returns execute_result
 *
 * Execute a command on a stream.  Raises what append() and the decide
 * function raise, and 42704 when no decider covers the stream.
 */
Datum
alvyn_execute(PG_FUNCTION_ARGS)
{
	Command		command;

	alvyn_request_command(&command.req, fcinfo);
	command.max_retries = command_retries(fcinfo, 4);
	command_run(&command, fcinfo);
	return decision_result(&command, &command.decisions[0],
						   result_desc(fcinfo));
}

/*
 * alvyn.execute_streams(stream_ids text[], commands jsonb[], idempotency_key
 * text, max_retries int) returns setof execute_result
 *
 * Execute a command on each of several streams, all or none.
 */
Datum
alvyn_execute_streams(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Command		command;
	int			i;

	alvyn_materialize(fcinfo);
	alvyn_request_commands(&command.req, fcinfo);
	command.max_retries = command_retries(fcinfo, 3);
	command_run(&command, fcinfo);
	for (i = 0; i < command.req.nstreams; i++)
	{
		Datum		row = decision_result(&command, &command.decisions[i],
										  result->setDesc);
		HeapTupleData tuple;

		tuple.t_data = DatumGetHeapTupleHeader(row);
		tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
		ItemPointerSetInvalid(&tuple.t_self);
		tuple.t_tableOid = InvalidOid;
		tuplestore_puttuple(result->setResult, &tuple);
	}
	PG_RETURN_NULL();
}

/*
 * The argument that limits the retries.
 */
static int
command_retries(FunctionCallInfo fcinfo, int arg)
{
	int			retries = PG_ARGISNULL(arg) ? 0 : PG_GETARG_INT32(arg);

	if (retries < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be at least %d", "max_retries", 0),
				 errdetail("It is %d.", retries)));
	return retries;
}

/*
 * Execute a command.
 */
static void
command_run(Command *command, FunctionCallInfo fcinfo)
{
	AppendRequest *req = &command->req;
	int			attempt;
	int			i;

	PreventCommandIfReadOnly("execute()");
	PreventCommandIfParallelMode("execute()");
	alvyn_gate_enter();
	alvyn_log_open_write(&command->log, fcinfo->flinfo->fn_oid);
	command_resolve(command, fcinfo->flinfo->fn_oid);
	for (attempt = 0;; attempt++)
	{
		if (!command_decide(command))
		{
			alvyn_append_discard(&command->log, req);
			break;
		}
		alvyn_append_run(&command->log, req);
		if (!req->conflict)
			break;
		if (attempt >= command->max_retries || IsolationUsesXactSnapshot())
			alvyn_append_refuse(req->conflict);
	}
	CommandCounterIncrement();
	for (i = 0; i < req->nstreams; i++)
		decision_finish(command, &command->decisions[i]);
	alvyn_log_close_write(&command->log);
}

/*
 * Find the definitions for every stream of a command.
 */
static void
command_resolve(Command *command, Oid function)
{
	AppendRequest *req = &command->req;
	int			i;

	command->decisions = palloc0(sizeof(Decision) * req->nstreams);
	for (i = 0; i < req->nstreams; i++)
	{
		Decision   *decision = &command->decisions[i];

		decision->stream = &req->streams[i];
		decision->decider = alvyn_definition_decider(function,
													 decision->stream->id);
		decision->snapshot =
			alvyn_definition_snapshot(function,
									  decision->decider->snapshot_name);
		decision->has_expected = decision->stream->has_expected;
		decision->expected = decision->stream->expected;
	}
	qsort(command->decisions, req->nstreams, sizeof(Decision),
		  decision_compare);
	command->max_events = 8;
	req->events = palloc(sizeof(AppendEvent) * command->max_events);
}

/*
 * Order of decisions: that of the caller.
 */
static int
decision_compare(const void *a, const void *b)
{
	return ((const Decision *) a)->stream->first_event -
		((const Decision *) b)->stream->first_event;
}

/*
 * Lock the streams and decide.  Returns whether there is anything to append.
 */
static bool
command_decide(Command *command)
{
	AppendRequest *req = &command->req;
	Snapshot	snapshot;
	int			i;

	req->nevents = 0;
	req->conflict = NULL;
	command_lock(command);
	if (req->key && alvyn_idempotency_find(&command->log, req))
		return false;

	snapshot = IsolationUsesXactSnapshot() ? GetTransactionSnapshot() :
		GetLatestSnapshot();
	PushActiveSnapshot(snapshot);
	for (i = 0; i < req->nstreams; i++)
		decision_load(command, &command->decisions[i], GetActiveSnapshot());
	for (i = 0; i < req->nstreams; i++)
		decision_decide(command, &command->decisions[i]);
	PopActiveSnapshot();
	return req->nevents > 0;
}

/*
 * Lock the streams of a command.
 */
static void
command_lock(Command *command)
{
	AppendRequest *req = &command->req;
	bool		created = false;
	int			i;

	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];

		stream->nevents = 0;
		stream->created = false;
		alvyn_append_lock(&command->log, stream, req->nstreams > 1);
		created |= stream->created;
		CHECK_FOR_INTERRUPTS();
	}
	if (created)
		CommandCounterIncrement();
}

/*
 * Compute the state that is decided on, and make its version the expected
 * one.
 */
static void
decision_load(Command *command, Decision *decision, Snapshot snapshot)
{
	AppendStream *stream = decision->stream;
	SnapshotState empty = {NULL, 0, 0, 0};

	decision->state = empty;
	if (stream->locked)
		decision->fold = alvyn_snapshot_fold(&command->log, decision->snapshot,
											 stream->id, &stream->row,
											 PG_INT64_MAX, snapshot,
											 &decision->state);
	else
		decision->fold = alvyn_fold_begin(&command->log, decision->snapshot,
										  stream->id,
										  decision->snapshot->initial_state);
	decision->state.state = alvyn_fold_state(decision->fold);
	stream->head = decision->state.version;
	stream->knows_head = stream->locked && !IsolationUsesXactSnapshot();
	stream->has_expected = decision->has_expected;
	stream->expected = decision->expected;
	if (!alvyn_append_version_agrees(stream))
		alvyn_append_refuse(stream);
	stream->has_expected = true;
	stream->expected = decision->state.version;
}

/*
 * Let the decider of a stream decide, and collect the events.
 */
static void
decision_decide(Command *command, Decision *decision)
{
	EState	   *estate = CreateExecutorState();
	TupleDesc	desc = lookup_rowtype_tupdesc_copy(command->log.catalog->new_event,
												   -1);
	ErrorContextCallback callback = {error_context_stack, decision_context,
	decision};
	Tuplestorestate *volatile events;
	TupleTableSlot *slot;
	int			element = 0;
	bool		was_read_only;

	if (!OidIsValid(decision->decider->decide_function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("decide function \"%s\" of decider \"%s\" does not exist",
						decision->decider->decide, decision->decider->name)));

	error_context_stack = &callback;
	alvyn_fold_call_begin(&was_read_only);
	PG_TRY();
	{
		events = decision_call(decision, estate, desc);
	}
	PG_FINALLY();
	{
		alvyn_fold_call_end(was_read_only);
	}
	PG_END_TRY();

	slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(events, true, false, slot))
		command_add_event(command, decision, slot, ++element);
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(events);
	FreeExecutorState(estate);
	error_context_stack = callback.previous;
}

/*
 * Error context of a decision.
 */
static void
decision_context(void *arg)
{
	Decision   *decision = arg;

	errcontext("decider \"%s\" on stream \"%s\"", decision->decider->name,
			   text_to_cstring(decision->stream->id));
}

/*
 * Call a decide function, the way a function in FROM is called.
 */
static Tuplestorestate *
decision_call(Decision *decision, EState *estate, TupleDesc desc)
{
	ExprContext *context = CreateExprContext(estate);
	MemoryContext argument_context = AllocSetContextCreate(estate->es_query_cxt,
														   "alvyn decide",
														   ALLOCSET_SMALL_SIZES);
	Const	   *state = makeConst(JSONBOID, -1, InvalidOid, -1,
								  JsonbPGetDatum(decision->state.state),
								  false, false);
	Const	   *command = makeConst(JSONBOID, -1, InvalidOid, -1,
									decision->stream->command, false, false);
	FuncExpr   *call = makeFuncExpr(decision->decider->decide_function,
									desc->tdtypeid, list_make2(state, command),
									InvalidOid, InvalidOid,
									COERCE_EXPLICIT_CALL);
	MemoryContext old;
	SetExprState *expr;
	Tuplestorestate *result;

	call->funcretset = true;
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	expr = ExecInitTableFunctionResult((Expr *) call, context, NULL);
	result = ExecMakeTableFunctionResult(expr, context, argument_context,
										 desc, false);
	MemoryContextSwitchTo(old);
	return result;
}

/*
 * Take an event that was decided into the request.
 */
static void
command_add_event(Command *command, Decision *decision, TupleTableSlot *slot,
				  int element)
{
	AppendRequest *req = &command->req;
	HeapTuple	tuple = ExecCopySlotHeapTuple(slot);
	TupleDesc	desc = slot->tts_tupleDescriptor;
	Datum		values[NEW_EVENT_NATTS];
	bool		nulls[NEW_EVENT_NATTS];
	AppendEvent *event;
	int			i;

	if (req->nevents == command->max_events)
	{
		command->max_events *= 2;
		req->events = repalloc(req->events,
							   sizeof(AppendEvent) * command->max_events);
	}
	heap_deform_tuple(tuple, desc, values, nulls);
	event = &req->events[req->nevents++];
	event->stream = decision->stream;
	for (i = 0; i < NEW_EVENT_NATTS; i++)
	{
		if (nulls[i])
			values[i] = (Datum) 0;
		else if (TupleDescAttr(desc, i)->attlen == -1)
			values[i] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(values[i]));
	}
	event->type = values[NEW_EVENT_TYPE];
	event->data = values[NEW_EVENT_DATA];
	event->metadata = values[NEW_EVENT_METADATA];
	event->id = values[NEW_EVENT_ID];
	event->has_time = !nulls[NEW_EVENT_TIME];
	event->time = DatumGetTimestampTz(values[NEW_EVENT_TIME]);
	event->schema_version = nulls[NEW_EVENT_SCHEMA_VERSION] ? 1 :
		DatumGetInt32(values[NEW_EVENT_SCHEMA_VERSION]);
	alvyn_request_check_event(event, true, element);
	decision->stream->nevents++;
}

/*
 * Bring the state of a stream up to what the command has appended.
 */
static void
decision_finish(Command *command, Decision *decision)
{
	AppendRequest *req = &command->req;
	AppendStream *stream = decision->stream;
	EventRow	row;
	int			i;

	if (req->duplicate)
	{
		alvyn_snapshot_compute(&command->log, decision->snapshot, stream->id,
							   &stream->row, stream->head, SnapshotSelf,
							   &decision->state);
		return;
	}
	for (i = 0; i < req->nevents; i++)
	{
		if (req->events[i].stream != stream)
			continue;
		alvyn_append_row(&req->events[i], &row);
		alvyn_fold_event(decision->fold, &row);
	}
	if (stream->nevents > 0)
		decision->state.state = alvyn_fold_state(decision->fold);
	alvyn_fold_end(decision->fold);
}

/*
 * The result of a command for one stream.
 */
static Datum
decision_result(Command *command, Decision *decision, TupleDesc desc)
{
	Datum		values[EXECUTE_NATTS];
	bool		nulls[EXECUTE_NATTS];

	alvyn_append_result(&command->req, decision->stream, values, nulls);
	values[EXECUTE_STATE - 1] = JsonbPGetDatum(decision->state.state);
	nulls[EXECUTE_STATE - 1] = false;
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

/*
 * The row type that a function returns.
 */
static TupleDesc
result_desc(FunctionCallInfo fcinfo)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return BlessTupleDesc(desc);
}
