/*-------------------------------------------------------------------------
 *
 * definition.c
 *		The definitions of snapshots and deciders, as this backend knows them.
 *
 * Every append asks which snapshots cover its stream, so the definitions are
 * kept in memory, with rules compiled and functions looked up.  A statement
 * trigger on the tables sends a relation cache invalidation with every
 * change; a change of any function or schema sends one of its own.  Either
 * only marks the copy as stale; the next call that asks reads the tables
 * again.  The old copy lives on to the end of the transaction, because a
 * caller further up the stack may still use it.
 *
 * Functions are stored by their signature, since a column of type
 * regprocedure would keep the database from being upgraded by pg_upgrade.
 * The simple version, to look a signature up as to_regprocedure() does, would
 * resolve its types by the search_path of whoever appends, and fail for those
 * who may not use the schema.  So only the qualified name is taken from it;
 * the types are known.  A function that was created again with another result
 * counts as gone.
 *
 * IDENTIFICATION
 *		src/definition.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "definition.h"
#include "fmgr.h"
#include "log.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

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
static uint64 changes = 0;		/* invalidations seen so far */

static void definition_forget_relation(Datum arg, Oid relid);
static void definition_forget_function(Datum arg, int cache, uint32 hash);
static Definitions *definition_read(const LogCatalog *catalog);
static void definition_read_snapshots(Definitions *result,
									  const LogCatalog *catalog);
static void definition_read_deciders(Definitions *result,
									 const LogCatalog *catalog);
static char *definition_text(HeapTuple tuple, int column, TupleDesc desc,
							 const char *suffix);
static Oid	definition_function(char *signature, Oid argument, Oid result,
								bool is_set);

/*
 * Register the callbacks that mark the copy as stale.
 */
void
alvyn_definition_init(void)
{
	CacheRegisterRelcacheCallback(definition_forget_relation, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, definition_forget_function,
								  (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, definition_forget_function,
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
		return definition_read(alvyn_log_catalog(function));
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
 * Refuse a stream that a snapshot does not cover.
 */
void
alvyn_definition_check_stream(const SnapshotDefinition *def,
							  const text *stream_id)
{
	if (!alvyn_definition_covers(def->prefix, stream_id))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snapshot \"%s\" does not cover stream \"%s\"",
						def->name, text_to_cstring(stream_id)),
				 errdetail("It covers streams that begin with \"%s\".",
						   def->prefix)));
}

/*
 * Relation cache callback.
 */
static void
definition_forget_relation(Datum arg, Oid relid)
{
	if (relid == InvalidOid || alvyn_log_holds_definitions(relid))
	{
		definitions = NULL;
		changes++;
	}
}

/*
 * System cache callback: a function or schema was created, changed or dropped.
 */
static void
definition_forget_function(Datum arg, int cache, uint32 hash)
{
	definitions = NULL;
	changes++;
}

/*
 * Read the tables into a new copy.  It is good for the caller, but not for the
 * next call, when an invalidation came in while it was read.
 */
static Definitions *
definition_read(const LogCatalog *catalog)
{
	MemoryContext fresh = AllocSetContextCreate(CurrentMemoryContext,
												"alvyn definitions",
												ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(fresh);
	Definitions *result = palloc0(sizeof(Definitions));
	uint64		before = changes;

	definition_read_snapshots(result, catalog);
	definition_read_deciders(result, catalog);
	MemoryContextSwitchTo(old);

	MemoryContextSetParent(fresh, TopMemoryContext);
	if (context)
		MemoryContextSetParent(context, TopTransactionContext);
	context = fresh;
	definitions = changes == before ? result : NULL;
	return result;
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
definition_read_snapshots(Definitions *result, const LogCatalog *catalog)
{
	Relation	rel = table_open(catalog->snapshots, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		isnull;

	/* With a catalog snapshot, which parallel workers can take, too. */
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
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
		def->evolve_function = definition_function(def->evolve,
												   catalog->event, JSONBOID,
												   false);
		rules = heap_getattr(tuple, SNAPSHOTS_RULES, desc, &isnull);
		def->rules = isnull ? NULL : alvyn_rules_parse(DatumGetJsonbPCopy(rules));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (result->nsnapshots > 0)
		qsort(result->snapshots, result->nsnapshots,
			  sizeof(SnapshotDefinition), definition_compare);
}

/*
 * Read the definitions of deciders.
 */
static void
definition_read_deciders(Definitions *result, const LogCatalog *catalog)
{
	Relation	rel = table_open(catalog->deciders, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
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
		def->decide_function = definition_function(def->decide, JSONBOID,
												   catalog->new_event, true);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
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
 * The function with a signature, or InvalidOid when there is none that takes
 * jsonb and "argument" and returns "result".  Nothing depends on the user:
 * neither on the search_path nor on privileges, which are checked when the
 * function is called.
 */
static Oid
definition_function(char *signature, Oid argument, Oid result, bool is_set)
{
	Oid			types[2] = {JSONBOID, argument};
	Oid			schema = PG_CATALOG_NAMESPACE;
	Oid			function = InvalidOid;
	char	   *name = signature ? pstrdup(signature) : NULL;
	char	   *arguments = signature ? strrchr(name, '(') : NULL;
	List	   *names;
	HeapTuple	tuple;

	if (arguments == NULL)
		return InvalidOid;
	*arguments = '\0';
	if (!SplitIdentifierString(name, '.', &names) || names == NIL)
		return InvalidOid;
	if (list_length(names) > 1)
		schema = get_namespace_oid(linitial(names), true);

	tuple = SearchSysCache3(PROCNAMEARGSNSP, CStringGetDatum(llast(names)),
							PointerGetDatum(buildoidvector(types, 2)),
							ObjectIdGetDatum(schema));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);

		if (proc->prokind == PROKIND_FUNCTION && proc->prorettype == result &&
			proc->proretset == is_set)
			function = proc->oid;
		ReleaseSysCache(tuple);
	}
	return function;
}
