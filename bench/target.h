/*-------------------------------------------------------------------------
 *
 * target.h
 *	  The server under test and the run's database on it.
 *
 * IDENTIFICATION
 *	  bench/target.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TARGET_H
#define TARGET_H

#include "libpq-fe.h"

extern bool target_open(const char *dsn);
extern PGconn *target_session(void);
extern bool target_revive(void);
extern void target_close(void);

#endif							/* TARGET_H */
