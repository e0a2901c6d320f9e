/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  Measures the server while the traffic runs.
 *
 * IDENTIFICATION
 *	  bench/sample.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SAMPLE_H
#define SAMPLE_H

extern bool sample_prepare(void);
extern bool sample_tick(void);
extern bool sample_judge(void);

#endif							/* SAMPLE_H */
