/*-------------------------------------------------------------------------
 *
 * rulestate.h
 *		Declarative folds: what rules do to a state.
 *
 * IDENTIFICATION
 *		src/rulestate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef RULESTATE_H
#define RULESTATE_H

#include "datatype/timestamp.h"
#include "rules.h"

typedef struct RuleState RuleState;

extern RuleState *alvyn_rulestate_begin(const RuleSet *set, Jsonb *state);
extern bool alvyn_rulestate_apply(RuleState *state, const char *type,
								  int length, Datum data,
								  TimestampTz time);
extern Jsonb *alvyn_rulestate_end(RuleState *state);

#endif							/* RULESTATE_H */
