/*-------------------------------------------------------------------------
 *
 * compare.h
 *	  The command "compare": two reports side by side.
 *
 * IDENTIFICATION
 *	  bench/compare.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "options.h"

extern const OptionDefault compare_options[];

extern bool compare_check(void);
extern bool compare_run(void);
extern bool compare_finish(void);

#endif							/* COMPARE_H */
