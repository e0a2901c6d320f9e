/*-------------------------------------------------------------------------
 *
 * session.h
 *	  Connections to the server under test.
 *
 * IDENTIFICATION
 *	  bench/session.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SESSION_H
#define SESSION_H

#include "libpq-fe.h"

extern PGconn *session_open(const char *purpose);
extern bool session_run(PGconn *session, const char *sql);
extern bool session_run_file(PGconn *session, const char *path);
extern bool session_run_script(PGconn *session, const char *name);
extern PGresult *session_query(PGconn *session, const char *sql, int nparams,
							   const char *const *params);
extern char *session_value(PGconn *session, const char *sql, int nparams,
						   const char *const *params);
extern bool session_copy(PGconn *session, const char *sql, const char *path);
extern bool session_result_ok(PGconn *session, PGresult *result);

#endif							/* SESSION_H */
