/*-------------------------------------------------------------------------
 *
 * outbox.h
 *		The partitions of outboxes.
 *
 * IDENTIFICATION
 *		src/outbox.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef OUTBOX_H
#define OUTBOX_H

extern void alvyn_outbox_init(void);

#endif							/* OUTBOX_H */
