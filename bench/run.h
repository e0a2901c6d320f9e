/*-------------------------------------------------------------------------
 *
 * run.h
 *	  Whether the run goes on, and why it does not.
 *
 * IDENTIFICATION
 *	  bench/run.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef RUN_H
#define RUN_H

/* How often a waiting loop looks at run_goes_on(). */
#define RUN_POLL_MS 100

extern void run_begin(int timeout_seconds);
extern bool run_goes_on(void);
extern bool run_fail(const char *fmt,...) pg_attribute_printf(1, 2);
extern void run_forgive(void);
extern const char *run_failure(void);
extern double run_clock(void);
extern void run_sleep_ms(int ms);

extern bool run_make_directory(void);
extern const char *run_directory(void);
extern const char *run_home(void);
extern char *run_format(const char *fmt,...) pg_attribute_printf(1, 2);
extern void run_remove_directory(void);

#endif							/* RUN_H */
