/*-------------------------------------------------------------------------
 *
 * alvyn.c
 *		Module magic and start-up.
 *
 * Each module defines its own settings beside the code that reads them; this
 * file only calls them, once per backend, when the library is loaded.
 *
 * IDENTIFICATION
 *		src/alvyn.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "definition.h"
#include "fmgr.h"
#include "gate.h"
#include "idempotency.h"
#include "log.h"
#include "outbox.h"
#include "request.h"
#include "shared.h"
#include "streamname.h"
#include "tenant.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/*
 * Define the settings and register the callbacks of every module.
 */
void
_PG_init(void)
{
	alvyn_log_init();
	alvyn_definition_init();
	alvyn_request_init();
	alvyn_stream_name_init();
	alvyn_idempotency_init();
	alvyn_shared_init();
	alvyn_tenant_init();
	alvyn_gate_init();
	alvyn_outbox_init();
	MarkGUCPrefixReserved("alvyn");
}
