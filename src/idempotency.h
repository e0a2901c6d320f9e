/*-------------------------------------------------------------------------
 *
 * idempotency.h
 *		The keys that make a repeated append return the first result.
 *
 * IDENTIFICATION
 *		src/idempotency.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef IDEMPOTENCY_H
#define IDEMPOTENCY_H

#include "request.h"

extern void alvyn_idempotency_init(void);
extern bool alvyn_idempotency_find(EventLog *log, AppendRequest *req);
extern void alvyn_idempotency_store(EventLog *log, AppendRequest *req);

#endif							/* IDEMPOTENCY_H */
