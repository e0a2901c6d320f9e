/*-------------------------------------------------------------------------
 *
 * tenant.h
 *		The tenant of a session, and what it may still append.
 *
 * IDENTIFICATION
 *		src/tenant.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TENANT_H
#define TENANT_H

#include "request.h"

extern void alvyn_tenant_init(void);
extern const char *alvyn_tenant_name(void);
extern bool alvyn_tenant_mark(Datum *metadata);
extern void alvyn_tenant_charge(EventLog *log, const AppendRequest *req);

#endif							/* TENANT_H */
