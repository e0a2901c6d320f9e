/*-------------------------------------------------------------------------
 *
 * definition.c
 *		The definitions of snapshots and deciders, as this backend knows them.
 *
 * Every append asks which snapshots cover its stream, so the definitions are
 * kept in memory, with rules compiled and functions looked up.  A statement
 * trigger on the tables sends a relation cache invalidation with every
 * change; a change of any function sends one of its own.  Either only marks
 * the copy as stale; the next call that asks reads the tables again.  The old
 * copy lives on to the end of the transaction, because a caller further up
 * the stack may still use it.
 *
 * Functions are stored by their signature, qualified, since a column of type
 * regprocedure would keep the database from being upgraded by pg_upgrade.
 *
 * IDENTIFICATION
 *		src/definition.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "definition.h"
#include "fmgr.h"
#include "log.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Columns of alvyn.snapshots. */
enum
{
	SNAPSHOTS_SNAPSHOT_NO = 1,
	SNAPSHOTS_NAME,
	SNAPSHOTS_STREAM_PREFIX,
	SNAPSHOTS_EVERY,
	SNAPSHOTS_SCHEMA_VERSION,
	SNAPSHOTS_INITIAL_STATE,
	SNAPSHOTS_EVOLVE,
	SNAPSHOTS_RULES
};

/* Columns of alvyn.deciders. */
enum
{
	DECIDERS_NAME = 1,
	DECIDERS_STREAM_PREFIX,
	DECIDERS_SNAPSHOT_NAME,
	DECIDERS_DECIDE
};

PG_FUNCTION_INFO_V1(alvyn_definition_changed);

static MemoryContext context = NULL;
static Definitions *definitions = NULL; /* NULL when never read or stale */

static void definition_forget_relation(Datum arg, Oid relid);
static void definition_forget_function(Datum arg, int cache, uint32 hash);
static void definition_read(const LogCatalog *catalog);
static Relation definition_open(Oid relid, SysScanDesc *scan, Snapshot *snapshot);
static void definition_close(Relation rel, SysScanDesc scan, Snapshot snapshot);
static void definition_read_snapshots(Definitions *result, Oid relid);
static void definition_read_deciders(Definitions *result, Oid relid);
static char *definition_text(HeapTuple tuple, int column, TupleDesc desc,
							 const char *suffix);
static Oid	definition_function(const char *signature);

/*
 * Register the callbacks that mark the copy as stale.
 */
void
alvyn_definition_init(void)
{
	CacheRegisterRelcacheCallback(definition_forget_relation, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, definition_forget_function,
								  (Datum) 0);
}

/*
 * alvyn.definition_changed() returns trigger
 *
 * Tell all backends that the definitions in a table have changed.
 */
Datum
alvyn_definition_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function was not called by a trigger")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	PG_RETURN_POINTER(NULL);
}

/*
 * All definitions of the store that "function" belongs to.  They stay as they
 * are to the end of the transaction, whatever changes.
 */
const Definitions *
alvyn_definitions(Oid function)
{
	if (definitions == NULL)
		definition_read(alvyn_log_catalog(function));
	return definitions;
}

/*
 * The definition of a snapshot by name.
 */
const SnapshotDefinition *
alvyn_definition_snapshot(Oid function, const char *name)
{
	const Definitions *all = alvyn_definitions(function);
	int			i;

	for (i = 0; i < all->nsnapshots; i++)
	{
		if (strcmp(all->snapshots[i].name, name) == 0)
			return &all->snapshots[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("snapshot \"%s\" does not exist", name)));
}

/*
 * The decider for a stream: of those that cover it, the one with the longest
 * prefix.
 */
const DeciderDefinition *
alvyn_definition_decider(Oid function, const text *stream_id)
{
	const Definitions *all = alvyn_definitions(function);
	const DeciderDefinition *best = NULL;
	int			i;

	for (i = 0; i < all->ndeciders; i++)
	{
		const DeciderDefinition *decider = &all->deciders[i];

		if (alvyn_definition_covers(decider->prefix, stream_id) &&
			(best == NULL || strlen(decider->prefix) > strlen(best->prefix)))
			best = decider;
	}
	if (best == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no decider covers stream \"%s\"",
						text_to_cstring(stream_id)),
				 errhint("Create one with create_decider().")));
	return best;
}

/*
 * Does a prefix cover a stream?
 */
bool
alvyn_definition_covers(const char *prefix, const text *stream_id)
{
	Size		length = strlen(prefix);

	return VARSIZE_ANY_EXHDR(stream_id) >= length &&
		memcmp(VARDATA_ANY(stream_id), prefix, length) == 0;
}

/*
 * Relation cache callback.
 */
static void
definition_forget_relation(Datum arg, Oid relid)
{
	if (relid == InvalidOid || alvyn_log_holds_definitions(relid))
		definitions = NULL;
}

/*
 * System cache callback: a function was created, changed or dropped.
 */
static void
definition_forget_function(Datum arg, int cache, uint32 hash)
{
	definitions = NULL;
}

/*
 * Read the tables into a new copy.
 */
static void
definition_read(const LogCatalog *catalog)
{
	MemoryContext fresh = AllocSetContextCreate(CurrentMemoryContext,
												"alvyn definitions",
												ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(fresh);
	Definitions *result = palloc0(sizeof(Definitions));

	definition_read_snapshots(result, catalog->snapshots);
	definition_read_deciders(result, catalog->deciders);
	MemoryContextSwitchTo(old);

	MemoryContextSetParent(fresh, TopMemoryContext);
	if (context)
		MemoryContextSetParent(context, TopTransactionContext);
	context = fresh;
	definitions = result;
}

/*
 * Begin reading a table of definitions as it is committed now.
 */
static Relation
definition_open(Oid relid, SysScanDesc *scan, Snapshot *snapshot)
{
	Relation	rel = table_open(relid, AccessShareLock);

	*snapshot = RegisterSnapshot(GetLatestSnapshot());
	*scan = systable_beginscan(rel, InvalidOid, false, *snapshot, 0, NULL);
	return rel;
}

/*
 * Done with reading a table of definitions.
 */
static void
definition_close(Relation rel, SysScanDesc scan, Snapshot snapshot)
{
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

/*
 * Order of snapshot definitions.
 */
static int
definition_compare(const void *a, const void *b)
{
	return strcmp(((const SnapshotDefinition *) a)->name,
				  ((const SnapshotDefinition *) b)->name);
}

/*
 * Read the definitions of snapshots.
 */
static void
definition_read_snapshots(Definitions *result, Oid relid)
{
	SysScanDesc scan;
	Snapshot	snapshot;
	Relation	rel = definition_open(relid, &scan, &snapshot);
	TupleDesc	desc = RelationGetDescr(rel);
	HeapTuple	tuple;
	bool		isnull;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		SnapshotDefinition *def;
		Datum		rules;

		if (result->snapshots == NULL)
			result->snapshots = palloc(sizeof(SnapshotDefinition));
		else
			result->snapshots = repalloc(result->snapshots,
										 sizeof(SnapshotDefinition) *
										 (result->nsnapshots + 1));
		def = &result->snapshots[result->nsnapshots++];
		def->snapshot_no = DatumGetInt64(heap_getattr(tuple, SNAPSHOTS_SNAPSHOT_NO,
													  desc, &isnull));
		def->name = definition_text(tuple, SNAPSHOTS_NAME, desc, "");
		def->event_type = definition_text(tuple, SNAPSHOTS_NAME, desc, "Snapshot");
		def->prefix = definition_text(tuple, SNAPSHOTS_STREAM_PREFIX, desc, "-");
		def->every = DatumGetInt32(heap_getattr(tuple, SNAPSHOTS_EVERY, desc,
												&isnull));
		def->schema_version = DatumGetInt32(heap_getattr(tuple,
														 SNAPSHOTS_SCHEMA_VERSION,
														 desc, &isnull));
		def->initial_state = DatumGetJsonbPCopy(heap_getattr(tuple,
															 SNAPSHOTS_INITIAL_STATE,
															 desc, &isnull));
		def->evolve = definition_text(tuple, SNAPSHOTS_EVOLVE, desc, "");
		def->evolve_function = definition_function(def->evolve);
		rules = heap_getattr(tuple, SNAPSHOTS_RULES, desc, &isnull);
		def->rules = isnull ? NULL : alvyn_rules_parse(DatumGetJsonbPCopy(rules));
	}
	definition_close(rel, scan, snapshot);
	if (result->nsnapshots > 0)
		qsort(result->snapshots, result->nsnapshots,
			  sizeof(SnapshotDefinition), definition_compare);
}

/*
 * Read the definitions of deciders.
 */
static void
definition_read_deciders(Definitions *result, Oid relid)
{
	SysScanDesc scan;
	Snapshot	snapshot;
	Relation	rel = definition_open(relid, &scan, &snapshot);
	TupleDesc	desc = RelationGetDescr(rel);
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		DeciderDefinition *def;

		if (result->deciders == NULL)
			result->deciders = palloc(sizeof(DeciderDefinition));
		else
			result->deciders = repalloc(result->deciders,
										sizeof(DeciderDefinition) *
										(result->ndeciders + 1));
		def = &result->deciders[result->ndeciders++];
		def->name = definition_text(tuple, DECIDERS_NAME, desc, "");
		def->prefix = definition_text(tuple, DECIDERS_STREAM_PREFIX, desc, "-");
		def->snapshot_name = definition_text(tuple, DECIDERS_SNAPSHOT_NAME,
											 desc, "");
		def->decide = definition_text(tuple, DECIDERS_DECIDE, desc, "");
		def->decide_function = definition_function(def->decide);
	}
	definition_close(rel, scan, snapshot);
}

/*
 * A text column with a suffix, or NULL.
 */
static char *
definition_text(HeapTuple tuple, int column, TupleDesc desc,
				const char *suffix)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column, desc, &isnull);

	if (isnull)
		return NULL;
	return psprintf("%s%s", TextDatumGetCString(value), suffix);
}

/*
 * The function with a signature, or InvalidOid.
 */
static Oid
definition_function(const char *signature)
{
	LOCAL_FCINFO(call, 1);
	Datum		result;

	if (signature == NULL)
		return InvalidOid;
	InitFunctionCallInfoData(*call, NULL, 1, InvalidOid, NULL, NULL);
	call->args[0].value = CStringGetTextDatum(signature);
	call->args[0].isnull = false;
	result = to_regprocedure(call);
	return call->isnull ? InvalidOid : DatumGetObjectId(result);
}
