/*-------------------------------------------------------------------------
 *
 * tenant.c
 *		The tenant of a session, and what it may still append.
 *
 * Each event that a session with a tenant appends says so in its metadata.
 * That is all there is to count by: the appends of a tenant write no common
 * row.  A consumer of the feed adds the events up afterwards, into
 * alvyn.usage_hours.
 *
 * Quotas are compared with those sums.  A backend reads the quotas of its
 * tenant and the sums once, remembers what is left, and takes its own appends
 * from that, which costs an append some comparisons.  It reads them again when
 * another tenant is set, when a period ends, when one of its own appends is
 * rolled back, and when either table changes, of which a statement trigger
 * tells all backends as it does for definitions.
 * What other backends have appended since the last sums is not seen.  The
 * simple version, a counter that every append of the tenant updates, would
 * let those appends wait for each other.
 *
 * IDENTIFICATION
 *		src/tenant.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "compat.h"
#include "log.h"
#include "tenant.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define TENANT_KEY		"tenant"
#define TENANT_MAX_NAME 63

/* Columns of alvyn.tenant_quotas; the limits are null where there is none. */
enum
{
	QUOTAS_TENANT = 1,
	QUOTAS_PERIOD,
	QUOTAS_EVENTS
};

/* Columns of alvyn.usage_hours. */
enum
{
	USAGE_TENANT = 1,
	USAGE_HOUR,
	USAGE_EVENTS
};

/* What is counted, in the order of the columns of both tables. */
enum
{
	COUNT_EVENTS,
	COUNT_BYTES,
	COUNT_COMMANDS,
	NCOUNTS
};

static const char *const count_names[NCOUNTS] = {
	"events", "bytes", "commands"
};

/* hour, day and month */
#define MAX_PERIODS		3

/* A quota of the tenant, in the period that is now. */
typedef struct Quota
{
	char		period[8];
	TimestampTz start;
	TimestampTz end;
	bool		limited[NCOUNTS];
	int64		limit[NCOUNTS];
	int64		left[NCOUNTS];	/* may be negative */
} Quota;

static char *alvyn_tenant = NULL;
static Jsonb *tenant_member = NULL; /* {"tenant": name}, or NULL */

static bool quotas_valid = false;
static int	nquotas = 0;
static Quota quotas[MAX_PERIODS];
static TimestampTz quotas_end;	/* when the first period ends */
static bool charged = false;	/* or read, by the running transaction */
static Oid	quotas_table = InvalidOid;
static Oid	usage_table = InvalidOid;

static bool tenant_check(char **newval, void **extra, GucSource source);
static void tenant_assign(const char *newval, void *extra);
static void tenant_forget(Datum arg, Oid relid);
static void tenant_end_transaction(XactEvent event, void *arg);
static void tenant_end_subtransaction(SubXactEvent event,
									  SubTransactionId subid,
									  SubTransactionId parent, void *arg);
static Jsonb *tenant_build_member(void);
static void tenant_read(EventLog *log);
static void tenant_read_quotas(Relation rel, IndexScanDesc scan);
static void tenant_read_usage(Relation rel, IndexScanDesc scan);
static void tenant_scan(Oid schema, const char *table, const char *index,
						Oid *remembered,
						void (*read) (Relation, IndexScanDesc));
static void quota_set_period(Quota *quota, TimestampTz now);
static TimestampTz month_start(TimestampTz time, int later);
pg_noreturn static void quota_refuse(const Quota *quota, int count,
									 int64 needed);

/*
 * Define the settings of this module, and listen to changes of quotas.
 */
void
alvyn_tenant_init(void)
{
	/*
	 * alvyn.tenant: whose events the session appends.  Each gets the name in
	 * its metadata.  Only a superuser can set it, for a role or a database,
	 * or else alvyn.authenticate() does for who knows an API key: nobody
	 * appends as another tenant.
	 */
	DefineCustomStringVariable("alvyn.tenant",
							   "Sets the tenant whose events are appended.",
							   "It is noted in the metadata of each event.",
							   &alvyn_tenant,
							   "",
							   PGC_SUSET, 0,
							   tenant_check, tenant_assign, NULL);
	CacheRegisterRelcacheCallback(tenant_forget, (Datum) 0);
	RegisterXactCallback(tenant_end_transaction, NULL);
	RegisterSubXactCallback(tenant_end_subtransaction, NULL);
}

/*
 * The tenant of the session, or NULL.
 */
const char *
alvyn_tenant_name(void)
{
	return alvyn_tenant && alvyn_tenant[0] ? alvyn_tenant : NULL;
}

/*
 * Note the tenant in the metadata of an event, 0 for none.  Returns false when
 * it cannot be done: the metadata names another tenant, or is no object.
 */
bool
alvyn_tenant_mark(Datum *metadata)
{
	const char *tenant = alvyn_tenant_name();
	Jsonb	   *given;
	JsonbValue *value;

	if (*metadata == (Datum) 0)
	{
		if (tenant)
			*metadata = JsonbPGetDatum(tenant_build_member());
		return true;
	}
	given = DatumGetJsonbP(*metadata);
	if (!JB_ROOT_IS_OBJECT(given))
		return tenant == NULL;
	value = getKeyJsonValueFromContainer(&given->root, TENANT_KEY,
										 strlen(TENANT_KEY), NULL);
	if (value)
		return tenant && value->type == jbvString &&
			value->val.string.len == strlen(tenant) &&
			memcmp(value->val.string.val, tenant, strlen(tenant)) == 0;
	if (tenant)
		*metadata = DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(given),
										JsonbPGetDatum(tenant_build_member()));
	return true;
}

/*
 * Take what a request appends from what is left of the quotas.  Raises 53400
 * when that is not enough.
 */
void
alvyn_tenant_charge(EventLog *log, const AppendRequest *req)
{
	int64		needed[NCOUNTS] = {req->nevents, 0, 1};
	int			i;
	int			c;

	if (!alvyn_tenant_name())
		return;
	if (!quotas_valid || (nquotas > 0 && GetCurrentTimestamp() >= quotas_end))
		tenant_read(log);
	if (nquotas == 0)
		return;

	for (i = 0; i < req->nevents; i++)
	{
		const AppendEvent *event = &req->events[i];

		needed[COUNT_BYTES] += VARSIZE_ANY(DatumGetPointer(event->data));
		if (event->metadata != (Datum) 0)
			needed[COUNT_BYTES] += VARSIZE_ANY(DatumGetPointer(event->metadata));
	}
	for (i = 0; i < nquotas; i++)
	{
		for (c = 0; c < NCOUNTS; c++)
		{
			if (quotas[i].limited[c] && needed[c] > quotas[i].left[c])
				quota_refuse(&quotas[i], c, needed[c]);
		}
	}
	for (i = 0; i < nquotas; i++)
	{
		for (c = 0; c < NCOUNTS; c++)
			quotas[i].left[c] -= needed[c];
	}
	charged = true;
}

/*
 * Is this the name of a tenant, or empty?
 */
static bool
tenant_check(char **newval, void **extra, GucSource source)
{
	const char *p = *newval;

	if (strlen(p) > TENANT_MAX_NAME ||
		strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(p))
	{
		GUC_check_errdetail("A tenant has up to %d letters, digits, dots, hyphens and underscores.",
							TENANT_MAX_NAME);
		return false;
	}
	return true;
}

/*
 * Forget what was known of another tenant.
 */
static void
tenant_assign(const char *newval, void *extra)
{
	quotas_valid = false;
	if (tenant_member)
		pfree(tenant_member);
	tenant_member = NULL;
}

/*
 * Forget what is left of the quotas when one of the tables has changed.
 */
static void
tenant_forget(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == quotas_table || relid == usage_table)
		quotas_valid = false;
}

/*
 * What was taken from the quotas and then rolled back has to be given back.
 */
static void
tenant_end_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT && charged)
		quotas_valid = false;
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT ||
		event == XACT_EVENT_PREPARE)
		charged = false;
}

/*
 * The same for a subtransaction; it is not known what of it was its own.
 */
static void
tenant_end_subtransaction(SubXactEvent event, SubTransactionId subid,
						  SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && charged)
		quotas_valid = false;
}

/*
 * The metadata of an event that has no other, kept until the tenant changes.
 */
static Jsonb *
tenant_build_member(void)
{
	JsonbParseState *state = NULL;
	JsonbValue	value;
	Jsonb	   *built;
	MemoryContext old;

	if (tenant_member)
		return tenant_member;
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	value.type = jbvString;
	value.val.string.val = TENANT_KEY;
	value.val.string.len = strlen(TENANT_KEY);
	pushJsonbValue(&state, WJB_KEY, &value);
	value.val.string.val = alvyn_tenant;
	value.val.string.len = strlen(alvyn_tenant);
	pushJsonbValue(&state, WJB_VALUE, &value);
	built = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));

	old = MemoryContextSwitchTo(TopMemoryContext);
	tenant_member = (Jsonb *) palloc(VARSIZE(built));
	memcpy(tenant_member, built, VARSIZE(built));
	MemoryContextSwitchTo(old);
	return tenant_member;
}

/*
 * Read the quotas of the tenant and what it has used.  What changes while
 * this goes on makes the next call read again.
 */
static void
tenant_read(EventLog *log)
{
	Oid			schema = log->catalog->schema;

	/* As far as this gets before an error, it must not be kept. */
	charged = true;
	nquotas = 0;
	quotas_end = DT_NOEND;
	quotas_valid = true;
	tenant_scan(schema, "tenant_quotas", "tenant_quotas_pkey", &quotas_table,
				tenant_read_quotas);
	if (nquotas > 0)
		tenant_scan(schema, "usage_hours", "usage_hours_pkey", &usage_table,
					tenant_read_usage);
}

/*
 * Read the rows of the tenant from a table whose key begins with it.
 */
static void
tenant_scan(Oid schema, const char *table, const char *index, Oid *remembered,
			void (*read) (Relation, IndexScanDesc))
{
	text	   *name = cstring_to_text(alvyn_tenant);
	Relation	rel;
	Relation	by_key;
	Snapshot	snapshot;
	IndexScanDesc scan;
	ScanKeyData key;

	*remembered = get_relname_relid(table, schema);
	rel = table_open(*remembered, AccessShareLock);
	by_key = index_open(get_relname_relid(index, schema), AccessShareLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(name));
	key.sk_collation = C_COLLATION_OID;
	scan = alvyn_index_beginscan(rel, by_key, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	read(rel, scan);
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	index_close(by_key, NoLock);
	table_close(rel, NoLock);
}

/*
 * Take the limits of the tenant.
 */
static void
tenant_read_quotas(Relation rel, IndexScanDesc scan)
{
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TimestampTz now = GetCurrentTimestamp();

	while (nquotas < MAX_PERIODS &&
		   index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		Quota	   *quota = &quotas[nquotas++];
		int			c;

		slot_getallattrs(slot);
		text_to_cstring_buffer(DatumGetTextPP(slot->tts_values[QUOTAS_PERIOD - 1]),
							   quota->period, sizeof(quota->period));
		quota_set_period(quota, now);
		for (c = 0; c < NCOUNTS; c++)
		{
			quota->limited[c] = !slot->tts_isnull[QUOTAS_EVENTS - 1 + c];
			quota->limit[c] = quota->limited[c] ?
				DatumGetInt64(slot->tts_values[QUOTAS_EVENTS - 1 + c]) : 0;
			quota->left[c] = quota->limit[c];
		}
		quotas_end = Min(quotas_end, quota->end);
	}
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Take what the tenant has used in each period.
 */
static void
tenant_read_usage(Relation rel, IndexScanDesc scan)
{
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	/* The newest hour comes first. */
	while (index_getnext_slot(scan, BackwardScanDirection, slot))
	{
		TimestampTz hour;
		bool		wanted = false;
		int			i;
		int			c;

		slot_getallattrs(slot);
		hour = DatumGetTimestampTz(slot->tts_values[USAGE_HOUR - 1]);
		for (i = 0; i < nquotas; i++)
		{
			if (hour < quotas[i].start)
				continue;
			wanted = true;
			for (c = 0; c < NCOUNTS; c++)
				quotas[i].left[c] -=
					DatumGetInt64(slot->tts_values[USAGE_EVENTS - 1 + c]);
		}
		if (!wanted)
			break;
	}
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Where the period of a quota that is now begins and ends, in UTC.
 */
static void
quota_set_period(Quota *quota, TimestampTz now)
{
	int64		length = quota->period[0] == 'h' ? USECS_PER_HOUR :
	USECS_PER_DAY;

	if (quota->period[0] == 'm')
	{
		quota->start = month_start(now, 0);
		quota->end = month_start(now, 1);
	}
	else
	{
		/* The server counts from a midnight, and this is after it. */
		quota->start = now - now % length;
		quota->end = quota->start + length;
	}
}

/*
 * The first moment of the month of a time, or of the month after it.
 */
static TimestampTz
month_start(TimestampTz time, int later)
{
	int			year;
	int			month;
	int			day;

	j2date((int) (time / USECS_PER_DAY) + POSTGRES_EPOCH_JDATE, &year, &month,
		   &day);
	month += later;
	if (month > MONTHS_PER_YEAR)
	{
		month -= MONTHS_PER_YEAR;
		year++;
	}
	return (date2j(year, month, 1) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY;
}

/*
 * Raise the error for a quota that is used up.
 */
static void
quota_refuse(const Quota *quota, int count, int64 needed)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("quota of tenant \"%s\" is used up", alvyn_tenant),
			 errdetail("The limit is %lld %s per %s, %lld are left, %lld are needed.",
					   (long long) quota->limit[count], count_names[count],
					   quota->period,
					   (long long) Max(quota->left[count], 0),
					   (long long) needed),
			 errhint("The %s ends at %s.", quota->period,
					 timestamptz_to_str(quota->end)),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "quota")));
}
