/*-------------------------------------------------------------------------
 *
 * wake.h
 *		Sleeping until somebody has appended.
 *
 * IDENTIFICATION
 *		src/wake.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef WAKE_H
#define WAKE_H

/* How many positions this transaction has taken, or has tried to. */
extern uint64 alvyn_wake_taken;

extern Size alvyn_wake_size(void);
extern void alvyn_wake_attach(void *room, bool fresh);
extern void alvyn_wake_transaction_end(void);

/*
 * To wait for events: begin; look, and if there is nothing, sleep; and so on;
 * end.  Whatever is appended after a look has begun ends the sleep.  Whoever
 * may leave by an error calls alvyn_wake_end() in PG_FINALLY.  Transactions
 * may begin and end in between.
 */
extern void alvyn_wake_begin(void);
extern void alvyn_wake_sleep(long at_most_ms);
extern void alvyn_wake_end(void);

#endif							/* WAKE_H */
