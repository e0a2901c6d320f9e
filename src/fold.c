/*-------------------------------------------------------------------------
 *
 * fold.c
 *		Folding the events of a stream to a state.
 *
 * A definition folds with rules, which stay in C (rules.c), or with an evolve
 * function in any language, which is called with the state and the event as a
 * row.  The caller of a fold does not see the difference.
 *
 * An evolve function must not write.  It runs with the transaction marked as
 * read only, so whatever it tries, at any depth, ends with the server's own
 * error 25006.  Its errors reach the user unchanged, with the stream, the
 * version and the name of the snapshot in the context.
 *
 * IDENTIFICATION
 *		src/fold.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "compat.h"
#include "fmgr.h"
#include "fold.h"
#include "miscadmin.h"
#include "replay.h"
#include "rulestate.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

struct Fold
{
	EventLog   *log;
	const SnapshotDefinition *def;
	text	   *stream_id;
	int64		version;		/* of the event being folded */
	int64		count;			/* events folded that the definition handles */
	MemoryContext context;		/* holds the state */
	MemoryContext event_context;	/* reset after every event */

	/* With rules. */
	RuleState  *rules;

	/* With a function. */
	Jsonb	   *state;
	FmgrInfo	evolve;
	TupleDesc	event_desc;
};

static void fold_check_privilege(Oid function);
static void fold_call(Fold *fold, const EventRow *row);
static Datum fold_event_row(Fold *fold, const EventRow *row);
static void fold_context(void *arg);

/*
 * Begin with a state.
 */
Fold *
alvyn_fold_begin(EventLog *log, const SnapshotDefinition *def,
				 text *stream_id, Jsonb *state)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "alvyn fold",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Fold	   *fold = palloc0(sizeof(Fold));

	fold->log = log;
	fold->def = def;
	fold->stream_id = stream_id;
	fold->context = context;
	fold->event_context = AllocSetContextCreate(context, "alvyn fold event",
												ALLOCSET_DEFAULT_SIZES);
	fold->state = DatumGetJsonbPCopy(JsonbPGetDatum(state));
	if (def->rules)
		fold->rules = alvyn_rulestate_begin(def->rules, fold->state);
	else
	{
		if (!OidIsValid(def->evolve_function))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("evolve function \"%s\" of snapshot \"%s\" does not exist",
							def->evolve, def->name),
					 errhint("Create the function, or change the snapshot with alter_snapshot().")));
		fold_check_privilege(def->evolve_function);
		fmgr_info(def->evolve_function, &fold->evolve);
		fold->event_desc = lookup_rowtype_tupdesc_copy(log->catalog->event, -1);
	}
	MemoryContextSwitchTo(old);
	return fold;
}

/*
 * Does a definition count an event?  Rules handle the types they name, a
 * function handles all; nothing handles generated snapshots.
 */
bool
alvyn_fold_handles(const SnapshotDefinition *def, const EventRow *row)
{
	text	   *type = DatumGetTextPP(row->type);

	if (row->snapshot)
		return false;
	return def->rules == NULL ||
		alvyn_rules_find(def->rules, VARDATA_ANY(type),
						 VARSIZE_ANY_EXHDR(type)) != NULL;
}

/*
 * Raise an error if the rules of a definition cannot fold an event.
 */
void
alvyn_fold_check(const SnapshotDefinition *def, text *stream_id,
				 int64 version, Datum type, Datum data)
{
	Fold		fold = {.def = def,.stream_id = stream_id,.version = version};
	ErrorContextCallback callback = {error_context_stack, fold_context, &fold};
	text	   *name = DatumGetTextPP(type);

	error_context_stack = &callback;
	alvyn_rules_check(def->rules, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name),
					  data);
	error_context_stack = callback.previous;
}

/*
 * Fold one event.
 */
void
alvyn_fold_event(Fold *fold, const EventRow *row)
{
	ErrorContextCallback callback = {error_context_stack, fold_context, fold};
	MemoryContext old;
	text	   *type = DatumGetTextPP(row->type);
	bool		handled = true;

	if (row->snapshot)
		return;

	fold->version = row->version;
	error_context_stack = &callback;
	old = MemoryContextSwitchTo(fold->event_context);
	if (fold->rules)
		handled = alvyn_rulestate_apply(fold->rules, VARDATA_ANY(type),
										VARSIZE_ANY_EXHDR(type), row->data,
										row->time);
	else
		fold_call(fold, row);
	MemoryContextSwitchTo(old);
	MemoryContextReset(fold->event_context);
	error_context_stack = callback.previous;
	fold->count += handled;
}

/*
 * Fold the versions "first" to "last" of the stream.  Returns the version of
 * the last event read, or first - 1 when there was none.
 */
int64
alvyn_fold_replay(Fold *fold, int64 stream_no, int64 first, int64 last,
				  Snapshot snapshot)
{
	Replay		replay;
	EventRow	row;
	int64		version = first - 1;

	alvyn_replay_begin(&replay, fold->log, stream_no, first, last,
					   ForwardScanDirection, snapshot);
	while (alvyn_replay_next(&replay, &row))
	{
		alvyn_fold_event(fold, &row);
		version = row.version;
	}
	alvyn_replay_end(&replay);
	return version;
}

/*
 * How many of the events folded so far does the definition handle?
 */
int64
alvyn_fold_count(const Fold *fold)
{
	return fold->count;
}

/*
 * The state, in the current memory context.
 */
Jsonb *
alvyn_fold_state(Fold *fold)
{
	if (fold->rules)
		return alvyn_rulestate_end(fold->rules);
	return DatumGetJsonbPCopy(JsonbPGetDatum(fold->state));
}

/*
 * Release a fold and its memory.
 */
void
alvyn_fold_end(Fold *fold)
{
	MemoryContextDelete(fold->context);
}

/*
 * Forbid writing before a user's function is called.
 */
void
alvyn_fold_call_begin(bool *was_read_only)
{
	*was_read_only = XactReadOnly;
	XactReadOnly = true;
}

/*
 * Allow again what was allowed before.
 */
void
alvyn_fold_call_end(bool was_read_only)
{
	XactReadOnly = was_read_only;
}

/*
 * May the user call an evolve function?  Decide functions are checked by the
 * executor.
 */
static void
fold_check_privilege(Oid function)
{
	AclResult	result = alvyn_function_aclcheck(function, GetUserId(),
												 ACL_EXECUTE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
}

/*
 * Call the evolve function and keep the state it returns.
 */
static void
fold_call(Fold *fold, const EventRow *row)
{
	LOCAL_FCINFO(call, 2);
	volatile Datum result;
	bool		was_read_only;
	MemoryContext old;
	Jsonb	   *previous = fold->state;

	InitFunctionCallInfoData(*call, &fold->evolve, 2, InvalidOid, NULL, NULL);
	call->args[0].value = JsonbPGetDatum(fold->state);
	call->args[0].isnull = false;
	call->args[1].value = fold_event_row(fold, row);
	call->args[1].isnull = false;

	alvyn_fold_call_begin(&was_read_only);
	PG_TRY();
	{
		result = FunctionCallInvoke(call);
	}
	PG_FINALLY();
	{
		alvyn_fold_call_end(was_read_only);
	}
	PG_END_TRY();
	if (call->isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("evolve function \"%s\" returned null",
						fold->def->evolve)));

	old = MemoryContextSwitchTo(fold->context);
	fold->state = DatumGetJsonbPCopy(result);
	MemoryContextSwitchTo(old);
	pfree(previous);
}

/*
 * An event as a value of alvyn.event.
 */
static Datum
fold_event_row(Fold *fold, const EventRow *row)
{
	Datum		values[EVENT_NATTS];
	bool		nulls[EVENT_NATTS];

	alvyn_event_values(row, fold->stream_id, values, nulls);
	return heap_copy_tuple_as_datum(heap_form_tuple(fold->event_desc, values,
													nulls),
									fold->event_desc);
}

/*
 * Error context of a fold.
 */
static void
fold_context(void *arg)
{
	Fold	   *fold = arg;

	errcontext("snapshot \"%s\" at version %lld of stream \"%s\"",
			   fold->def->name, (long long) fold->version,
			   text_to_cstring(fold->stream_id));
}
