/*-------------------------------------------------------------------------
 *
 * snapshot.h
 *	  The command "snapshot": what reading by snapshot is worth.
 *
 * IDENTIFICATION
 *	  bench/snapshot.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNAPSHOT_BENCH_H
#define SNAPSHOT_BENCH_H

#include "options.h"

extern const OptionDefault snapshot_options[];

extern bool snapshot_check(void);
extern bool snapshot_run(void);

#endif							/* SNAPSHOT_BENCH_H */
