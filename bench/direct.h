/*-------------------------------------------------------------------------
 *
 * direct.h
 *	  The command "direct": streams without a model.
 *
 * IDENTIFICATION
 *	  bench/direct.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef DIRECT_H
#define DIRECT_H

#include "options.h"

extern const OptionDefault direct_options[];

extern bool direct_check(void);
extern bool direct_run(void);

#endif							/* DIRECT_H */
