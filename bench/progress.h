/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  Shows how far a long step has come.
 *
 * IDENTIFICATION
 *	  bench/progress.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PROGRESS_H
#define PROGRESS_H

extern void progress_begin(const char *label, const char *unit, int64 total);
extern void progress_at(int64 done);
extern void progress_tick(void);
extern void progress_end(void);

#endif							/* PROGRESS_H */
