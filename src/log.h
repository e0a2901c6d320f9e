/*-------------------------------------------------------------------------
 *
 * log.h
 *		The storage room: opening the tables of the store.
 *
 * IDENTIFICATION
 *		src/log.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOG_H
#define LOG_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"

/* The objects of the store, looked up by name in the extension's schema. */
typedef struct LogCatalog
{
	bool		valid;			/* false after any of them changed */
	Oid			schema;
	Oid			streams;
	Oid			streams_pkey;
	Oid			streams_stream_id_key;
	Oid			streams_stream_no_seq;
	Oid			events;
	Oid			events_pkey;
	Oid			events_stream_version_key;
	Oid			events_position_seq;
	Oid			idempotency_keys;
	Oid			idempotency_key;
	Oid			snapshots;
	Oid			deciders;

	/* Row types. */
	Oid			append_result;
	Oid			event;
	Oid			new_event;
} LogCatalog;

/* A table opened for writing. */
typedef struct LogTable
{
	Relation	rel;
	ResultRelInfo *result;		/* with its indexes open */
	TupleTableSlot *slot;
	bool		plain;			/* nothing but columns and indexes */

	/* Only when it is not plain. */
	ExprState **defaults;		/* of added columns, by column, or NULL */
	struct TransitionCaptureState *transition;
	bool		started;		/* have triggers of the statement fired? */
} LogTable;

/* The store as one call has opened it. */
typedef struct EventLog
{
	const LogCatalog *catalog;
	Oid			function;		/* that opened it */
	EState	   *estate;
	LogTable	events;
	Relation	streams;
	Relation	streams_by_id;	/* opened when it is asked for */
	Relation	events_by_version;
	Relation	events_by_position; /* when open for reading */
	TupleTableSlot *stream_slot;
} EventLog;

extern void alvyn_log_init(void);
extern const LogCatalog *alvyn_log_catalog(Oid function);
extern bool alvyn_log_holds_streams(Oid relid);
extern bool alvyn_log_holds_definitions(Oid relid);
extern Relation alvyn_log_streams_by_id(EventLog *log);
extern void alvyn_log_open_write(EventLog *log, Oid function);
extern void alvyn_log_close_write(EventLog *log);
extern void alvyn_log_open_read(EventLog *log, Oid function);
extern void alvyn_log_close_read(EventLog *log);
extern void alvyn_log_open_table(LogTable *table, Oid relid, int natts,
								 bool speculative);
extern void alvyn_log_close_table(LogTable *table);
extern void alvyn_log_insert(EventLog *log, LogTable *table);
extern void alvyn_log_before_insert(EventLog *log, LogTable *table);
extern void alvyn_log_after_insert(EventLog *log, LogTable *table,
								   List *recheck);
extern Relation alvyn_log_index(LogTable *table, Oid indexid);

#endif							/* LOG_H */
