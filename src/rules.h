/*-------------------------------------------------------------------------
 *
 * rules.h
 *		Declarative folds: what each event type does to the state.
 *
 * IDENTIFICATION
 *		src/rules.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef RULES_H
#define RULES_H

#include "datatype/timestamp.h"
#include "utils/jsonb.h"

typedef struct RuleSet RuleSet;
typedef struct RuleState RuleState;

extern RuleSet *alvyn_rules_parse(Jsonb *rules);
extern bool alvyn_rules_handle(const RuleSet *set, const char *type,
							   int length);
extern void alvyn_rules_check(const RuleSet *set, const char *type,
							  int length, Datum data);
extern RuleState *alvyn_rules_begin(const RuleSet *set, Jsonb *state);
extern void alvyn_rules_apply(RuleState *state, const char *type, int length,
							  Jsonb *data, TimestampTz time);
extern Jsonb *alvyn_rules_end(RuleState *state);

#endif							/* RULES_H */
