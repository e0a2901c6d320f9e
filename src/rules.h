/*-------------------------------------------------------------------------
 *
 * rules.h
 *		Declarative folds: the rules of a snapshot, compiled.
 *
 * IDENTIFICATION
 *		src/rules.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef RULES_H
#define RULES_H

#include "utils/jsonb.h"
#include "utils/numeric.h"

typedef enum RuleOperation
{
	RULE_SET,
	RULE_COPY,
	RULE_ADD,
	RULE_SUBTRACT,
	RULE_INCREMENT,
	RULE_MIN,
	RULE_MAX,
	RULE_APPEND,
	RULE_REMOVE,
	RULE_TIME,
} RuleOperation;

/* A dotted path, split. */
typedef struct RulePath
{
	char	   *text;			/* as written */
	int			count;
	char	  **names;
	int		   *lengths;
} RulePath;

/* What one event type does to one state field. */
typedef struct Rule
{
	RuleOperation operation;
	int			field;			/* number of the state field */
	RulePath	path;
	Jsonb	   *constant;
	Numeric		number;
	bool		is_small;		/* is the number a small integer? */
	int64		small;			/* it, if so */
	int			keep;			/* elements that "append" keeps, 0 for all */
} Rule;

/* What one event type does. */
typedef struct RuleType
{
	char	   *type;
	int			length;
	int			count;
	Rule	   *rules;
} RuleType;

/* What all types do, and the state fields they do it to. */
typedef struct RuleSet
{
	int			ntypes;
	RuleType   *types;
	int			nfields;
	RulePath   *fields;
} RuleSet;

extern RuleSet *alvyn_rules_parse(Jsonb *rules);
extern void alvyn_rules_check(const RuleSet *set, const char *type,
							  int length, Datum data);
extern const RuleType *alvyn_rules_find(const RuleSet *set, const char *type,
										int length);
extern JsonbValue *alvyn_rule_value(const Rule *rule, Jsonb *data,
									JsonbValue *value);
extern Numeric alvyn_rule_number(const Rule *rule, Jsonb *data);
extern bool alvyn_rule_is_small(Numeric number, int64 *value);

#endif							/* RULES_H */
