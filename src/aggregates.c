/*-------------------------------------------------------------------------
 *
 * aggregates.c
 *		Aggregates over versions and over numbers in payloads.
 *
 * contiguous(version) tells whether the versions it is given are exactly
 * first, first + 1, ... last, each once, in whatever order they come.  Count,
 * lowest and highest alone would take 1, 2, 2, 4 for contiguous, so a hash of
 * every version is summed up too and compared with the sum that a contiguous
 * range has.  Sums can be combined, so parallel workers share the work.
 *
 * sum_number(data, path...) finds the number in each payload here and leaves
 * the summing to the server's own sum(numeric).
 *
 * IDENTIFICATION
 *		src/aggregates.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

/* Columns of alvyn.version_report. */
enum
{
	REPORT_COUNT,
	REPORT_FIRST,
	REPORT_LAST,
	REPORT_MISSING,
	REPORT_OK,
	REPORT_NATTS
};

typedef struct VersionState
{
	int64		count;
	int64		first;
	int64		last;
	uint64		sum;			/* of the hashes of the versions */
} VersionState;

PG_FUNCTION_INFO_V1(alvyn_contiguous_add);
PG_FUNCTION_INFO_V1(alvyn_contiguous_combine);
PG_FUNCTION_INFO_V1(alvyn_contiguous_serialize);
PG_FUNCTION_INFO_V1(alvyn_contiguous_deserialize);
PG_FUNCTION_INFO_V1(alvyn_contiguous_final);
PG_FUNCTION_INFO_V1(alvyn_sum_number_add);

static VersionState *contiguous_state(FunctionCallInfo fcinfo);
static inline uint64 contiguous_hash(int64 version);
static bool contiguous_check(VersionState *state);
static bool sum_number_find(Jsonb *data, ArrayType *path, Datum *number);

/*
 * Transition function of alvyn.contiguous(): add one version.
 */
Datum
alvyn_contiguous_add(PG_FUNCTION_ARGS)
{
	VersionState *state = contiguous_state(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		int64		version = PG_GETARG_INT64(1);

		state->count++;
		state->first = Min(state->first, version);
		state->last = Max(state->last, version);
		state->sum += contiguous_hash(version);
	}
	PG_RETURN_POINTER(state);
}

/*
 * Combine what two workers have seen.
 */
Datum
alvyn_contiguous_combine(PG_FUNCTION_ARGS)
{
	VersionState *state = contiguous_state(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		VersionState *other = (VersionState *) PG_GETARG_POINTER(1);

		state->count += other->count;
		state->first = Min(state->first, other->first);
		state->last = Max(state->last, other->last);
		state->sum += other->sum;
	}
	PG_RETURN_POINTER(state);
}

/*
 * The state as bytes, to be sent to the leader.
 */
Datum
alvyn_contiguous_serialize(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = palloc(VARHDRSZ + sizeof(VersionState));

	if (!AggCheckCallContext(fcinfo, NULL))
		elog(ERROR, "aggregate function called outside an aggregate");
	SET_VARSIZE(bytes, VARHDRSZ + sizeof(VersionState));
	memcpy(VARDATA(bytes), PG_GETARG_POINTER(0), sizeof(VersionState));
	PG_RETURN_BYTEA_P(bytes);
}

/*
 * The state from bytes.
 */
Datum
alvyn_contiguous_deserialize(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	VersionState *state = palloc(sizeof(VersionState));

	if (!AggCheckCallContext(fcinfo, NULL))
		elog(ERROR, "aggregate function called outside an aggregate");
	Assert(VARSIZE_ANY_EXHDR(bytes) == sizeof(VersionState));
	memcpy(state, VARDATA_ANY(bytes), sizeof(VersionState));
	PG_RETURN_POINTER(state);
}

/*
 * Final function: the report.  Without any version, count is 0, ok is true
 * and the rest is null.  Where versions repeat, "missing" is what is left of
 * the holes after the repeated ones are counted against them.
 */
Datum
alvyn_contiguous_final(PG_FUNCTION_ARGS)
{
	VersionState *state = contiguous_state(fcinfo);
	bool		empty = state->count == 0;
	TupleDesc	desc;
	Datum		values[REPORT_NATTS];
	bool		nulls[REPORT_NATTS];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	BlessTupleDesc(desc);

	memset(nulls, empty, sizeof(nulls));
	nulls[REPORT_COUNT] = false;
	nulls[REPORT_OK] = false;
	values[REPORT_COUNT] = Int64GetDatum(state->count);
	values[REPORT_FIRST] = Int64GetDatum(state->first);
	values[REPORT_LAST] = Int64GetDatum(state->last);
	values[REPORT_MISSING] = Int64GetDatum(Max(state->last - state->first + 1 -
											   state->count, 0));
	values[REPORT_OK] = BoolGetDatum(empty || contiguous_check(state));
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

/*
 * Transition function of alvyn.sum_number(): add the number at a path.  A
 * payload without the path, or with null there, adds nothing.
 */
Datum
alvyn_sum_number_add(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(sum, 2);
	Datum		number;

	if (!AggCheckCallContext(fcinfo, NULL))
		elog(ERROR, "aggregate function called outside an aggregate");

	InitFunctionCallInfoData(*sum, fcinfo->flinfo, 2, InvalidOid,
							 fcinfo->context, NULL);
	sum->args[0] = fcinfo->args[0];
	sum->args[1].isnull = PG_ARGISNULL(1) || PG_ARGISNULL(2) ||
		!sum_number_find(PG_GETARG_JSONB_P(1), PG_GETARG_ARRAYTYPE_P(2),
						 &number);
	sum->args[1].value = sum->args[1].isnull ? (Datum) 0 : number;
	return numeric_avg_accum(sum);
}

/*
 * The state in the first argument, made in the first call of the group.
 */
static VersionState *
contiguous_state(FunctionCallInfo fcinfo)
{
	MemoryContext context;
	VersionState *state;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "aggregate function called outside an aggregate");
	if (!PG_ARGISNULL(0))
		return (VersionState *) PG_GETARG_POINTER(0);

	state = MemoryContextAllocZero(context, sizeof(VersionState));
	state->first = PG_INT64_MAX;
	state->last = PG_INT64_MIN;
	return state;
}

/*
 * The hash of one version.
 */
static inline uint64
contiguous_hash(int64 version)
{
	return hash_bytes_extended((unsigned char *) &version, sizeof(version), 0);
}

/*
 * Are the versions first to last, each once?
 */
static bool
contiguous_check(VersionState *state)
{
	uint64		sum = 0;
	int64		version;

	if ((uint64) state->last - (uint64) state->first !=
		(uint64) state->count - 1)
		return false;
	for (version = state->first;; version++)
	{
		sum += contiguous_hash(version);
		if (version == state->last)
			return sum == state->sum;
		if ((version & 0xffff) == 0)
			CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Find the number at a path.  Returns false when there is nothing or null.
 */
static bool
sum_number_find(Jsonb *data, ArrayType *path, Datum *number)
{
	LOCAL_FCINFO(extract, 2);
	Datum		found;
	JsonbValue	value;

	InitFunctionCallInfoData(*extract, NULL, 2, InvalidOid, NULL, NULL);
	extract->args[0].value = JsonbPGetDatum(data);
	extract->args[0].isnull = false;
	extract->args[1].value = PointerGetDatum(path);
	extract->args[1].isnull = false;
	found = jsonb_extract_path(extract);
	if (extract->isnull)
		return false;

	if (!JsonbExtractScalar(&DatumGetJsonbP(found)->root, &value) ||
		(value.type != jbvNumeric && value.type != jbvNull))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("value at path \"%s\" is not a number",
						OidOutputFunctionCall(F_ARRAY_OUT,
											  PointerGetDatum(path)))));
	if (value.type == jbvNull)
		return false;
	*number = NumericGetDatum(value.val.numeric);
	return true;
}
