/*-------------------------------------------------------------------------
 *
 * tally.c
 *		Counting messages that were refused.
 *
 * A message that is refused ends in an error, and what its transaction has
 * written is gone.  Its count must not be.  An ordinary UPDATE cannot do that,
 * and a sequence counts one thing only and would have to be made for each
 * source and reason.  So the counts of a source are a row that changes in
 * place (cell.c): nothing to roll back, and nothing to vacuum either.
 *
 * A count whose WAL was not flushed when the server crashes is lost; the next
 * commit of anybody flushes it.
 *
 * IDENTIFICATION
 *		src/tally.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cell.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"

/* alvyn.inbox_counts begins with the counters. */
#define TALLY_NCOUNTERS		6
#define TALLY_SOURCE		(TALLY_NCOUNTERS + 1)

PG_FUNCTION_INFO_V1(alvyn_count_message);

/*
 * alvyn.count_message(source text, counter int) returns void
 *
 * Add 1 to a counter of a source, for good.
 */
Datum
alvyn_count_message(PG_FUNCTION_ARGS)
{
	int			counter = PG_GETARG_INT32(1);
	Cell		cell;
	ScanKeyData key;

	PreventCommandDuringRecovery("receive()");
	PreventCommandIfReadOnly("receive()");
	if (counter < 0 || counter >= TALLY_NCOUNTERS)
		elog(ERROR, "there is no counter %d", counter);
	ScanKeyInit(&key, TALLY_SOURCE, BTEqualStrategyNumber, F_TEXTEQ,
				PG_GETARG_DATUM(0));
	if (alvyn_cell_find(&cell, fcinfo->flinfo->fn_oid, "inbox_counts", &key, 1))
	{
		((int64 *) alvyn_cell_lock(&cell))[counter]++;
		alvyn_cell_unlock(&cell, true);
		alvyn_cell_close(&cell);
	}
	PG_RETURN_VOID();
}
