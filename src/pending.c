/*-------------------------------------------------------------------------
 *
 * pending.c
 *		The transactions that have taken positions and have not ended.
 *
 * nextval locks its sequence before it hands out a number, whatever becomes
 * of the subtransaction that it was called in, and the lock is kept to the
 * end of the transaction, also of a prepared one, also over a restart.  The
 * server can list who holds a lock, those that are kept in the backends
 * instead of the lock table included.
 *
 * IDENTIFICATION
 *		src/pending.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "miscadmin.h"
#include "pending.h"

/*
 * List the other transactions that hold the lock of a relation to write it.
 */
void
alvyn_pending_read(Pending *pending, Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	pending->items = GetLockConflicts(&tag, ShareLock, &pending->count);
}

/*
 * Free the list.
 */
void
alvyn_pending_free(Pending *pending)
{
	if (pending->items)
		pfree(pending->items);
	pending->items = NULL;
	pending->count = 0;
}

/*
 * Take the transaction that "xid" belongs to from the list.  Returns whether
 * it was there.
 */
bool
alvyn_pending_remove(Pending *pending, TransactionId xid)
{
	VirtualTransactionId *holder;
	LOCKTAG		tag;
	bool		found = false;
	int			i;

	/* A transaction holds the lock of its own id and is known by it. */
	SET_LOCKTAG_TRANSACTION(tag, SubTransGetTopmostTransaction(xid));
	holder = GetLockConflicts(&tag, ShareLock, NULL);
	for (i = pending->count - 1; i >= 0; i--)
	{
		if (VirtualTransactionIdEquals(pending->items[i], *holder))
		{
			pending->items[i] = pending->items[--pending->count];
			found = true;
		}
	}
	pfree(holder);
	return found;
}

/*
 * Take those that have ended from the list.
 */
void
alvyn_pending_remove_ended(Pending *pending)
{
	int			i;

	for (i = pending->count - 1; i >= 0; i--)
	{
		if (VirtualXactLock(pending->items[i], false))
			pending->items[i] = pending->items[--pending->count];
	}
}

/*
 * Wait until all have ended.
 */
void
alvyn_pending_wait(Pending *pending)
{
	int			i;

	for (i = 0; i < pending->count; i++)
		VirtualXactLock(pending->items[i], true);
}
