/*-------------------------------------------------------------------------
 *
 * idempotency.c
 *		The keys that make a repeated append return the first result.
 *
 * A key is stored with a SHA-256 fingerprint of what was appended and with
 * the result, one group of numbers a stream.  The result is stored rather
 * than derived from the events, because the events may be removed by
 * retention while the key is still valid.
 *
 * The fingerprint covers the streams and everything the caller said of the
 * events, as stored; for a command it covers the command, because what is
 * decided depends on the state.  It leaves out the expected versions, because a client
 * that repeats a call after a conflict has loaded the stream again.
 *
 * Locking
 *		A key is looked up after the streams of the call are locked.  Calls
 *		with the same content lock the same streams, so the second of them
 *		finds the key of the first.  Calls with the same key and other content
 *		can miss each other here; they meet in the primary key, whose name is
 *		the constraint name that users branch on.
 *
 * IDENTIFICATION
 *		src/idempotency.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "compat.h"
#include "executor/executor.h"
#include "idempotency.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* Columns of alvyn.idempotency_keys. */
enum
{
	KEYS_KEY = 1,
	KEYS_FINGERPRINT,
	KEYS_RESULT,
	KEYS_CREATED_AT,
	KEYS_NATTS = KEYS_CREATED_AT
};

/*
 * The numbers that the result column holds for each stream of a call, in the
 * byte order of the ids; all but the version are 0 where nothing was written.
 */
enum
{
	RESULT_FIRST_VERSION,
	RESULT_LAST_VERSION,
	RESULT_FIRST_POSITION,
	RESULT_LAST_POSITION,
	RESULT_VERSION,
	RESULT_WIDTH
};

static int	alvyn_idempotency_retention = 7 * 24 * 60 * 60;

static void idempotency_compare(AppendRequest *req, bytea *stored);
static void idempotency_restore(AppendRequest *req, ArrayType *result);
static ArrayType *idempotency_result(AppendRequest *req);
static bytea *idempotency_fingerprint(AppendRequest *req);
static void fingerprint_event(pg_cryptohash_ctx *ctx, AppendEvent *event);
static void fingerprint_varlena(pg_cryptohash_ctx *ctx, Datum value);
static void fingerprint_bytes(pg_cryptohash_ctx *ctx, const void *data,
							  Size length);

/*
 * Define the settings of this module.
 */
void
alvyn_idempotency_init(void)
{
	/*
	 * alvyn.idempotency_retention: how old a key must be before
	 * alvyn.purge_idempotency_keys() removes it.  A call repeated later than
	 * that is a new call.
	 */
	DefineCustomIntVariable("alvyn.idempotency_retention",
							"Sets how long idempotency keys are kept.",
							"Older keys are removed by alvyn.purge_idempotency_keys().",
							&alvyn_idempotency_retention,
							7 * 24 * 60 * 60, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_S,
							NULL, NULL, NULL);
}

/*
 * Look the key of a request up.  Returns true, with the first result in the
 * request, when it was used for the same content; raises 23505 when it was
 * used for another.
 */
bool
alvyn_idempotency_find(EventLog *log, AppendRequest *req)
{
	Relation	keys = table_open(log->catalog->idempotency_keys,
								  AccessShareLock);
	Relation	index = index_open(alvyn_log_catalog(log->function)->idempotency_key,
								   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(keys, NULL);
	IndexScanDesc scan;
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(req->key));
	key.sk_collation = C_COLLATION_OID;
	scan = alvyn_index_beginscan(keys, index, SnapshotSelf, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	req->duplicate = index_getnext_slot(scan, ForwardScanDirection, slot);
	if (req->duplicate)
	{
		bool		isnull;

		idempotency_compare(req,
							DatumGetByteaPP(slot_getattr(slot, KEYS_FINGERPRINT,
														 &isnull)));
		idempotency_restore(req,
							DatumGetArrayTypeP(slot_getattr(slot, KEYS_RESULT,
															&isnull)));
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(keys, NoLock);
	return req->duplicate;
}

/*
 * Store the key of a request with its result.
 */
void
alvyn_idempotency_store(EventLog *log, AppendRequest *req)
{
	LogTable	keys;
	Datum	   *values;

	alvyn_log_open_table(&keys, log->catalog->idempotency_keys, KEYS_NATTS,
						 false);
	values = keys.slot->tts_values;
	memset(keys.slot->tts_isnull, true,
		   keys.slot->tts_tupleDescriptor->natts * sizeof(bool));
	memset(keys.slot->tts_isnull, false, KEYS_NATTS * sizeof(bool));
	values[KEYS_KEY - 1] = PointerGetDatum(req->key);
	values[KEYS_FINGERPRINT - 1] = PointerGetDatum(idempotency_fingerprint(req));
	values[KEYS_RESULT - 1] = PointerGetDatum(idempotency_result(req));
	values[KEYS_CREATED_AT - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	ExecStoreVirtualTuple(keys.slot);
	alvyn_log_insert(log, &keys);
	alvyn_log_close_table(&keys);
}

/*
 * Raise an error unless the request has the stored fingerprint.
 */
static void
idempotency_compare(AppendRequest *req, bytea *stored)
{
	bytea	   *own = idempotency_fingerprint(req);

	if (VARSIZE_ANY_EXHDR(own) == VARSIZE_ANY_EXHDR(stored) &&
		memcmp(VARDATA_ANY(own), VARDATA_ANY(stored),
			   VARSIZE_ANY_EXHDR(own)) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("idempotency key \"%s\" was used for another append",
					text_to_cstring(req->key)),
			 errdetail("The streams or the events differ from those of the first call."),
			 errhint("Use a new key for every append, and repeat a call unchanged."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "idempotency_key")));
}

/*
 * Fill the request's streams from a stored result.
 */
static void
idempotency_restore(AppendRequest *req, ArrayType *result)
{
	int64	   *numbers = (int64 *) ARR_DATA_PTR(result);
	int			i;

	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];

		stream->first_version = numbers[RESULT_FIRST_VERSION];
		stream->last_version = numbers[RESULT_LAST_VERSION];
		stream->first_position = numbers[RESULT_FIRST_POSITION];
		stream->last_position = numbers[RESULT_LAST_POSITION];
		stream->head = numbers[RESULT_VERSION];
		numbers += RESULT_WIDTH;
	}
}

/*
 * The result of a request as it is stored.
 */
static ArrayType *
idempotency_result(AppendRequest *req)
{
	Datum	   *numbers = palloc(sizeof(Datum) * RESULT_WIDTH * req->nstreams);
	int			n = 0;
	int			i;

	for (i = 0; i < req->nstreams; i++)
	{
		AppendStream *stream = &req->streams[i];
		Datum	   *group = &numbers[n];

		group[RESULT_FIRST_VERSION] = Int64GetDatum(stream->first_version);
		group[RESULT_LAST_VERSION] = Int64GetDatum(stream->last_version);
		group[RESULT_FIRST_POSITION] = Int64GetDatum(stream->first_position);
		group[RESULT_LAST_POSITION] = Int64GetDatum(stream->last_position);
		group[RESULT_VERSION] = Int64GetDatum(stream->head);
		n += RESULT_WIDTH;
	}
	return construct_array(numbers, n, INT8OID, sizeof(int64),
						   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

/*
 * The fingerprint of a request's content.
 */
static bytea *
idempotency_fingerprint(AppendRequest *req)
{
	bytea	   *result = palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	int			i;

	if (pg_cryptohash_init(ctx) < 0)
		elog(ERROR, "could not start a hash: %s", pg_cryptohash_error(ctx));
	if (req->is_command)
	{
		for (i = 0; i < req->nstreams; i++)
		{
			fingerprint_varlena(ctx, PointerGetDatum(req->streams[i].id));
			fingerprint_varlena(ctx, req->streams[i].command);
		}
	}
	else
	{
		for (i = 0; i < req->nevents; i++)
			fingerprint_event(ctx, &req->events[i]);
	}

	SET_VARSIZE(result, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	if (pg_cryptohash_final(ctx, (uint8 *) VARDATA(result),
							PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not finish a hash: %s", pg_cryptohash_error(ctx));
	pg_cryptohash_free(ctx);
	return result;
}

/*
 * Add one event to a fingerprint.
 */
static void
fingerprint_event(pg_cryptohash_ctx *ctx, AppendEvent *event)
{
	/* A time that the caller did not give has been set from the clock. */
	TimestampTz time = event->has_time ? event->time : 0;

	fingerprint_varlena(ctx, PointerGetDatum(event->stream->id));
	fingerprint_varlena(ctx, event->type);
	fingerprint_varlena(ctx, event->data);
	fingerprint_varlena(ctx, event->metadata);
	fingerprint_varlena(ctx, event->id);
	fingerprint_bytes(ctx, &time, sizeof(time));
	fingerprint_bytes(ctx, &event->has_time, sizeof(event->has_time));
	fingerprint_bytes(ctx, &event->schema_version,
					  sizeof(event->schema_version));
}

/*
 * Add a value to a fingerprint, behind its length; NULL has length -1.
 */
static void
fingerprint_varlena(pg_cryptohash_ctx *ctx, Datum value)
{
	int32		length = -1;

	if (value != (Datum) 0)
		length = VARSIZE_ANY_EXHDR(DatumGetPointer(value));
	fingerprint_bytes(ctx, &length, sizeof(length));
	if (length > 0)
		fingerprint_bytes(ctx, VARDATA_ANY(DatumGetPointer(value)), length);
}

/*
 * Add bytes to a fingerprint.
 */
static void
fingerprint_bytes(pg_cryptohash_ctx *ctx, const void *data, Size length)
{
	if (pg_cryptohash_update(ctx, data, length) < 0)
		elog(ERROR, "could not update a hash: %s", pg_cryptohash_error(ctx));
}
