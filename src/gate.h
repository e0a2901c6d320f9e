/*-------------------------------------------------------------------------
 *
 * gate.h
 *		A limit to the transactions that append at the same time.
 *
 * IDENTIFICATION
 *		src/gate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATE_H
#define GATE_H

extern void alvyn_gate_init(void);
extern Size alvyn_gate_size(void);
extern void alvyn_gate_attach(void *room, bool fresh);
extern void alvyn_gate_enter(void);
extern void alvyn_gate_transaction_end(uint64 appended);

#endif							/* GATE_H */
