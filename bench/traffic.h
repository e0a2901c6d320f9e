/*-------------------------------------------------------------------------
 *
 * traffic.h
 *	  Runs the planned operations through pgbench.
 *
 * IDENTIFICATION
 *	  bench/traffic.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

extern bool traffic_run(void);
extern bool traffic_load_logs(void);

#endif							/* TRAFFIC_H */
