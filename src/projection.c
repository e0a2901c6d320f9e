/*-------------------------------------------------------------------------
 *
 * projection.c
 *		Calling the handler of a projection.
 *
 * What a projection has read is handed to its handler here, because SQL can
 * neither call a function that it knows by its number, nor tell which of the
 * events an error came from, nor give the handler back the search_path that
 * the functions around it have replaced by a safe one.
 *
 * The handler runs with the rights of the current user, who must be allowed
 * to execute it; nothing here may be called from a SECURITY DEFINER function.
 *
 * IDENTIFICATION
 *		src/projection.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "projection.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* What is being handled. */
typedef struct Handling
{
	FmgrInfo	handler;
	bool		batch;			/* does it take all events at once? */
	const char *projection;
	int64		generation;
	int64		position;		/* of the event, 0 for a batch */
} Handling;

/* That of the handler that runs, NULL when none does. */
static const Handling *handling = NULL;

/* Position of the event that a handler was called with last. */
static int64 last_position = 0;

PG_FUNCTION_INFO_V1(alvyn_handle);
PG_FUNCTION_INFO_V1(alvyn_current_generation);

static void projection_find(Handling *call, Oid function, Oid array_type);
static void projection_call_each(Handling *call, ArrayType *events);
static void projection_call(Handling *call, Datum argument);
static void projection_context(void *arg);

/*
 * alvyn.handle(handler regprocedure, events alvyn.event[], projection text,
 * generation bigint, path text) returns void
 *
 * Call a handler with each of some events, or once with all of them.  Raises
 * whatever it raises, with projection and position in the context.
 */
Datum
alvyn_handle(PG_FUNCTION_ARGS)
{
	ArrayType  *events = PG_GETARG_ARRAYTYPE_P(1);
	ErrorContextCallback callback;
	Handling	call;
	int			nest_level;

	memset(&call, 0, sizeof(call));
	call.projection = text_to_cstring(PG_GETARG_TEXT_PP(2));
	call.generation = PG_GETARG_INT64(3);
	projection_find(&call, PG_GETARG_OID(0),
					get_fn_expr_argtype(fcinfo->flinfo, 1));
	if (ArrayGetNItems(ARR_NDIM(events), ARR_DIMS(events)) == 0)
		PG_RETURN_VOID();

	callback.callback = projection_context;
	callback.arg = &call;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	nest_level = NewGUCNestLevel();
	(void) set_config_option("search_path",
							 text_to_cstring(PG_GETARG_TEXT_PP(4)),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	if (call.batch)
	{
		last_position = 0;
		projection_call(&call, PointerGetDatum(events));
	}
	else
		projection_call_each(&call, events);
	AtEOXact_GUC(true, nest_level);
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}

/*
 * alvyn.current_generation() returns bigint
 *
 * The generation that the running handler writes, NULL when none runs.
 */
Datum
alvyn_current_generation(PG_FUNCTION_ARGS)
{
	if (handling == NULL)
		PG_RETURN_NULL();
	PG_RETURN_INT64(handling->generation);
}

/*
 * Position of the event that a handler was called with last, 0 when it was a
 * batch or none since alvyn_projection_forget_position().
 */
int64
alvyn_projection_position(void)
{
	return last_position;
}

/*
 * Forget that position, before a run.
 */
void
alvyn_projection_forget_position(void)
{
	last_position = 0;
}

/*
 * Look the handler up.  That it takes an event or the array of events, and
 * returns nothing, is checked again, as the function can be any.
 */
static void
projection_find(Handling *call, Oid function, Oid array_type)
{
	AclResult	acl = alvyn_function_aclcheck(function, GetUserId(),
											  ACL_EXECUTE);
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc = tuple ? (Form_pg_proc) GETSTRUCT(tuple) : NULL;

	if (proc == NULL || proc->prokind != PROKIND_FUNCTION ||
		proc->prorettype != VOIDOID || proc->proretset ||
		proc->pronargs != 1 ||
		(proc->proargtypes.values[0] != array_type &&
		 proc->proargtypes.values[0] != get_element_type(array_type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is not a function of the right form",
						"handler")));
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FUNCTION, NameStr(proc->proname));
	call->batch = proc->proargtypes.values[0] == array_type;
	ReleaseSysCache(tuple);
	fmgr_info(function, &call->handler);
}

/*
 * Call the handler with one event after the other.
 */
static void
projection_call_each(Handling *call, ArrayType *events)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "alvyn handler",
												  ALLOCSET_DEFAULT_SIZES);
	ArrayIterator iterator = array_create_iterator(events, 0, NULL);
	Datum		event;
	bool		isnull;

	while (array_iterate(iterator, &event, &isnull))
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (isnull)
			continue;
		call->position = DatumGetInt64(GetAttributeByNum(DatumGetHeapTupleHeader(event),
														 1, &isnull));
		last_position = call->position;
		old = MemoryContextSwitchTo(context);
		projection_call(call, event);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	array_free_iterator(iterator);
	MemoryContextDelete(context);
}

/*
 * Call the handler once.  A handler may append, and by that or otherwise run
 * another projection: what it ran in is put back.
 */
static void
projection_call(Handling *call, Datum argument)
{
	LOCAL_FCINFO(arguments, 1);
	const Handling *outer = handling;

	InitFunctionCallInfoData(*arguments, &call->handler, 1, InvalidOid, NULL,
							 NULL);
	arguments->args[0].value = argument;
	arguments->args[0].isnull = false;
	handling = call;
	PG_TRY();
	{
		(void) FunctionCallInvoke(arguments);
	}
	PG_FINALLY();
	{
		handling = outer;
	}
	PG_END_TRY();
}

/*
 * Error context of a handler.
 */
static void
projection_context(void *arg)
{
	Handling   *call = arg;

	if (call->position != 0)
		errcontext("projection \"%s\", generation %lld, event at position %lld",
				   call->projection, (long long) call->generation,
				   (long long) call->position);
	else
		errcontext("projection \"%s\", generation %lld", call->projection,
				   (long long) call->generation);
}
