/*-------------------------------------------------------------------------
 *
 * report.h
 *	  Says what a run found.
 *
 * IDENTIFICATION
 *	  bench/report.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPORT_H
#define REPORT_H

extern void report_name(const char *profile);
extern bool report_prepare(void);
extern bool report_write(void);
extern bool report_write_value(const char *sql, int nparams,
							   const char *const *params);

#endif							/* REPORT_H */
