/*-------------------------------------------------------------------------
 *
 * place.h
 *		Where the rows of streams stood when they were last locked.
 *
 * IDENTIFICATION
 *		src/place.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PLACE_H
#define PLACE_H

#include "log.h"
#include "storage/itemptr.h"

extern bool alvyn_place_recall(EventLog *log, const text *id);
extern void alvyn_place_note(const text *id, ItemPointer tid);

#endif							/* PLACE_H */
