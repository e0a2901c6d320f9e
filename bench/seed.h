/*-------------------------------------------------------------------------
 *
 * seed.h
 *	  Gives the accounts their history.
 *
 * IDENTIFICATION
 *	  bench/seed.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SEED_H
#define SEED_H

extern bool seed_accounts(void);

#endif							/* SEED_H */
