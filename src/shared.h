/*-------------------------------------------------------------------------
 *
 * shared.h
 *		Shared memory, when the library was preloaded.
 *
 * IDENTIFICATION
 *		src/shared.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARED_H
#define SHARED_H

extern void alvyn_shared_init(void);
extern bool alvyn_shared_active(void);

#endif							/* SHARED_H */
