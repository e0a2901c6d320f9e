/*-------------------------------------------------------------------------
 *
 * request.c
 *		What an append was asked to do, checked.
 *
 * The three forms of an append (one event, a batch, several streams) are
 * brought into one shape here.  Everything about them that can be wrong is
 * found before the first lock is taken, and reported with the name of the
 * argument and the element of the array.
 *
 * The streams of a request stand in the byte order of their ids, which is the
 * order in which an append locks them; its events stand in the caller's order.
 *
 * IDENTIFICATION
 *		src/request.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "request.h"
#include "tenant.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

/* An array argument, taken apart; count is -1 when it was NULL. */
typedef struct RequestArray
{
	const char *name;
	int			count;
	Datum	   *values;
	bool	   *nulls;
} RequestArray;

/* A name on its way into the sorted list of streams. */
typedef struct StreamMention
{
	text	   *id;
	int			event;			/* index of the event, or -1 */
	int			check;			/* index into check_streams, or -1 */
} StreamMention;

/* Event types with this ending belong to generated snapshots. */
#define SNAPSHOT_SUFFIX "Snapshot"

/* The first instants of year 1 and of year 10000, UTC. */
#define TIME_FIRST ((date2j(1, 1, 1) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY)
#define TIME_END ((date2j(10000, 1, 1) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY)

static int	alvyn_max_event_size = 1024 * 1024;

static void request_one_stream(AppendRequest *req, FunctionCallInfo fcinfo);
static void request_key(AppendRequest *req, FunctionCallInfo fcinfo, int arg);
static void request_event_arrays(AppendRequest *req, RequestArray *types,
								 RequestArray *data, RequestArray *metadata,
								 RequestArray *ids, RequestArray *times,
								 RequestArray *schema_versions);
static void request_merge_streams(AppendRequest *req, RequestArray *streams,
								  RequestArray *checks,
								  RequestArray *versions);
static void request_add_mention(AppendRequest *req, StreamMention *mention,
								RequestArray *versions);
static int	mention_compare(const void *a, const void *b);
static void request_unique_ids(AppendRequest *req);
static int	id_compare(const void *a, const void *b);
static int	text_compare(text *a, text *b);
static RequestArray request_array(FunctionCallInfo fcinfo, int arg,
								  const char *name, Oid type);
static void request_same_length(RequestArray *array, RequestArray *other);
static Datum array_value(RequestArray *array, int i);
static void request_check_text(Datum name, const char *label, int element);
static void request_check_expected(int64 expected, const char *label,
								   int element);
pg_noreturn static void request_refuse_tenant(const AppendEvent *event,
											  int element);
pg_noreturn static void request_null(const char *label, int element);
static const char *request_label(const char *name, int element);

/*
 * Define the settings of this module.
 */
void
alvyn_request_init(void)
{
	/*
	 * alvyn.max_event_size: the largest event that an append accepts, data
	 * and metadata together, as jsonb stores them before compression.  Only a
	 * superuser can change it, because it protects everybody who later loads
	 * the stream.
	 */
	DefineCustomIntVariable("alvyn.max_event_size",
							"Sets the largest event that can be appended.",
							"Data and metadata together, in bytes.",
							&alvyn_max_event_size,
							1024 * 1024, 1024, 256 * 1024 * 1024,
							PGC_SUSET, GUC_UNIT_BYTE,
							NULL, NULL, NULL);
}

/*
 * Check the arguments of alvyn.append().
 */
void
alvyn_request_single(AppendRequest *req, FunctionCallInfo fcinfo)
{
	AppendEvent *event = palloc0(sizeof(AppendEvent));

	request_one_stream(req, fcinfo);
	req->nevents = 1;
	req->events = event;
	req->streams->nevents = 1;

	event->stream = req->streams;
	if (!PG_ARGISNULL(2))
		event->type = PointerGetDatum(PG_GETARG_TEXT_PP(2));
	if (!PG_ARGISNULL(3))
		event->data = PointerGetDatum(PG_GETARG_VARLENA_PP(3));
	if (!PG_ARGISNULL(4))
		event->metadata = PointerGetDatum(PG_GETARG_VARLENA_PP(4));
	if (!PG_ARGISNULL(5))
		event->id = PointerGetDatum(PG_GETARG_TEXT_PP(5));
	event->has_time = !PG_ARGISNULL(6);
	event->time = event->has_time ? PG_GETARG_TIMESTAMPTZ(6) : 0;
	event->schema_version = PG_ARGISNULL(7) ? 1 : PG_GETARG_INT32(7);
	alvyn_request_check_event(event, false, 0);
	request_key(req, fcinfo, 8);
}

/*
 * Check the arguments of alvyn.append_batch().
 */
void
alvyn_request_batch(AppendRequest *req, FunctionCallInfo fcinfo)
{
	RequestArray types = request_array(fcinfo, 2, "types", TEXTOID);
	RequestArray data = request_array(fcinfo, 3, "data", JSONBOID);
	RequestArray metadata = request_array(fcinfo, 4, "metadata", JSONBOID);
	RequestArray ids = request_array(fcinfo, 5, "ids", TEXTOID);
	RequestArray times = request_array(fcinfo, 6, "times", TIMESTAMPTZOID);
	RequestArray schema_versions = request_array(fcinfo, 7, "schema_versions",
												 INT4OID);
	int			i;

	request_one_stream(req, fcinfo);
	request_event_arrays(req, &types, &data, &metadata, &ids, &times,
						 &schema_versions);
	req->streams->nevents = req->nevents;
	for (i = 0; i < req->nevents; i++)
		req->events[i].stream = req->streams;
	if (ids.count >= 0)
		request_unique_ids(req);
	request_key(req, fcinfo, 8);
}

/*
 * Check the arguments of alvyn.append_streams().
 */
void
alvyn_request_streams(AppendRequest *req, FunctionCallInfo fcinfo)
{
	RequestArray streams = request_array(fcinfo, 0, "stream_ids", TEXTOID);
	RequestArray types = request_array(fcinfo, 1, "types", TEXTOID);
	RequestArray data = request_array(fcinfo, 2, "data", JSONBOID);
	RequestArray metadata = request_array(fcinfo, 3, "metadata", JSONBOID);
	RequestArray checks = request_array(fcinfo, 4, "check_streams", TEXTOID);
	RequestArray versions = request_array(fcinfo, 5, "check_versions", INT8OID);
	RequestArray none = {NULL, -1, NULL, NULL};

	memset(req, 0, sizeof(*req));
	if (streams.count < 0)
		request_null(streams.name, 0);
	request_event_arrays(req, &types, &data, &metadata, &none, &none, &none);
	request_same_length(&streams, &types);
	if (checks.count >= 0 || versions.count >= 0)
		request_same_length(&versions, &checks);
	request_merge_streams(req, &streams, &checks, &versions);
	request_key(req, fcinfo, 6);
}

/*
 * Check the arguments of alvyn.execute(): a stream, its command, the expected
 * version and the key.
 */
void
alvyn_request_command(AppendRequest *req, FunctionCallInfo fcinfo)
{
	AppendStream *stream = palloc0(sizeof(AppendStream));

	memset(req, 0, sizeof(*req));
	req->is_command = true;
	req->nstreams = 1;
	req->streams = stream;
	stream->id = alvyn_request_name(fcinfo, 0, "stream_id");
	if (PG_ARGISNULL(1))
		request_null("command", 0);
	stream->command = PointerGetDatum(PG_GETARG_VARLENA_PP(1));
	stream->has_expected = !PG_ARGISNULL(2);
	if (stream->has_expected)
	{
		stream->expected = PG_GETARG_INT64(2);
		request_check_expected(stream->expected, "expected_version", 0);
	}
	request_key(req, fcinfo, 3);
}

/*
 * Check the arguments of alvyn.execute_streams(): streams, their commands and
 * the key.
 */
void
alvyn_request_commands(AppendRequest *req, FunctionCallInfo fcinfo)
{
	RequestArray streams = request_array(fcinfo, 0, "stream_ids", TEXTOID);
	RequestArray commands = request_array(fcinfo, 1, "commands", JSONBOID);
	RequestArray none = {NULL, -1, NULL, NULL};
	int			i;

	memset(req, 0, sizeof(*req));
	req->is_command = true;
	if (streams.count < 0)
		request_null(streams.name, 0);
	if (commands.count < 0)
		request_null(commands.name, 0);
	request_same_length(&commands, &streams);
	if (streams.count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be empty", streams.name)));

	req->nevents = streams.count;
	req->events = palloc0(sizeof(AppendEvent) * req->nevents);
	request_merge_streams(req, &streams, &none, &none);
	for (i = 0; i < req->nevents; i++)
	{
		AppendStream *stream = req->events[i].stream;

		if (stream->first_event != i)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"%s\" names a stream that is already there",
							request_label(streams.name, i + 1)),
					 errdetail("Each stream can have one command.")));
		if (commands.nulls[i])
			request_null(commands.name, i + 1);
		stream->command = commands.values[i];
		stream->nevents = 0;
	}
	req->nevents = 0;
	request_key(req, fcinfo, 2);
}

/*
 * Check one event.  "element" counts from 1 in the plural forms, which take
 * arrays.
 */
void
alvyn_request_check_event(AppendEvent *event, bool plural, int element)
{
	const char *type_name = plural ? "types" : "type";
	Size		size;
	Size		suffix = strlen(SNAPSHOT_SUFFIX);
	text	   *type;

	request_check_text(event->type, type_name, element);
	type = DatumGetTextPP(event->type);
	if (VARSIZE_ANY_EXHDR(type) >= suffix &&
		memcmp(VARDATA_ANY(type) + VARSIZE_ANY_EXHDR(type) - suffix,
			   SNAPSHOT_SUFFIX, suffix) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not end in \"%s\"",
						request_label(type_name, element), SNAPSHOT_SUFFIX),
				 errdetail("Such event types are reserved for generated snapshots.")));

	if (event->data == (Datum) 0)
		request_null("data", element);
	if (!alvyn_tenant_mark(&event->metadata))
		request_refuse_tenant(event, element);
	size = VARSIZE_ANY_EXHDR(DatumGetPointer(event->data));
	if (event->metadata != (Datum) 0)
		size += VARSIZE_ANY_EXHDR(DatumGetPointer(event->metadata));
	if (size > (Size) alvyn_max_event_size)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("argument \"%s\" is too large",
						request_label("data", element)),
				 errdetail("Data and metadata have %zu bytes, the limit is %d bytes.",
						   size, alvyn_max_event_size),
				 errhint("Store large content elsewhere and append a reference, or raise \"alvyn.max_event_size\".")));

	if (event->id != (Datum) 0)
		request_check_text(event->id, plural ? "ids" : "id", element);
	if (event->has_time &&
		(event->time < TIME_FIRST || event->time >= TIME_END))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range",
						request_label(plural ? "times" : "time", element)),
				 errdetail("The time of an event must lie in the years 1 to 9999.")));
	if (event->schema_version < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be at least 1",
						request_label(plural ? "schema_versions" : "schema_version",
									  element)),
				 errdetail("It is %d.", event->schema_version)));
}

/*
 * Raise the error for metadata that cannot be marked with the tenant.
 */
static void
request_refuse_tenant(const AppendEvent *event, int element)
{
	const char *tenant = alvyn_tenant_name();
	const char *label = request_label("metadata", element);

	if (!JB_ROOT_IS_OBJECT(DatumGetJsonbP(event->metadata)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is not a JSON object", label),
				 errdetail("The tenant \"%s\" is noted there.", tenant)));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("argument \"%s\" names another tenant", label),
			 tenant ? errdetail("The tenant of the session is \"%s\".", tenant) :
			 errdetail("The session has no tenant."),
			 errhint("Leave \"tenant\" out of the metadata; it is filled in."),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "tenant")));
}

/*
 * A name that another function takes as its argument: a stream id mostly.
 */
text *
alvyn_request_name(FunctionCallInfo fcinfo, int arg, const char *name)
{
	text	   *value;

	if (PG_ARGISNULL(arg))
		request_null(name, 0);
	value = PG_GETARG_TEXT_PP(arg);
	request_check_text(PointerGetDatum(value), name, 0);
	return value;
}

/*
 * A bigint argument that has a lower limit.
 */
void
alvyn_request_at_least(FunctionCallInfo fcinfo, int arg, const char *name,
					   int64 least)
{
	if (PG_ARGISNULL(arg))
		request_null(name, 0);
	if (PG_GETARG_INT64(arg) < least)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be at least %lld", name,
						(long long) least),
				 errdetail("It is %lld.", (long long) PG_GETARG_INT64(arg))));
}

/*
 * The stream and the expected version of append() and append_batch().
 */
static void
request_one_stream(AppendRequest *req, FunctionCallInfo fcinfo)
{
	AppendStream *stream = palloc0(sizeof(AppendStream));

	memset(req, 0, sizeof(*req));
	req->nstreams = 1;
	req->streams = stream;
	stream->id = alvyn_request_name(fcinfo, 0, "stream_id");
	stream->has_expected = !PG_ARGISNULL(1);
	if (stream->has_expected)
	{
		stream->expected = PG_GETARG_INT64(1);
		request_check_expected(stream->expected, "expected_version", 0);
	}
}

/*
 * The idempotency key, if there is one.
 */
static void
request_key(AppendRequest *req, FunctionCallInfo fcinfo, int arg)
{
	if (!PG_ARGISNULL(arg))
		req->key = alvyn_request_name(fcinfo, arg, "idempotency_key");
}

/*
 * The events of append_batch() and append_streams().
 */
static void
request_event_arrays(AppendRequest *req, RequestArray *types,
					 RequestArray *data, RequestArray *metadata,
					 RequestArray *ids, RequestArray *times,
					 RequestArray *schema_versions)
{
	int			i;

	if (types->count < 0)
		request_null(types->name, 0);
	if (data->count < 0)
		request_null(data->name, 0);
	request_same_length(data, types);
	request_same_length(metadata, types);
	request_same_length(ids, types);
	request_same_length(times, types);
	request_same_length(schema_versions, types);
	if (types->count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be empty", types->name),
				 errdetail("An append needs at least one event.")));

	req->nevents = types->count;
	req->events = MemoryContextAllocHuge(CurrentMemoryContext,
										 sizeof(AppendEvent) * req->nevents);
	for (i = 0; i < req->nevents; i++)
	{
		AppendEvent *event = &req->events[i];

		event->stream = NULL;
		event->type = array_value(types, i);
		event->data = array_value(data, i);
		event->metadata = array_value(metadata, i);
		event->id = array_value(ids, i);
		event->has_time = times->count >= 0 && !times->nulls[i];
		event->time = event->has_time ?
			DatumGetTimestampTz(times->values[i]) : 0;
		event->schema_version =
			(schema_versions->count < 0 || schema_versions->nulls[i]) ?
			1 : DatumGetInt32(schema_versions->values[i]);
		alvyn_request_check_event(event, true, i + 1);
	}
}

/*
 * Build the sorted list of the streams that append_streams() writes or
 * checks, and connect the events with it.
 */
static void
request_merge_streams(AppendRequest *req, RequestArray *streams,
					  RequestArray *checks, RequestArray *versions)
{
	int			nchecks = Max(checks->count, 0);
	int			nmentions = req->nevents + nchecks;
	StreamMention *mentions;
	int			i;

	mentions = MemoryContextAllocHuge(CurrentMemoryContext,
									  sizeof(StreamMention) * nmentions);
	for (i = 0; i < nmentions; i++)
	{
		RequestArray *array = i < req->nevents ? streams : checks;
		int			element = i < req->nevents ? i : i - req->nevents;

		request_check_text(array_value(array, element), array->name,
						   element + 1);
		mentions[i].id = DatumGetTextPP(array->values[element]);
		mentions[i].event = i < req->nevents ? element : -1;
		mentions[i].check = i < req->nevents ? -1 : element;
	}
	qsort(mentions, nmentions, sizeof(StreamMention), mention_compare);

	req->streams = MemoryContextAllocExtended(CurrentMemoryContext,
											  sizeof(AppendStream) * nmentions,
											  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (i = 0; i < nmentions; i++)
		request_add_mention(req, &mentions[i], versions);
}

/*
 * Add the next mention of a stream to the sorted list: a new entry, or one
 * more event or check for the last one.
 */
static void
request_add_mention(AppendRequest *req, StreamMention *mention,
					RequestArray *versions)
{
	AppendStream *stream = &req->streams[Max(req->nstreams - 1, 0)];

	if (req->nstreams == 0 || text_compare(stream->id, mention->id) != 0)
	{
		stream = &req->streams[req->nstreams++];
		stream->id = mention->id;
		stream->first_event = mention->event;
	}

	if (mention->event >= 0)
	{
		req->events[mention->event].stream = stream;
		stream->nevents++;
		return;
	}
	if (stream->has_expected)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" names a stream that is already there",
						request_label("check_streams", mention->check + 1)),
				 errdetail("Each stream can have one expected version.")));
	if (!versions->nulls[mention->check])
	{
		stream->has_expected = true;
		stream->expected = DatumGetInt64(versions->values[mention->check]);
		request_check_expected(stream->expected, versions->name,
							   mention->check + 1);
	}
}

/*
 * Order of mentions: by id, byte by byte; the events of a stream in the
 * caller's order, before its check.
 */
static int
mention_compare(const void *a, const void *b)
{
	const StreamMention *x = a;
	const StreamMention *y = b;
	int			result = text_compare(x->id, y->id);

	if (result != 0)
		return result;
	if ((x->event >= 0) != (y->event >= 0))
		return x->event >= 0 ? -1 : 1;
	if (x->event >= 0)
		return x->event < y->event ? -1 : 1;
	return x->check < y->check ? -1 : 1;
}

/*
 * Refuse a batch in which two events have the same id.
 */
static void
request_unique_ids(AppendRequest *req)
{
	AppendEvent **sorted = MemoryContextAllocHuge(CurrentMemoryContext,
												  sizeof(AppendEvent *) * req->nevents);
	int			n = 0;
	int			i;

	for (i = 0; i < req->nevents; i++)
	{
		if (req->events[i].id != (Datum) 0)
			sorted[n++] = &req->events[i];
	}
	qsort(sorted, n, sizeof(AppendEvent *), id_compare);
	for (i = 1; i < n; i++)
	{
		const AppendEvent *first = Min(sorted[i - 1], sorted[i]);
		const AppendEvent *second = Max(sorted[i - 1], sorted[i]);

		if (id_compare(&sorted[i - 1], &sorted[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"%s\" is the same as \"%s\"",
							request_label("ids", second - req->events + 1),
							request_label("ids", first - req->events + 1)),
					 errdetail("The ids of the events of a batch must differ.")));
	}
	pfree(sorted);
}

/*
 * Order of events by their ids.
 */
static int
id_compare(const void *a, const void *b)
{
	return text_compare(DatumGetTextPP((*(AppendEvent *const *) a)->id),
						DatumGetTextPP((*(AppendEvent *const *) b)->id));
}

/*
 * Compare two texts byte by byte.
 */
static int
text_compare(text *a, text *b)
{
	return varstr_cmp(VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
					  VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b), C_COLLATION_OID);
}

/*
 * Take an array argument apart.
 */
static RequestArray
request_array(FunctionCallInfo fcinfo, int arg, const char *name, Oid type)
{
	RequestArray result = {name, -1, NULL, NULL};
	ArrayType  *array;
	int16		length;
	bool		by_value;
	char		align;

	if (PG_ARGISNULL(arg))
		return result;

	array = PG_GETARG_ARRAYTYPE_P(arg);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must have one dimension", name),
				 errdetail("It has %d dimensions.", ARR_NDIM(array))));
	get_typlenbyvalalign(type, &length, &by_value, &align);
	deconstruct_array(array, type, length, by_value, align,
					  &result.values, &result.nulls, &result.count);
	return result;
}

/*
 * Two arrays that go together must be equally long.
 */
static void
request_same_length(RequestArray *array, RequestArray *other)
{
	if (array->name == NULL || array->count == other->count)
		return;
	if (array->count < 0 && strcmp(array->name, "check_versions") != 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("arguments \"%s\" and \"%s\" must have the same length",
					array->name, other->name),
			 errdetail("They have %d and %d elements.",
					   Max(array->count, 0), Max(other->count, 0))));
}

/*
 * An element of an array, 0 for NULL or when there is no array.
 */
static Datum
array_value(RequestArray *array, int i)
{
	if (array->count < 0 || array->nulls[i])
		return (Datum) 0;
	return array->values[i];
}

/*
 * Check a name: there, not empty, not too long.
 */
static void
request_check_text(Datum name, const char *label, int element)
{
	Size		length;

	if (name == (Datum) 0)
		request_null(label, element);
	length = VARSIZE_ANY_EXHDR(DatumGetPointer(name));
	if (length == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be empty",
						request_label(label, element))));
	if (length > REQUEST_MAX_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("argument \"%s\" is too long",
						request_label(label, element)),
				 errdetail("It has %zu bytes, the limit is %d bytes.",
						   length, REQUEST_MAX_NAME)));
}

/*
 * Check an expected version.
 */
static void
request_check_expected(int64 expected, const char *label, int element)
{
	if (expected < EXPECTED_EXISTS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be at least %d",
						request_label(label, element), EXPECTED_EXISTS),
				 errdetail("It is %lld.", (long long) expected),
				 errhint("Use null for any version, 0 or -1 for a stream that must not exist, -2 for one that must exist.")));
}

/*
 * Report an argument, or an element of one, that must not be null.
 */
static void
request_null(const char *label, int element)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" must not be null",
					request_label(label, element))));
}

/*
 * The name of an argument, with the element if it is an array.
 */
static const char *
request_label(const char *name, int element)
{
	return element > 0 ? psprintf("%s[%d]", name, element) : name;
}
