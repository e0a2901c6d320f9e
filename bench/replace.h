/*-------------------------------------------------------------------------
 *
 * replace.h
 *	  Replaces a pgbench process amid the traffic.
 *
 * IDENTIFICATION
 *	  bench/replace.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPLACE_H
#define REPLACE_H

#include "replica.h"

extern bool replace_wanted(const char *phase);
extern Replica *replace_replica(Replica *victim);

#endif							/* REPLACE_H */
