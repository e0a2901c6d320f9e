/*-------------------------------------------------------------------------
 *
 * steps.h
 *	  The steps of a run, one after another, with their durations.
 *
 * IDENTIFICATION
 *	  bench/steps.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef STEPS_H
#define STEPS_H

typedef struct Step
{
	const char *name;			/* as in the report's phaseDurations */
	bool		(*run) (void);
	bool		always;			/* also after a failure, if the server lives */
} Step;

extern bool steps_run(const Step *steps);
extern bool steps_record(void);

#endif							/* STEPS_H */
