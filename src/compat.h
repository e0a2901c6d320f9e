/*-------------------------------------------------------------------------
 *
 * compat.h
 *		Every difference between PostgreSQL 14 and 18, in one place.
 *
 * The code is written against the newest interface; an older server gets it
 * through a macro here.  Nothing else in Alvyn asks for PG_VERSION_NUM.
 *
 * IDENTIFICATION
 *		src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_H
#define COMPAT_H

#if PG_VERSION_NUM < 140000
#error "alvyn needs PostgreSQL 14 or later"
#endif

/* 15 reserves the prefix, 14 only warned about unknown settings below it. */
#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/* 15 got the materialized result of a set-returning function from one call. */
#if PG_VERSION_NUM >= 150000
#define alvyn_materialize(fcinfo) InitMaterializedSRF(fcinfo, 0)
#else
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/tuplestore.h"

static inline void
alvyn_materialize(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old;
	TupleDesc	desc;

	if (result == NULL || !IsA(result, ReturnSetInfo) ||
		!(result->allowedModes & SFRM_Materialize))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	result->returnMode = SFRM_Materialize;
	result->setResult = tuplestore_begin_heap(true, false, work_mem);
	result->setDesc = desc;
	MemoryContextSwitchTo(old);
}
#endif

/* 15 tells why an HMAC could not be computed. */
#if PG_VERSION_NUM >= 150000
#define alvyn_hmac_error(ctx) pg_hmac_error(ctx)
#else
#define alvyn_hmac_error(ctx) "no reason was given"
#endif

/* 16 replaced the privilege checks for each kind of object by one. */
#if PG_VERSION_NUM >= 160000
#define alvyn_function_aclcheck(function, role, mode) \
	object_aclcheck(ProcedureRelationId, function, role, mode)
#else
#define alvyn_function_aclcheck(function, role, mode) \
	pg_proc_aclcheck(function, role, mode)
#endif

/* 16 let EvalPlanQual know of several result relations. */
#if PG_VERSION_NUM >= 160000
#define alvyn_epq_init(epq, estate) EvalPlanQualInit(epq, estate, NULL, NIL, -1, NIL)
#else
#define alvyn_epq_init(epq, estate) EvalPlanQualInit(epq, estate, NULL, NIL, -1)
#endif

/* 16 added "only summarizing indexes" to the index insertion. */
#if PG_VERSION_NUM >= 160000
#define alvyn_insert_index_tuples(result, slot, estate, no_dup_err, conflict, arbiters) \
	ExecInsertIndexTuples(result, slot, estate, false, no_dup_err, conflict, \
						  arbiters, false)
#else
#define alvyn_insert_index_tuples(result, slot, estate, no_dup_err, conflict, arbiters) \
	ExecInsertIndexTuples(result, slot, estate, false, no_dup_err, conflict, \
						  arbiters)
#endif

/* 18 added the row that is being updated to the check for duplicates. */
#if PG_VERSION_NUM >= 180000
#define alvyn_check_index_constraints(result, slot, estate, conflict, arbiters) \
	ExecCheckIndexConstraints(result, slot, estate, conflict, NULL, arbiters)
#else
#define alvyn_check_index_constraints(result, slot, estate, conflict, arbiters) \
	ExecCheckIndexConstraints(result, slot, estate, conflict, arbiters)
#endif

/* 17 moved the number of the running transaction within the process. */
#if PG_VERSION_NUM >= 170000
#define alvyn_local_transaction_id() (MyProc->vxid.lxid)
#else
#define alvyn_local_transaction_id() (MyProc->lxid)
#endif

/* 17 lets an index clean up after the last insertion of a statement. */
#if PG_VERSION_NUM >= 170000
#define alvyn_index_insert_cleanup(index, info) index_insert_cleanup(index, info)
#else
#define alvyn_index_insert_cleanup(index, info) ((void) 0)
#endif

/* 18 marks functions that do not return before their type. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 18 added instrumentation to index scans. */
#if PG_VERSION_NUM >= 180000
#define alvyn_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define alvyn_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/*
 * 15 asks for shared memory in a hook, when it is known how many processes
 * there can be; 14 while libraries are loaded.
 */
#if PG_VERSION_NUM >= 150000
#define ALVYN_HAS_REQUEST_HOOK	1
#define alvyn_max_backends() (MaxBackends)
#else
#define ALVYN_HAS_REQUEST_HOOK	0
#define alvyn_max_backends() \
	(MaxConnections + autovacuum_max_workers + 1 + max_worker_processes + \
	 max_wal_senders)
#include "postmaster/autovacuum.h"
#include "replication/walsender.h"
#endif

/* 17 gave the number of this process in the array of all a name. */
#if PG_VERSION_NUM >= 170000
#define alvyn_proc_number() (MyProcNumber)
#else
#define alvyn_proc_number() (MyProc->pgprocno)
#endif

#endif							/* COMPAT_H */
