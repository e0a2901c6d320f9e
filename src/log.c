/*-------------------------------------------------------------------------
 *
 * log.c
 *		The storage room: finding and opening the tables of the store.
 *
 * Appends insert rows the way COPY and logical replication do: they open the
 * table and its indexes and hand tuples to the table access method and to
 * ExecInsertIndexTuples().  The simple version, an INSERT through SPI with a
 * saved plan, costs 1.4 times the instructions of a bare INSERT; this one
 * costs less than the bare INSERT.
 *
 * What the planner and the executor would otherwise have done must then be
 * done here.  On a table that carries triggers, constraints or columns that
 * Alvyn did not make, each of them is honoured as by an INSERT, but for a
 * trigger that keeps a row out: that is an error, because it would leave a
 * hole in a stream.  A table under row-level security or one that another
 * extension has taken over is refused, because the rows would bypass the
 * policy or vanish from the view of that extension.  Privileges are those on
 * the functions: writers have EXECUTE on the append functions and no
 * privilege on the tables.
 *
 * The objects of the store are found by name in the schema of the function
 * that was called, never through the search_path, and are remembered until a
 * relation cache invalidation names one of them.
 *
 * Locking
 *		Tables and indexes are locked as DML does: RowExclusive for writing
 *		and AccessShare for reading, kept until the end of the transaction.
 *		REINDEX CONCURRENTLY gives an index another number meanwhile, but does
 *		not drop the old one before all who hold a lock on the table are gone.
 *		So numbers of indexes are looked up again once the table is locked.
 *
 * IDENTIFICATION
 *		src/log.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "compat.h"
#include "event.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "log.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"

static LogCatalog catalog;

static void log_close_indexes(ResultRelInfo *result);
static void log_catalog_forget(Datum arg, Oid relid);
static void log_catalog_fill(Oid schema);
static Oid	log_relation(Oid schema, const char *name);
static Oid	log_type(Oid schema, const char *name);
static void log_check_local(Oid relid);
static bool log_is_distributed(Oid relid);
static void log_check_policy(Relation rel);
static bool log_is_plain(Relation rel, int natts);
static ExprState **log_defaults(Relation rel, int natts);
static void log_fill_defaults(EventLog *log, LogTable *table);

/*
 * Register the callback that drops what is remembered about the tables.
 */
void
alvyn_log_init(void)
{
	CacheRegisterRelcacheCallback(log_catalog_forget, (Datum) 0);
}

/*
 * The objects of the store that "function" belongs to.
 *
 * The result stays valid until the next invalidation is processed, which
 * cannot happen to objects that the caller has locked.
 */
const LogCatalog *
alvyn_log_catalog(Oid function)
{
	if (!catalog.valid)
		log_catalog_fill(get_func_namespace(function));
	return &catalog;
}

/*
 * Is a table that of the streams?
 */
bool
alvyn_log_holds_streams(Oid relid)
{
	return relid == catalog.streams;
}

/*
 * Does a table hold definitions of snapshots or deciders?
 */
bool
alvyn_log_holds_definitions(Oid relid)
{
	return relid == catalog.snapshots || relid == catalog.deciders;
}

/*
 * The index on the ids of streams, opened in the first call.
 */
Relation
alvyn_log_streams_by_id(EventLog *log)
{
	if (log->streams_by_id == NULL)
		log->streams_by_id = index_open(log->catalog->streams_stream_id_key,
										AccessShareLock);
	return log->streams_by_id;
}

/*
 * Open the store for an append: both tables and their indexes.
 */
void
alvyn_log_open_write(EventLog *log, Oid function)
{
	log->catalog = alvyn_log_catalog(function);
	log->function = function;
	log->estate = CreateExecutorState();
	alvyn_log_open_table(&log->events, log->catalog->events, EVENTS_NATTS,
						 false);
	log->streams = table_open(log->catalog->streams, RowExclusiveLock);
	log->catalog = alvyn_log_catalog(function);
	log->events_by_version =
		alvyn_log_index(&log->events, log->catalog->events_stream_version_key);
	log->streams_by_id = NULL;
	log->stream_slot = table_slot_create(log->streams, NULL);
}

/*
 * Close what alvyn_log_open_write() opened; the locks stay.
 */
void
alvyn_log_close_write(EventLog *log)
{
	ExecDropSingleTupleTableSlot(log->stream_slot);
	if (log->streams_by_id)
		index_close(log->streams_by_id, NoLock);
	table_close(log->streams, NoLock);
	alvyn_log_close_table(&log->events);
	/* Triggers of an update have left slots there. */
	ExecResetTupleTable(log->estate->es_tupleTable, false);
	FreeExecutorState(log->estate);
}

/*
 * Open the store for reading streams and their heads.
 */
void
alvyn_log_open_read(EventLog *log, Oid function)
{
	log->catalog = alvyn_log_catalog(function);
	log->function = function;
	log->estate = NULL;
	log->events.rel = table_open(log->catalog->events, AccessShareLock);
	log->events.slot = table_slot_create(log->events.rel, NULL);
	log->streams = table_open(log->catalog->streams, AccessShareLock);
	log->catalog = alvyn_log_catalog(function);
	log->events_by_version =
		index_open(log->catalog->events_stream_version_key, AccessShareLock);
	log->streams_by_id = NULL;
	log->stream_slot = table_slot_create(log->streams, NULL);
}

/*
 * Close what alvyn_log_open_read() opened; the locks stay.
 */
void
alvyn_log_close_read(EventLog *log)
{
	ExecDropSingleTupleTableSlot(log->stream_slot);
	ExecDropSingleTupleTableSlot(log->events.slot);
	if (log->streams_by_id)
		index_close(log->streams_by_id, NoLock);
	table_close(log->streams, NoLock);
	index_close(log->events_by_version, NoLock);
	table_close(log->events.rel, NoLock);
}

/*
 * Open one table for inserting rows of "natts" columns.  "speculative"
 * prepares its unique indexes for rows that may turn out to be duplicates.
 */
void
alvyn_log_open_table(LogTable *table, Oid relid, int natts, bool speculative)
{
	table->rel = table_open(relid, RowExclusiveLock);
	log_check_policy(table->rel);
	table->plain = log_is_plain(table->rel, natts);
	table->slot = table_slot_create(table->rel, NULL);

	/* Range table index 0: error reports then need no range table. */
	table->result = makeNode(ResultRelInfo);
	InitResultRelInfo(table->result, table->rel, 0, NULL, 0);
	ExecOpenIndices(table->result, speculative);
	if (table->plain)
		return;

	table->defaults = log_defaults(table->rel, natts);
	table->started = false;
	AfterTriggerBeginQuery();
	table->transition = MakeTransitionCaptureState(table->rel->trigdesc, relid,
												   CMD_INSERT);
}

/*
 * Close one table; triggers that its rows queued run now, as they would at
 * the end of an INSERT.
 */
void
alvyn_log_close_table(LogTable *table)
{
	if (!table->plain)
	{
		EState	   *estate = CreateExecutorState();

		if (table->started)
			ExecASInsertTriggers(estate, table->result, table->transition);
		AfterTriggerEndQuery(estate);
		ExecCloseResultRelations(estate);
		ExecResetTupleTable(estate->es_tupleTable, false);
		FreeExecutorState(estate);
	}
	log_close_indexes(table->result);
	ExecDropSingleTupleTableSlot(table->slot);
	table_close(table->rel, NoLock);
}

/*
 * Insert the row in the table's slot, with its index entries.
 */
void
alvyn_log_insert(EventLog *log, LogTable *table)
{
	List	   *recheck;

	if (!table->plain)
		alvyn_log_before_insert(log, table);
	table_tuple_insert(table->rel, table->slot, GetCurrentCommandId(true), 0,
					   NULL);
	recheck = alvyn_insert_index_tuples(table->result, table->slot,
										log->estate, false, NULL, NIL);
	if (!table->plain)
		alvyn_log_after_insert(log, table, recheck);
	list_free(recheck);
	ResetPerTupleExprContext(log->estate);
}

/*
 * What a table that is not plain wants to be done before a row is inserted.
 */
void
alvyn_log_before_insert(EventLog *log, LogTable *table)
{
	TriggerDesc *triggers = table->result->ri_TrigDesc;
	TupleConstr *constr = RelationGetDescr(table->rel)->constr;

	if (!table->started)
		ExecBSInsertTriggers(log->estate, table->result);
	table->started = true;

	log_fill_defaults(log, table);
	if (triggers && triggers->trig_insert_before_row &&
		!ExecBRInsertTriggers(log->estate, table->result, table->slot))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("cannot leave out a row of table \"%s\"",
						RelationGetRelationName(table->rel)),
				 errdetail("A trigger returned no row, which would leave a hole in a stream."),
				 errhint("Raise an error in the trigger to refuse an append.")));
	if (constr && constr->has_generated_stored)
		ExecComputeStoredGenerated(table->result, log->estate, table->slot,
								   CMD_INSERT);
	if (constr)
		ExecConstraints(table->result, table->slot, log->estate);
}

/*
 * What it wants to be done after.  "recheck" names the indexes of deferred
 * constraints that may have been violated.
 */
void
alvyn_log_after_insert(EventLog *log, LogTable *table, List *recheck)
{
	ExecARInsertTriggers(log->estate, table->result, table->slot, recheck,
						 table->transition);
}

/*
 * One of the indexes that are open with a table.
 */
Relation
alvyn_log_index(LogTable *table, Oid indexid)
{
	int			i;

	for (i = 0; i < table->result->ri_NumIndices; i++)
	{
		Relation	index = table->result->ri_IndexRelationDescs[i];

		if (RelationGetRelid(index) == indexid)
			return index;
	}
	elog(ERROR, "index %u is not an index of table \"%s\"",
		 indexid, RelationGetRelationName(table->rel));
}

/*
 * Close the indexes of a table.  ExecCloseIndices() would also give up their
 * locks, one by one; the end of the transaction does that cheaper.
 */
static void
log_close_indexes(ResultRelInfo *result)
{
	int			i;

	for (i = 0; i < result->ri_NumIndices; i++)
	{
		alvyn_index_insert_cleanup(result->ri_IndexRelationDescs[i],
								   result->ri_IndexRelationInfo[i]);
		index_close(result->ri_IndexRelationDescs[i], NoLock);
	}
}

/*
 * Relation cache callback: forget the objects when one of them changed.
 */
static void
log_catalog_forget(Datum arg, Oid relid)
{
	if (relid == InvalidOid ||
		relid == catalog.streams ||
		relid == catalog.streams_pkey ||
		relid == catalog.streams_stream_id_key ||
		relid == catalog.streams_stream_no_seq ||
		relid == catalog.events ||
		relid == catalog.events_pkey ||
		relid == catalog.events_stream_version_key ||
		relid == catalog.events_position_seq ||
		relid == catalog.idempotency_keys ||
		relid == catalog.idempotency_key ||
		alvyn_log_holds_definitions(relid))
		catalog.valid = false;
}

/*
 * Look the objects up by name.
 */
static void
log_catalog_fill(Oid schema)
{
	catalog.schema = schema;
	catalog.streams = log_relation(schema, "streams");
	catalog.streams_pkey = log_relation(schema, "streams_pkey");
	catalog.streams_stream_id_key = log_relation(schema,
												 "streams_stream_id_key");
	catalog.streams_stream_no_seq = log_relation(schema,
												 "streams_stream_no_seq");
	catalog.events = log_relation(schema, "events");
	catalog.events_pkey = log_relation(schema, "events_pkey");
	catalog.events_stream_version_key = log_relation(schema,
													 "events_stream_version_key");
	catalog.events_position_seq = log_relation(schema, "events_position_seq");
	catalog.idempotency_keys = log_relation(schema, "idempotency_keys");
	catalog.idempotency_key = log_relation(schema, "idempotency_key");
	catalog.snapshots = log_relation(schema, "snapshots");
	catalog.deciders = log_relation(schema, "deciders");
	catalog.append_result = log_type(schema, "append_result");
	catalog.event = log_type(schema, "event");
	catalog.new_event = log_type(schema, "new_event");
	log_check_local(catalog.streams);
	log_check_local(catalog.events);
	log_check_local(catalog.idempotency_keys);
	catalog.valid = true;
}

/*
 * A relation of the store by name; it can only be missing when an owner
 * renamed it.
 */
static Oid
log_relation(Oid schema, const char *name)
{
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" of extension \"alvyn\" does not exist",
						name),
				 errhint("Rename it back, or restore the extension from a backup.")));
	return relid;
}

/*
 * A type of the store by name.
 */
static Oid
log_type(Oid schema, const char *name)
{
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
									   CStringGetDatum(name),
									   ObjectIdGetDatum(schema));

	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("type \"%s\" of extension \"alvyn\" does not exist",
						name),
				 errhint("Rename it back, or restore the extension from a backup.")));
	return type;
}

/*
 * Refuse a table that a direct insert would corrupt.
 */
static void
log_check_local(Oid relid)
{
	if (get_rel_relkind(relid) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" is not a plain table",
						get_rel_name(relid)),
				 errdetail("Alvyn inserts into tables of its own making only.")));
	if (log_is_distributed(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot append to distributed table \"%s\"",
						get_rel_name(relid)),
				 errdetail("Another extension keeps the rows of this table elsewhere."),
				 errhint("Keep the tables of Alvyn local to one server.")));
}

/*
 * Does Citus list the table in its catalog of distributed tables?
 */
static bool
log_is_distributed(Oid relid)
{
	Oid			partitions = get_relname_relid("pg_dist_partition",
											   PG_CATALOG_NAMESPACE);
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	AttrNumber	column;
	bool		found;

	if (!OidIsValid(partitions))
		return false;
	column = get_attnum(partitions, "logicalrelid");
	if (column == InvalidAttrNumber)
		return false;

	rel = table_open(partitions, AccessShareLock);
	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Refuse a table whose policies a direct insert would bypass.
 */
static void
log_check_policy(Relation rel)
{
	if (rel->rd_rel->relrowsecurity &&
		check_enable_rls(RelationGetRelid(rel), InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot append to table \"%s\" under row-level security",
						RelationGetRelationName(rel)),
				 errhint("Restrict who may execute the append functions instead.")));
}

/*
 * Has the table nothing beyond the columns Alvyn made and any indexes?  Of
 * the constraints, NOT NULL on columns that Alvyn always fills is kept anyway.
 */
static bool
log_is_plain(Relation rel, int natts)
{
	TupleDesc	desc = RelationGetDescr(rel);
	TupleConstr *constr = desc->constr;

	if (rel->trigdesc != NULL || desc->natts != natts)
		return false;
	if (constr && (constr->num_check > 0 || constr->has_generated_stored))
		return false;
	return RelationGetRelid(rel) != catalog.events ||
		(!TupleDescAttr(desc, EVENTS_METADATA - 1)->attnotnull &&
		 !TupleDescAttr(desc, EVENTS_ID - 1)->attnotnull);
}

/*
 * The default expressions of the columns behind the first "natts", ready to
 * be evaluated; NULL for a column that has none.
 */
static ExprState **
log_defaults(Relation rel, int natts)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ExprState **defaults = palloc0(sizeof(ExprState *) * desc->natts);
	int			i;

	for (i = natts; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);
		Node	   *expr = NULL;

		if (!column->attisdropped && !column->attgenerated)
			expr = build_column_default(rel, i + 1);
		if (expr)
			defaults[i] = ExecInitExpr(expression_planner((Expr *) expr), NULL);
	}
	return defaults;
}

/*
 * Put the defaults of added columns into the row in the table's slot.
 */
static void
log_fill_defaults(EventLog *log, LogTable *table)
{
	TupleTableSlot *slot = table->slot;
	ExprContext *context = GetPerTupleExprContext(log->estate);
	int			i;

	for (i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		if (table->defaults[i])
			slot->tts_values[i] =
				ExecEvalExprSwitchContext(table->defaults[i], context,
										  &slot->tts_isnull[i]);
	}
}
