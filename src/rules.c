/*-------------------------------------------------------------------------
 *
 * rules.c
 *		Declarative folds: the rules of a snapshot, compiled.
 *
 * A rule set is a jsonb object {event type: {state field: {operation:
 * argument}}}.  It is compiled once, when the definition is read, into an
 * array of rules for each type, with every path split into its names and
 * every state field numbered.  What the rules do to a state is in
 * rulestate.c.
 *
 * Everything about rules that can be wrong is found here, and so is a payload
 * that rules could not fold.
 *
 * IDENTIFICATION
 *		src/rules.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "rules.h"
#include "utils/fmgrprotos.h"

/* What an operation takes as its argument. */
typedef enum RuleArgument
{
	ARGUMENT_ANY,				/* a constant */
	ARGUMENT_NUMBER,
	ARGUMENT_PATH,				/* into the payload */
	ARGUMENT_TRUE
} RuleArgument;

static const struct
{
	const char *name;
	RuleOperation operation;
	RuleArgument argument;
}			operations[] =

{
	{"set", RULE_SET, ARGUMENT_ANY},
	{"copy", RULE_COPY, ARGUMENT_PATH},
	{"add", RULE_ADD, ARGUMENT_PATH},
	{"subtract", RULE_SUBTRACT, ARGUMENT_PATH},
	{"increment", RULE_INCREMENT, ARGUMENT_NUMBER},
	{"min", RULE_MIN, ARGUMENT_PATH},
	{"max", RULE_MAX, ARGUMENT_PATH},
	{"append", RULE_APPEND, ARGUMENT_PATH},
	{"remove", RULE_REMOVE, ARGUMENT_TRUE},
	{"time", RULE_TIME, ARGUMENT_TRUE},
};

static void rules_parse_type(RuleSet *set, RuleType *type, JsonbValue *key,
							 JsonbValue *value);
static void rules_parse_rule(RuleSet *set, Rule *rule, const char *type,
							 JsonbValue *key, JsonbValue *value);
static void rules_parse_operation(Rule *rule, const char *where,
								  const char *name, JsonbValue *argument);
static int	rules_keep(JsonbValue *argument, const char *where);
static int	rules_field(RuleSet *set, JsonbValue *name, const char *where);
static bool path_overlaps(const RulePath *a, const RulePath *b);
static RulePath rules_path(const char *dotted, int length, const char *where);
static JsonbContainer *rules_object(JsonbValue *value, const char *where);
pg_noreturn static void rules_refuse(const char *where, const char *problem);

/*
 * Compile a rule set in the current memory context.  Raises 22023 for
 * anything that is not a rule.
 */
RuleSet *
alvyn_rules_parse(Jsonb *rules)
{
	RuleSet    *set = palloc0(sizeof(RuleSet));
	JsonbIterator *it;
	JsonbValue	key;
	JsonbValue	value;
	JsonbIteratorToken token;

	if (!JB_ROOT_IS_OBJECT(rules) || JB_ROOT_COUNT(rules) == 0)
		rules_refuse("the rules", "must be an object with a key for each event type");
	set->types = palloc0(sizeof(RuleType) * JB_ROOT_COUNT(rules));

	it = JsonbIteratorInit(&rules->root);
	while ((token = JsonbIteratorNext(&it, &key, true)) != WJB_DONE)
	{
		if (token != WJB_KEY)
			continue;
		JsonbIteratorNext(&it, &value, true);
		rules_parse_type(set, &set->types[set->ntypes++], &key, &value);
	}
	return set;
}

/*
 * Raise 22023 if a payload lacks what the rules for its type need.
 */
void
alvyn_rules_check(const RuleSet *set, const char *type, int length,
				  Datum data)
{
	const RuleType *found = alvyn_rules_find(set, type, length);
	Jsonb	   *payload;
	JsonbValue	value;
	int			i;

	if (found == NULL)
		return;
	payload = DatumGetJsonbP(data);
	for (i = 0; i < found->count; i++)
	{
		const Rule *rule = &found->rules[i];

		if (rule->path.count == 0)
			continue;
		if (rule->operation == RULE_COPY || rule->operation == RULE_APPEND)
			alvyn_rule_value(rule, payload, &value);
		else
			alvyn_rule_number(rule, payload);
	}
	if ((Pointer) payload != DatumGetPointer(data))
		pfree(payload);
}

/*
 * The rules for an event type, or NULL.
 */
const RuleType *
alvyn_rules_find(const RuleSet *set, const char *type, int length)
{
	int			i;

	for (i = 0; i < set->ntypes; i++)
	{
		if (set->types[i].length == length &&
			memcmp(set->types[i].type, type, length) == 0)
			return &set->types[i];
	}
	return NULL;
}

/*
 * The value at a rule's path into the payload.
 */
JsonbValue *
alvyn_rule_value(const Rule *rule, Jsonb *data, JsonbValue *value)
{
	JsonbContainer *container = &data->root;
	int			i;

	for (i = 0; i < rule->path.count; i++)
	{
		if (!JsonContainerIsObject(container) ||
			getKeyJsonValueFromContainer(container, rule->path.names[i],
										 rule->path.lengths[i], value) == NULL)
			break;
		if (i == rule->path.count - 1)
			return value;
		if (value->type != jbvBinary)
			break;
		container = value->val.binary.data;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("payload has nothing at path \"%s\"", rule->path.text)));
}

/*
 * The number at a rule's path into the payload.
 */
Numeric
alvyn_rule_number(const Rule *rule, Jsonb *data)
{
	JsonbValue	value;

	alvyn_rule_value(rule, data, &value);
	if (value.type != jbvNumeric)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload has no number at path \"%s\"",
						rule->path.text)));
	return value.val.numeric;
}

/*
 * Is a number written as an integer of 32 bits, which sums need no numeric
 * for?
 */
bool
alvyn_rule_is_small(Numeric number, int64 *value)
{
	bool		too_large = false;

	if (DatumGetInt32(DirectFunctionCall1(numeric_scale,
										  NumericGetDatum(number))) != 0)
		return false;
	*value = numeric_int4_opt_error(number, &too_large);
	return !too_large;
}

/*
 * Compile the rules of one event type.
 */
static void
rules_parse_type(RuleSet *set, RuleType *type, JsonbValue *key,
				 JsonbValue *value)
{
	JsonbContainer *object;
	JsonbIterator *it;
	JsonbValue	field;
	JsonbValue	operation;
	JsonbIteratorToken token;

	type->type = pnstrdup(key->val.string.val, key->val.string.len);
	type->length = key->val.string.len;
	object = rules_object(value, psprintf("event type \"%s\"", type->type));
	type->rules = palloc0(sizeof(Rule) * JsonContainerSize(object));

	it = JsonbIteratorInit(object);
	while ((token = JsonbIteratorNext(&it, &field, true)) != WJB_DONE)
	{
		if (token != WJB_KEY)
			continue;
		JsonbIteratorNext(&it, &operation, true);
		rules_parse_rule(set, &type->rules[type->count++], type->type,
						 &field, &operation);
	}
}

/*
 * Compile the rule of one event type for one state field.
 */
static void
rules_parse_rule(RuleSet *set, Rule *rule, const char *type, JsonbValue *key,
				 JsonbValue *value)
{
	char	   *where = psprintf("event type \"%s\", field \"%.*s\"", type,
								 key->val.string.len, key->val.string.val);
	JsonbContainer *object = rules_object(value, where);
	JsonbIterator *it = JsonbIteratorInit(object);
	JsonbValue	name;
	JsonbValue	argument;
	JsonbIteratorToken token;
	int			count = 0;

	rule->field = rules_field(set, key, where);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
	{
		char	   *word;

		if (token != WJB_KEY)
			continue;
		JsonbIteratorNext(&it, &argument, true);
		word = pnstrdup(name.val.string.val, name.val.string.len);
		if (strcmp(word, "keep") != 0)
		{
			rules_parse_operation(rule, where, word, &argument);
			count++;
			continue;
		}
		rule->keep = rules_keep(&argument, where);
	}
	if (count != 1)
		rules_refuse(where, "needs exactly one operation");
	if (rule->keep > 0 && rule->operation != RULE_APPEND)
		rules_refuse(where, "can have \"keep\" with \"append\" only");
}

/*
 * The number of elements that "append" keeps.
 */
static int
rules_keep(JsonbValue *argument, const char *where)
{
	Datum		least = NumericGetDatum(int64_to_numeric(1));
	Datum		most = NumericGetDatum(int64_to_numeric(PG_INT32_MAX));
	Datum		number;

	if (argument->type == jbvNumeric)
	{
		number = NumericGetDatum(argument->val.numeric);
		if (DatumGetBool(DirectFunctionCall2(numeric_ge, number, least)) &&
			DatumGetBool(DirectFunctionCall2(numeric_le, number, most)) &&
			DatumGetBool(DirectFunctionCall2(numeric_eq, number,
											 DirectFunctionCall2(numeric_trunc, number,
																 Int32GetDatum(0)))))
			return DatumGetInt32(DirectFunctionCall1(numeric_int4, number));
	}
	rules_refuse(where, psprintf("needs a whole number from 1 to %d in \"keep\"",
								 PG_INT32_MAX));
}

/*
 * Compile an operation and its argument.
 */
static void
rules_parse_operation(Rule *rule, const char *where, const char *name,
					  JsonbValue *argument)
{
	int			i;

	for (i = 0; i < lengthof(operations); i++)
	{
		if (strcmp(operations[i].name, name) == 0)
			break;
	}
	if (i == lengthof(operations))
		rules_refuse(where, psprintf("has an unknown operation \"%s\"", name));

	rule->operation = operations[i].operation;
	switch (operations[i].argument)
	{
		case ARGUMENT_ANY:
			rule->constant = JsonbValueToJsonb(argument);
			break;
		case ARGUMENT_NUMBER:
			if (argument->type != jbvNumeric)
				rules_refuse(where, psprintf("needs a number in \"%s\"", name));
			rule->number = DatumGetNumericCopy(NumericGetDatum(argument->val.numeric));
			rule->is_small = alvyn_rule_is_small(rule->number, &rule->small);
			break;
		case ARGUMENT_PATH:
			if (argument->type != jbvString || argument->val.string.len == 0)
				rules_refuse(where, psprintf("needs a payload path in \"%s\"", name));
			rule->path = rules_path(argument->val.string.val,
									argument->val.string.len, where);
			break;
		case ARGUMENT_TRUE:
			if (argument->type != jbvBool || !argument->val.boolean)
				rules_refuse(where, psprintf("needs true in \"%s\"", name));
			break;
	}
}

/*
 * The number of a state field, a new one if no rule has named it yet.  Fields
 * that lie within each other are refused: they are kept apart while events
 * are folded, and would not see each other's changes.
 */
static int
rules_field(RuleSet *set, JsonbValue *name, const char *where)
{
	RulePath   *path;
	int			i;

	for (i = 0; i < set->nfields; i++)
	{
		if (strlen(set->fields[i].text) == name->val.string.len &&
			memcmp(set->fields[i].text, name->val.string.val,
				   name->val.string.len) == 0)
			return i;
	}
	if (set->fields == NULL)
		set->fields = palloc(sizeof(RulePath));
	else
		set->fields = repalloc(set->fields,
							   sizeof(RulePath) * (set->nfields + 1));
	path = &set->fields[set->nfields];
	*path = rules_path(name->val.string.val, name->val.string.len, where);
	for (i = 0; i < set->nfields; i++)
	{
		if (path_overlaps(&set->fields[i], path))
			rules_refuse(where, psprintf("overlaps with field \"%s\"",
										 set->fields[i].text));
	}
	return set->nfields++;
}

/*
 * Does one of two paths lead to what the other lies in?
 */
static bool
path_overlaps(const RulePath *a, const RulePath *b)
{
	int			i;

	for (i = 0; i < Min(a->count, b->count); i++)
	{
		if (strcmp(a->names[i], b->names[i]) != 0)
			return false;
	}
	return true;
}

/*
 * Split a dotted path.
 */
static RulePath
rules_path(const char *dotted, int length, const char *where)
{
	RulePath	path = {pnstrdup(dotted, length), 0, NULL, NULL};
	char	   *at = pnstrdup(dotted, length);

	path.names = palloc(sizeof(char *) * (length + 1));
	path.lengths = palloc(sizeof(int) * (length + 1));
	for (;;)
	{
		char	   *dot = strchr(at, '.');

		if (dot)
			*dot = '\0';
		if (*at == '\0')
			rules_refuse(where, psprintf("has an empty name in path \"%s\"",
										 path.text));
		path.names[path.count] = at;
		path.lengths[path.count++] = strlen(at);
		if (dot == NULL)
			return path;
		at = dot + 1;
	}
}

/*
 * The object in a value.
 */
static JsonbContainer *
rules_object(JsonbValue *value, const char *where)
{
	if (value->type != jbvBinary ||
		!JsonContainerIsObject(value->val.binary.data))
		rules_refuse(where, "must be an object");
	return value->val.binary.data;
}

/*
 * Refuse a rule set.
 */
static void
rules_refuse(const char *where, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"rules\" is not a set of rules"),
			 errdetail("In it, %s %s.", where, problem),
			 errhint("Rules have the form {event type: {state field: {operation: argument}}}.")));
}
