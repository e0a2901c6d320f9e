/*-------------------------------------------------------------------------
 *
 * account.h
 *	  The commands that work on accounts: daily, custom, capacity, soak.
 *
 * IDENTIFICATION
 *	  bench/account.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include "options.h"

extern const OptionDefault daily_options[];
extern const OptionDefault custom_options[];
extern const OptionDefault capacity_options[];
extern const OptionDefault soak_options[];

extern bool daily_check(void);
extern bool custom_check(void);
extern bool capacity_check(void);
extern bool soak_check(void);

extern bool account_run(void);
extern bool capacity_run(void);
extern bool soak_run(void);

#endif							/* ACCOUNT_H */
