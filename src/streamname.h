/*-------------------------------------------------------------------------
 *
 * streamname.h
 *		What the number of a stream stands for.
 *
 * IDENTIFICATION
 *		src/streamname.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAMNAME_H
#define STREAMNAME_H

#include "log.h"

typedef struct StreamName
{
	int64		stream_no;		/* hash key, must be first */
	int16		slot;
	text	   *id;				/* NULL when there is no such stream */
} StreamName;

extern void alvyn_stream_name_init(void);
extern const StreamName *alvyn_stream_name(EventLog *log, int64 stream_no);

#endif							/* STREAMNAME_H */
