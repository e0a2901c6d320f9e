/*-------------------------------------------------------------------------
 *
 * digest.c
 *		An aggregate over the content of events, equal for equal sets.
 *
 * Of each event two numbers are made: PostgreSQL's 64-bit hash, and that hash
 * mixed with a CRC-32C of the same bytes.  Both are added up modulo 2^64.
 * Addition makes the result independent of the order and lets parallel workers
 * combine their sums; unlike exclusive-or it also notices an event that is
 * there twice.
 *
 * What goes into the hash is the stored form: an event that was dumped and
 * restored, replicated or read by another plan hashes the same, `1.10` and
 * `1.1` do not.  The digest finds what was lost or changed by accident; it is
 * not a seal against somebody who sets out to forge one.
 *
 * IDENTIFICATION
 *		src/digest.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "common/hashfn.h"
#include "event.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "port/pg_crc32c.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* Digits and sign of a bigint. */
#define MAXINT8LEN			20

#define DIGEST_SEED		UINT64CONST(0x616c76796e)

typedef struct DigestState
{
	uint64		count;
	uint64		low;
	uint64		high;
	StringInfoData buffer;		/* of one event, reused */
} DigestState;

PG_FUNCTION_INFO_V1(alvyn_digest_add);
PG_FUNCTION_INFO_V1(alvyn_digest_add_stored);
PG_FUNCTION_INFO_V1(alvyn_digest_add_event);
PG_FUNCTION_INFO_V1(alvyn_digest_combine);
PG_FUNCTION_INFO_V1(alvyn_digest_serialize);
PG_FUNCTION_INFO_V1(alvyn_digest_deserialize);
PG_FUNCTION_INFO_V1(alvyn_digest_final);

static DigestState *digest_state(FunctionCallInfo fcinfo);
static void digest_arguments(FunctionCallInfo fcinfo, Datum *values,
							 bool *nulls);
static void digest_add(DigestState *state, Datum *values, bool *nulls,
					   int64 stream_no);
static void digest_varlena(StringInfo buffer, Datum value, bool isnull);
static bool digest_is_derived(Datum id, Datum stream_id, Datum version);

/*
 * Transition function of alvyn.digest() over columns: add one event.
 */
Datum
alvyn_digest_add(PG_FUNCTION_ARGS)
{
	DigestState *state = digest_state(fcinfo);
	Datum		values[EVENT_NATTS];
	bool		nulls[EVENT_NATTS];

	digest_arguments(fcinfo, values, nulls);
	digest_add(state, values, nulls, 0);
	PG_RETURN_POINTER(state);
}

/*
 * Transition function of alvyn.digest_stored(): add one event that has the
 * number of its stream in place of the id.
 */
Datum
alvyn_digest_add_stored(PG_FUNCTION_ARGS)
{
	DigestState *state = digest_state(fcinfo);
	Datum		values[EVENT_NATTS];
	bool		nulls[EVENT_NATTS];

	digest_arguments(fcinfo, values, nulls);
	nulls[EVENT_STREAM_ID] = true;
	digest_add(state, values, nulls, PG_GETARG_INT64(EVENT_STREAM_ID + 1));
	PG_RETURN_POINTER(state);
}

/*
 * Transition function of alvyn.digest() over rows of alvyn.event.
 */
Datum
alvyn_digest_add_event(PG_FUNCTION_ARGS)
{
	DigestState *state = digest_state(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		HeapTupleHeader row = PG_GETARG_HEAPTUPLEHEADER(1);
		TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row),
												  HeapTupleHeaderGetTypMod(row));
		HeapTupleData tuple;
		Datum		values[EVENT_NATTS];
		bool		nulls[EVENT_NATTS];

		tuple.t_len = HeapTupleHeaderGetDatumLength(row);
		ItemPointerSetInvalid(&tuple.t_self);
		tuple.t_tableOid = InvalidOid;
		tuple.t_data = row;
		heap_deform_tuple(&tuple, desc, values, nulls);
		ReleaseTupleDesc(desc);
		digest_add(state, values, nulls, 0);
	}
	PG_RETURN_POINTER(state);
}

/*
 * Combine the sums of two workers.
 */
Datum
alvyn_digest_combine(PG_FUNCTION_ARGS)
{
	DigestState *state = digest_state(fcinfo);

	if (!PG_ARGISNULL(1))
	{
		DigestState *other = (DigestState *) PG_GETARG_POINTER(1);

		state->count += other->count;
		state->low += other->low;
		state->high += other->high;
	}
	PG_RETURN_POINTER(state);
}

/*
 * The sums as bytes, to be sent to the leader.
 */
Datum
alvyn_digest_serialize(PG_FUNCTION_ARGS)
{
	DigestState *state = (DigestState *) PG_GETARG_POINTER(0);
	StringInfoData buffer;

	pq_begintypsend(&buffer);
	pq_sendint64(&buffer, state->count);
	pq_sendint64(&buffer, state->low);
	pq_sendint64(&buffer, state->high);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buffer));
}

/*
 * The sums from bytes.
 */
Datum
alvyn_digest_deserialize(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	DigestState *state = palloc0(sizeof(DigestState));
	StringInfoData buffer;

	initStringInfo(&buffer);
	appendBinaryStringInfo(&buffer, VARDATA_ANY(bytes),
						   VARSIZE_ANY_EXHDR(bytes));
	state->count = pq_getmsgint64(&buffer);
	state->low = pq_getmsgint64(&buffer);
	state->high = pq_getmsgint64(&buffer);
	pq_getmsgend(&buffer);
	PG_RETURN_POINTER(state);
}

/*
 * The digest: the number of events, a colon, and both sums in hexadecimal.
 */
Datum
alvyn_digest_final(PG_FUNCTION_ARGS)
{
	DigestState empty = {0};
	DigestState *state = &empty;

	if (!PG_ARGISNULL(0))
		state = (DigestState *) PG_GETARG_POINTER(0);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%llu:%016llx%016llx",
											  (unsigned long long) state->count,
											  (unsigned long long) state->high,
											  (unsigned long long) state->low)));
}

/*
 * The state in the first argument, made in the first call of the group.
 */
static DigestState *
digest_state(FunctionCallInfo fcinfo)
{
	MemoryContext context;
	MemoryContext old;
	DigestState *state;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "digest function called outside an aggregate");
	if (!PG_ARGISNULL(0))
		return (DigestState *) PG_GETARG_POINTER(0);

	old = MemoryContextSwitchTo(context);
	state = palloc0(sizeof(DigestState));
	initStringInfo(&state->buffer);
	MemoryContextSwitchTo(old);
	return state;
}

/*
 * The arguments behind the state.
 */
static void
digest_arguments(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	int			i;

	for (i = 0; i < EVENT_NATTS; i++)
	{
		values[i] = PG_GETARG_DATUM(i + 1);
		nulls[i] = PG_ARGISNULL(i + 1);
	}
}

/*
 * Add one event, given as the columns of alvyn.event, of which the stream id
 * may be replaced by the number of the stream.
 */
static void
digest_add(DigestState *state, Datum *values, bool *nulls, int64 stream_no)
{
	static const int varlenas[] = {EVENT_STREAM_ID, EVENT_ID, EVENT_TYPE,
	EVENT_DATA, EVENT_METADATA};
	StringInfo	buffer = &state->buffer;
	int64		fixed[6];
	uint64		hash;
	pg_crc32c	crc;
	int			i;

	fixed[0] = nulls[EVENT_POSITION] ? 0 : DatumGetInt64(values[EVENT_POSITION]);
	fixed[1] = nulls[EVENT_VERSION] ? 0 : DatumGetInt64(values[EVENT_VERSION]);
	fixed[2] = nulls[EVENT_TIME] ? 0 : DatumGetTimestampTz(values[EVENT_TIME]);
	fixed[3] = nulls[EVENT_SCHEMA_VERSION] ? 0 :
		DatumGetInt32(values[EVENT_SCHEMA_VERSION]);
	fixed[4] = nulls[EVENT_SNAPSHOT] ? 0 : DatumGetBool(values[EVENT_SNAPSHOT]);
	fixed[5] = stream_no;

	/* An id that is written out counts like one that is derived. */
	if (!nulls[EVENT_ID] && !nulls[EVENT_STREAM_ID] && !nulls[EVENT_VERSION])
		nulls[EVENT_ID] = digest_is_derived(values[EVENT_ID],
											values[EVENT_STREAM_ID],
											values[EVENT_VERSION]);

	resetStringInfo(buffer);
	appendBinaryStringInfo(buffer, (char *) fixed, sizeof(fixed));
	for (i = 0; i < lengthof(varlenas); i++)
		digest_varlena(buffer, values[varlenas[i]], nulls[varlenas[i]]);

	hash = hash_bytes_extended((unsigned char *) buffer->data, buffer->len,
							   DIGEST_SEED);
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, buffer->data, buffer->len);
	FIN_CRC32C(crc);
	state->count++;
	state->low += hash;
	state->high += hash_combine64(hash, crc);
}

/*
 * Add a value of variable length to the bytes of an event, behind its
 * length; NULL has length -1.
 */
static void
digest_varlena(StringInfo buffer, Datum value, bool isnull)
{
	struct varlena *plain = isnull ? NULL : PG_DETOAST_DATUM_PACKED(value);
	int32		length = isnull ? -1 : VARSIZE_ANY_EXHDR(plain);

	enlargeStringInfo(buffer, sizeof(length) + Max(length, 0));
	memcpy(buffer->data + buffer->len, &length, sizeof(length));
	buffer->len += sizeof(length);
	if (isnull)
		return;
	memcpy(buffer->data + buffer->len, VARDATA_ANY(plain), length);
	buffer->len += length;
	if ((Pointer) plain != DatumGetPointer(value))
		pfree(plain);
}

/*
 * Is an id what alvyn.event_id() derives?
 */
static bool
digest_is_derived(Datum id, Datum stream_id, Datum version)
{
	text	   *given = DatumGetTextPP(id);
	text	   *stream = DatumGetTextPP(stream_id);
	int			length = VARSIZE_ANY_EXHDR(stream);
	char		digits[MAXINT8LEN + 1];
	int			ndigits = pg_lltoa(DatumGetInt64(version), digits);

	return VARSIZE_ANY_EXHDR(given) == length + 1 + ndigits &&
		VARDATA_ANY(given)[length] == '/' &&
		memcmp(VARDATA_ANY(given), VARDATA_ANY(stream), length) == 0 &&
		memcmp(VARDATA_ANY(given) + length + 1, digits, ndigits) == 0;
}
