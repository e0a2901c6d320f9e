/*-------------------------------------------------------------------------
 *
 * projection.h
 *		Calling the handler of a projection.
 *
 * IDENTIFICATION
 *		src/projection.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PROJECTION_H
#define PROJECTION_H

extern int64 alvyn_projection_position(void);
extern void alvyn_projection_forget_position(void);

#endif							/* PROJECTION_H */
