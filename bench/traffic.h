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

extern bool traffic_setup(const char *plan);
extern bool traffic_run(void);
extern bool traffic_run_stages(void);
extern bool traffic_load_logs(void);
extern bool traffic_analyse(void);
extern bool traffic_verify(const char *script);

#endif							/* TRAFFIC_H */
