/*-------------------------------------------------------------------------
 *
 * daily.h
 *	  The daily profile: off-peak, peak and cool-down.
 *
 * IDENTIFICATION
 *	  bench/daily.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef DAILY_H
#define DAILY_H

#include "options.h"

extern const OptionDefault daily_defaults[];

extern bool daily_check(void);
extern bool daily_run(void);

#endif							/* DAILY_H */
