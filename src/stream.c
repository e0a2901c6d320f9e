/*-------------------------------------------------------------------------
 *
 * stream.c
 *		Rows of alvyn.streams: finding, creating and locking a stream.
 *
 * Locking
 *		Every append locks its streams before it reads their heads, and keeps
 *		the locks to the end of the transaction.  The lock of a stream is a
 *		lock of PostgreSQL's lock manager on an object of the class of the
 *		table of streams, numbered by 48 bits of a hash of the stream id (two
 *		ids that have them in common would wait for each other).  It shares no number space with advisory locks, covers streams
 *		that do not exist yet, and nothing is written for it: a row lock would
 *		take a WAL record and a dirty page for every append, and a page image
 *		for every page of the registry after every checkpoint.
 *
 *		The lock manager has room for a few thousand locks of all sessions
 *		together.  So a transaction holds this lock for its first
 *		STREAM_GUARDS streams only.  For each one beyond it takes the lock,
 *		then the row lock, and gives the first lock back; row locks live in the
 *		rows, and a transaction can hold any number of them.  Whoever has the
 *		lock of a stream and finds its row locked waits for the row.  A stream
 *		that is created beyond the limit is guarded by the unique index:
 *		others that want the same id wait in it until the creator ends.
 *
 *		Waits can occur inside one call for many streams.  Callers go through
 *		their streams in the byte order of the ids.  Order by stream_no would
 *		not do: a stream that one transaction is creating has no number yet
 *		for another that wants it too.
 *
 * Reading under the lock
 *		Rows are looked up with SnapshotSelf, which sees whatever is committed
 *		at this instant and the transaction's own rows.  Under the lock of the
 *		stream nobody else changes them, so this is the fresh snapshot an
 *		append must read the head with, at no cost.  Before the lock, a row
 *		can be missed that is being updated just then; the append then tries
 *		to create it, meets it in the unique index and looks again.
 *
 * IDENTIFICATION
 *		src/stream.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "compat.h"
#include "event.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "place.h"
#include "request.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "stream.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* Streams of a transaction that are locked in the lock manager to its end. */
#define STREAM_GUARDS	32

/* The transaction that has locked streams last, and how many. */
static LocalTransactionId guards_transaction = InvalidLocalTransactionId;
static int	guards = 0;

PG_FUNCTION_INFO_V1(alvyn_stream_slot);
PG_FUNCTION_INFO_V1(alvyn_stream_version);
PG_FUNCTION_INFO_V1(alvyn_load_stream);
PG_FUNCTION_INFO_V1(alvyn_prefix_end);

static void stream_guard_tag(EventLog *log, const text *id, LOCKTAG *guard);
static bool stream_guard(EventLog *log, text *id, LOCKTAG *guard);
static bool stream_fetch(EventLog *log, text *id, Snapshot snapshot);
static bool stream_is_free(TupleTableSlot *slot);
static bool stream_lock_row(EventLog *log);
static void stream_read_marks(TupleTableSlot *slot, StreamRow *row);
static bool stream_insert(EventLog *log, LogTable *streams);
static List *stream_arbiters(LogTable *streams);
static void stream_store(TupleTableSlot *slot, text *id, StreamRow *row);

/*
 * alvyn.stream_slot(stream_id text) returns smallint
 *
 * The slot of a stream id, 0 to 1023.  Frozen: see alvyn_stream_hash().
 */
Datum
alvyn_stream_slot(PG_FUNCTION_ARGS)
{
	text	   *id = PG_GETARG_TEXT_PP(0);

	PG_RETURN_INT16(alvyn_stream_hash(VARDATA_ANY(id), VARSIZE_ANY_EXHDR(id)));
}

/*
 * alvyn.stream_version(stream_id text) returns bigint
 *
 * The head version of a stream as the calling statement sees it, 0 when there
 * is none.
 */
Datum
alvyn_stream_version(PG_FUNCTION_ARGS)
{
	text	   *id = alvyn_request_name(fcinfo, 0, "stream_id");
	Snapshot	snapshot = GetActiveSnapshot();
	int64		head = 0;
	EventLog	log;
	StreamRow	row;

	alvyn_log_open_read(&log, fcinfo->flinfo->fn_oid);
	if (alvyn_stream_find(&log, id, snapshot, &row))
		head = Max(alvyn_event_head(&log, row.stream_no, 0, snapshot),
				   row.version_floor);
	alvyn_log_close_read(&log);
	PG_RETURN_INT64(head);
}

/*
 * alvyn.load_stream(stream_id text, from_version bigint) returns bigint
 *
 * The number of a stream, or NULL when there is none; raises 22023 for
 * arguments that alvyn.load() must refuse, 55000 when the stream is tombstoned
 * or the version was removed.  Version 1 stands for what is left.
 */
Datum
alvyn_load_stream(PG_FUNCTION_ARGS)
{
	text	   *id = alvyn_request_name(fcinfo, 0, "stream_id");
	EventLog	log;
	StreamRow	row;
	bool		found;

	alvyn_request_at_least(fcinfo, 1, "from_version", 1);

	alvyn_log_open_read(&log, fcinfo->flinfo->fn_oid);
	found = alvyn_stream_find(&log, id, GetActiveSnapshot(), &row);
	alvyn_log_close_read(&log);
	if (!found)
		PG_RETURN_NULL();
	alvyn_stream_check_readable(id, &row);
	if (PG_GETARG_INT64(1) > 1 && PG_GETARG_INT64(1) <= row.version_floor)
		alvyn_stream_refuse_removed(id, &row);
	PG_RETURN_INT64(row.stream_no);
}

/*
 * alvyn.prefix_end(prefix text) returns text
 *
 * A value that sorts, byte by byte, behind every name that begins with
 * "prefix".  It is the prefix filled up with the highest byte to one more than
 * a name can have, so it is no valid text in most encodings: only compare
 * with it.
 */
Datum
alvyn_prefix_end(PG_FUNCTION_ARGS)
{
	text	   *prefix = PG_GETARG_TEXT_PP(0);
	int			length = VARSIZE_ANY_EXHDR(prefix);
	int			size = Max(length, REQUEST_MAX_NAME) + 1;
	text	   *end = palloc(VARHDRSZ + size);

	SET_VARSIZE(end, VARHDRSZ + size);
	memcpy(VARDATA(end), VARDATA_ANY(prefix), length);
	memset(VARDATA(end) + length, 0xff, size - length);
	PG_RETURN_TEXT_P(end);
}

/*
 * The slot of a stream id.
 *
 * 64-bit FNV-1a over the bytes of the id (Fowler, Noll, Vo), its four 16-bit
 * quarters folded together, modulo 1024.  Consumer partitions and shards are
 * ranges of this number, so it never changes; test/sql/stream.sql pins it.
 */
int16
alvyn_stream_hash(const char *id, int length)
{
	uint64		hash = UINT64CONST(0xcbf29ce484222325);
	int			i;

	for (i = 0; i < length; i++)
	{
		hash ^= (unsigned char) id[i];
		hash *= UINT64CONST(0x100000001b3);
	}
	hash ^= hash >> 32;
	hash ^= hash >> 16;
	return (int16) (hash % STREAM_SLOTS);
}

/*
 * Look a stream up by its id.  Returns false when "snapshot" sees none.
 */
bool
alvyn_stream_find(EventLog *log, text *id, Snapshot snapshot, StreamRow *row)
{
	if (!stream_fetch(log, id, snapshot))
		return false;
	alvyn_stream_read(log->stream_slot, row);
	stream_read_marks(log->stream_slot, row);
	ExecClearTuple(log->stream_slot);
	return true;
}

/*
 * Lock a stream, waiting for whoever holds it, and read its row.  Returns
 * false when there is none.
 */
bool
alvyn_stream_lock(EventLog *log, text *id, StreamRow *row)
{
	TupleTableSlot *slot = log->stream_slot;
	LOCKTAG		guard;
	bool		spare = stream_guard(log, id, &guard);
	bool		found;

	do
	{
		found = alvyn_place_recall(log, id) ||
			stream_fetch(log, id, SnapshotSelf);
	} while (found && (spare || !stream_is_free(slot)) &&
			 !stream_lock_row(log));
	if (found)
	{
		alvyn_stream_read(slot, row);
		stream_read_marks(slot, row);
		ExecClearTuple(slot);
		alvyn_place_note(id, &row->tid);
	}
	if (spare)
		LockRelease(&guard, ExclusiveLock, false);
	return found;
}

/*
 * Create a stream that alvyn_stream_lock() did not find.  Returns false when
 * another transaction has created it in the meantime, after waiting for that
 * transaction to end.
 *
 * This is INSERT ... ON CONFLICT DO NOTHING in the executor's own words: a
 * speculative tuple that the unique index accepts or refuses.
 */
bool
alvyn_stream_create(EventLog *log, text *id, StreamRow *row)
{
	LogTable	streams;
	bool		created;

	row->stream_no = nextval_internal(log->catalog->streams_stream_no_seq,
									  false);
	row->slot = alvyn_stream_hash(VARDATA_ANY(id), VARSIZE_ANY_EXHDR(id));
	row->state = STREAM_ACTIVE;
	row->version_floor = 0;
	row->nmarks = 0;
	row->marks = NULL;

	alvyn_log_open_table(&streams, log->catalog->streams, STREAMS_NATTS, true);
	stream_store(streams.slot, id, row);
	if (!streams.plain)
		alvyn_log_before_insert(log, &streams);
	created = stream_insert(log, &streams);
	row->tid = streams.slot->tts_tid;
	if (created && !streams.plain)
		alvyn_log_after_insert(log, &streams, NIL);
	alvyn_log_close_table(&streams);
	return created;
}

/*
 * Take back a stream that this call has created, so that nothing is written.
 */
void
alvyn_stream_discard(EventLog *log, StreamRow *row)
{
	CommandCounterIncrement();
	simple_table_tuple_delete(log->streams, &row->tid, SnapshotSelf);
}

/*
 * Refuse to read a stream that is closed for ever.
 */
void
alvyn_stream_check_readable(const text *id, const StreamRow *row)
{
	if (row->state == STREAM_TOMBSTONED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream \"%s\" is %s", text_to_cstring(id),
						"tombstoned"),
				 errdetail("It can be neither loaded nor used again.")));
}

/*
 * Refuse to read what was removed.
 */
void
alvyn_stream_refuse_removed(const text *id, const StreamRow *row)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("history of stream \"%s\" was removed",
					text_to_cstring(id)),
			 errdetail("Versions up to %lld are gone.",
					   (long long) row->version_floor),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "history_removed")));
}

/*
 * Take a row out of a slot.
 */
void
alvyn_stream_read(TupleTableSlot *slot, StreamRow *row)
{
	Datum	   *values = slot->tts_values;

	slot_getsomeattrs(slot, STREAMS_STATE);
	row->tid = slot->tts_tid;
	row->stream_no = DatumGetInt64(values[STREAMS_STREAM_NO - 1]);
	row->version_floor = DatumGetInt64(values[STREAMS_VERSION_FLOOR - 1]);
	row->slot = DatumGetInt16(values[STREAMS_SLOT - 1]);
	row->state = DatumGetChar(values[STREAMS_STATE - 1]);
	row->nmarks = 0;
	row->marks = NULL;
}

/*
 * Has nobody else the lock of a stream in the lock manager at this moment?
 */
bool
alvyn_stream_is_unlocked(EventLog *log, const text *id)
{
	LOCKTAG		guard;

	stream_guard_tag(log, id, &guard);
	if (LockAcquire(&guard, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	LockRelease(&guard, ExclusiveLock, false);
	return true;
}

/*
 * The name of a stream in the lock manager.
 */
static void
stream_guard_tag(EventLog *log, const text *id, LOCKTAG *guard)
{
	uint64		hash = hash_bytes_extended((unsigned char *) VARDATA_ANY(id),
										   VARSIZE_ANY_EXHDR(id), 0);

	SET_LOCKTAG_OBJECT(*guard, MyDatabaseId, log->catalog->streams,
					   (uint32) hash, (uint16) (hash >> 32));
}

/*
 * Take the lock of a stream in the lock manager.  Returns whether it must be
 * given back once the row is locked, because the transaction holds enough.
 */
static bool
stream_guard(EventLog *log, text *id, LOCKTAG *guard)
{
	LocalTransactionId transaction = alvyn_local_transaction_id();

	stream_guard_tag(log, id, guard);
	if (LockAcquire(guard, ExclusiveLock, false, false) != LOCKACQUIRE_OK)
		return false;
	if (guards_transaction != transaction)
		guards = 0;
	guards_transaction = transaction;
	return ++guards > STREAM_GUARDS;
}

/*
 * Fetch the row of a stream into the slot, through the index on ids.
 */
static bool
stream_fetch(EventLog *log, text *id, Snapshot snapshot)
{
	IndexScanDesc scan;
	ScanKeyData key;
	bool		found;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(id));
	key.sk_collation = C_COLLATION_OID;
	scan = alvyn_index_beginscan(log->streams, alvyn_log_streams_by_id(log),
								 snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, log->stream_slot);
	index_endscan(scan);
	return found;
}

/*
 * Is the row in the slot free of locks and changes of other transactions?
 */
static bool
stream_is_free(TupleTableSlot *slot)
{
	HeapTupleHeader header;
	TransactionId xmax;

	if (!TTS_IS_BUFFERTUPLE(slot))
		return false;
	header = ((BufferHeapTupleTableSlot *) slot)->base.tuple->t_data;
	if (header->t_infomask & HEAP_XMAX_INVALID)
		return true;
	if (header->t_infomask & HEAP_XMAX_IS_MULTI)
		return false;
	xmax = HeapTupleHeaderGetRawXmax(header);
	return TransactionIdIsCurrentTransactionId(xmax) ||
		!TransactionIdIsInProgress(xmax);
}

/*
 * Lock the row in the slot.  Returns false when it was deleted meanwhile.
 */
static bool
stream_lock_row(EventLog *log)
{
	ItemPointerData tid = log->stream_slot->tts_tid;
	TM_FailureData failure;
	TM_Result	result;

	ExecClearTuple(log->stream_slot);
	result = table_tuple_lock(log->streams, &tid, SnapshotSelf,
							  log->stream_slot, GetCurrentCommandId(true),
							  LockTupleNoKeyExclusive, LockWaitBlock,
							  TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
	if (result == TM_Ok)
		return true;
	ExecClearTuple(log->stream_slot);
	if (result != TM_Deleted)
		elog(ERROR, "unexpected result %d from locking a stream", result);
	return false;
}

/*
 * Take the marks of the snapshots out of a slot.
 */
static void
stream_read_marks(TupleTableSlot *slot, StreamRow *row)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, STREAMS_SNAPSHOTS, &isnull);
	ArrayType  *array;
	int			count;

	if (isnull)
		return;
	array = DatumGetArrayTypeP(value);
	count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (ARR_HASNULL(array) || count % STREAM_MARK_WIDTH != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stream %lld has a malformed list of snapshots",
						(long long) row->stream_no)));
	row->nmarks = count / STREAM_MARK_WIDTH;
	row->marks = palloc(sizeof(StreamMark) * row->nmarks);
	memcpy(row->marks, ARR_DATA_PTR(array), sizeof(StreamMark) * row->nmarks);
}

/*
 * Write the marks of the snapshots into the row of a locked stream.
 */
void
alvyn_stream_update_marks(EventLog *log, StreamRow *row)
{
	LogTable	streams;
	TupleTableSlot *old;
	EPQState	epq;
	Datum	   *numbers;
	int			count = row->nmarks * STREAM_MARK_WIDTH;
	int			i;

	/* The row may have been created or locked by this very command. */
	CommandCounterIncrement();
	log->estate->es_output_cid = GetCurrentCommandId(true);
	alvyn_log_open_table(&streams, log->catalog->streams, STREAMS_NATTS, false);
	old = table_slot_create(streams.rel, NULL);
	if (!table_tuple_fetch_row_version(streams.rel, &row->tid, SnapshotSelf,
									   old))
		elog(ERROR, "row of stream %lld has gone", (long long) row->stream_no);

	numbers = palloc(sizeof(Datum) * count);
	for (i = 0; i < count; i++)
		numbers[i] = Int64GetDatum(((int64 *) row->marks)[i]);
	slot_getallattrs(old);
	memcpy(streams.slot->tts_values, old->tts_values,
		   old->tts_tupleDescriptor->natts * sizeof(Datum));
	memcpy(streams.slot->tts_isnull, old->tts_isnull,
		   old->tts_tupleDescriptor->natts * sizeof(bool));
	streams.slot->tts_values[STREAMS_SNAPSHOTS - 1] =
		PointerGetDatum(construct_array(numbers, count, INT8OID,
										sizeof(int64), FLOAT8PASSBYVAL,
										TYPALIGN_DOUBLE));
	streams.slot->tts_isnull[STREAMS_SNAPSHOTS - 1] = false;
	ExecStoreVirtualTuple(streams.slot);

	alvyn_epq_init(&epq, log->estate);
	ExecSimpleRelationUpdate(streams.result, log->estate, &epq, old,
							 streams.slot);
	EvalPlanQualEnd(&epq);
	row->tid = streams.slot->tts_tid;
	ExecDropSingleTupleTableSlot(old);
	alvyn_log_close_table(&streams);
}

/*
 * Insert the row in the slot, unless its id exists.  The check before the
 * insertion is what waits for another transaction that is just creating the
 * id; the speculative insertion itself never waits, and refuses the row when
 * another one came in between, leaving a dead row and the check to be done
 * again.
 */
static bool
stream_insert(EventLog *log, LogTable *streams)
{
	TransactionId xid = GetCurrentTransactionId();
	List	   *arbiters = stream_arbiters(streams);
	bool		conflict;

	do
	{
		ItemPointerData existing;
		uint32		token;

		if (!alvyn_check_index_constraints(streams->result, streams->slot,
										   log->estate, &existing, arbiters))
		{
			list_free(arbiters);
			return false;
		}
		conflict = false;
		token = SpeculativeInsertionLockAcquire(xid);
		table_tuple_insert_speculative(streams->rel, streams->slot,
									   GetCurrentCommandId(true), 0, NULL,
									   token);
		list_free(alvyn_insert_index_tuples(streams->result, streams->slot,
											log->estate, true, &conflict,
											arbiters));
		table_tuple_complete_speculative(streams->rel, streams->slot, token,
										 !conflict);
		SpeculativeInsertionLockRelease(xid);
		ResetPerTupleExprContext(log->estate);
	} while (conflict);
	list_free(arbiters);
	return true;
}

/*
 * The unique indexes on the id: one, or two while REINDEX CONCURRENTLY is
 * about to exchange them.  Either may be the first to meet the other row.
 */
static List *
stream_arbiters(LogTable *streams)
{
	List	   *arbiters = NIL;
	int			i;

	for (i = 0; i < streams->result->ri_NumIndices; i++)
	{
		Relation	index = streams->result->ri_IndexRelationDescs[i];
		IndexInfo  *info = streams->result->ri_IndexRelationInfo[i];

		if (info->ii_Unique && info->ii_ReadyForInserts &&
			info->ii_NumIndexKeyAttrs == 1 &&
			info->ii_IndexAttrNumbers[0] == STREAMS_STREAM_ID &&
			info->ii_Predicate == NIL && index->rd_index->indimmediate)
			arbiters = lappend_oid(arbiters, RelationGetRelid(index));
	}
	return arbiters;
}

/*
 * Put a new row into a slot.
 */
static void
stream_store(TupleTableSlot *slot, text *id, StreamRow *row)
{
	Datum	   *values = slot->tts_values;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true,
		   slot->tts_tupleDescriptor->natts * sizeof(bool));
	memset(slot->tts_isnull, false, STREAMS_SNAPSHOTS - 1);
	values[STREAMS_STREAM_NO - 1] = Int64GetDatum(row->stream_no);
	values[STREAMS_STREAM_ID - 1] = PointerGetDatum(id);
	values[STREAMS_SLOT - 1] = Int16GetDatum(row->slot);
	values[STREAMS_STATE - 1] = CharGetDatum(row->state);
	values[STREAMS_VERSION_FLOOR - 1] = Int64GetDatum(row->version_floor);
	values[STREAMS_CREATED_AT - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	ExecStoreVirtualTuple(slot);
}
