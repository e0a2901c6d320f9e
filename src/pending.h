/*-------------------------------------------------------------------------
 *
 * pending.h
 *		The transactions that have taken positions and have not ended.
 *
 * IDENTIFICATION
 *		src/pending.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PENDING_H
#define PENDING_H

#include "storage/lock.h"

typedef struct Pending
{
	int			count;
	VirtualTransactionId *items;
} Pending;

extern void alvyn_pending_read(Pending *pending, Oid relid);
extern void alvyn_pending_free(Pending *pending);
extern bool alvyn_pending_remove(Pending *pending, TransactionId xid);
extern void alvyn_pending_remove_ended(Pending *pending);
extern void alvyn_pending_wait(Pending *pending);

#endif							/* PENDING_H */
