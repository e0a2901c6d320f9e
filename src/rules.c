/*-------------------------------------------------------------------------
 *
 * rules.c
 *		Declarative folds: what each event type does to the state.
 *
 * A rule set is a jsonb object {event type: {state field: {operation:
 * argument}}}.  It is compiled once, when the definition is read, into an
 * array of rules for each type, with every path split into its names and
 * every state field numbered.
 *
 * While events are folded the fields are kept apart: a number as a numeric,
 * an array as a list of its elements, anything else as jsonb.  The state is
 * taken apart before the first event and put together after the last one.
 * The simple version, a new jsonb state for every event, spends nearly all
 * its time in copying fields that the event does not touch.
 *
 * IDENTIFICATION
 *		src/rules.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "rules.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/memutils.h"
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

/* A dotted path, split. */
typedef struct RulePath
{
	char	   *text;			/* as written */
	int			count;
	char	  **names;
	int		   *lengths;
} RulePath;

typedef struct Rule
{
	RuleOperation operation;
	int			field;			/* number of the state field */
	RulePath	path;
	Jsonb	   *constant;
	Numeric		number;
	int			keep;			/* elements that "append" keeps, 0 for all */
} Rule;

typedef struct RuleType
{
	char	   *type;
	int			length;
	int			count;
	Rule	   *rules;
} RuleType;

struct RuleSet
{
	int			ntypes;
	RuleType   *types;
	int			nfields;
	RulePath   *fields;
};

typedef enum FieldKind
{
	FIELD_ABSENT,
	FIELD_NULL,
	FIELD_NUMBER,
	FIELD_ARRAY,
	FIELD_OTHER
} FieldKind;

typedef struct RuleField
{
	FieldKind	kind;
	bool		changed;
	Numeric		number;
	List	   *elements;		/* of Jsonb */
	Jsonb	   *other;
	void	   *owned;			/* what the value lies in, unless a constant */
} RuleField;

struct RuleState
{
	const RuleSet *set;
	Jsonb	   *state;			/* as it was before the first event */
	RuleField  *fields;
	MemoryContext context;		/* holds the fields */
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
static void rules_refuse(const char *where, const char *problem) pg_attribute_noreturn();
static const RuleType *rules_find(const RuleSet *set, const char *type,
								  int length);
static void rules_load_field(RuleState *state, RuleField *field,
							 const RulePath *path);
static void rule_apply(RuleState *state, const Rule *rule, Jsonb *data,
					   TimestampTz time);
static JsonbValue *rule_value(const Rule *rule, Jsonb *data, JsonbValue *value);
static Numeric rule_number(const Rule *rule, Jsonb *data);
static void field_number(RuleState *state, RuleField *field,
						 const Rule *rule, Numeric number);
static void field_append(RuleField *field, const Rule *rule, Jsonb *element);
static void field_copy(RuleField *field, JsonbValue *value);
static void field_other(RuleField *field, Jsonb *value, void *owned);
static void field_clear(RuleField *field);
static List *array_elements(Jsonb *array);
static Jsonb *field_value(RuleField *field);
static Datum state_with_parents(Datum state, const RulePath *path);
static Jsonb *path_extract(Datum state, const RulePath *path, int count);
static ArrayType *path_array(const RulePath *path, int count);

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
 * Is there a rule for an event type?
 */
bool
alvyn_rules_handle(const RuleSet *set, const char *type, int length)
{
	return rules_find(set, type, length) != NULL;
}

/*
 * Raise 22023 if a payload lacks what the rules for its type need.
 */
void
alvyn_rules_check(const RuleSet *set, const char *type, int length,
				  Datum data)
{
	const RuleType *found = rules_find(set, type, length);
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
			rule_value(rule, payload, &value);
		else
			rule_number(rule, payload);
	}
	if ((Pointer) payload != DatumGetPointer(data))
		pfree(payload);
}

/*
 * Take a state apart, in the current memory context.
 */
RuleState *
alvyn_rules_begin(const RuleSet *set, Jsonb *state)
{
	RuleState  *result = palloc0(sizeof(RuleState));
	int			i;

	result->set = set;
	result->state = state;
	result->context = CurrentMemoryContext;
	result->fields = palloc0(sizeof(RuleField) * set->nfields);
	for (i = 0; i < set->nfields; i++)
		rules_load_field(result, &result->fields[i], &set->fields[i]);
	return result;
}

/*
 * Fold one event.  Raises 22023 when the payload lacks what a rule needs.
 * What is allocated in the current context can go after the call.
 */
void
alvyn_rules_apply(RuleState *state, const char *type, int length, Jsonb *data,
				  TimestampTz time)
{
	const RuleType *found = rules_find(state->set, type, length);
	int			i;

	if (found == NULL)
		return;
	for (i = 0; i < found->count; i++)
		rule_apply(state, &found->rules[i], data, time);
}

/*
 * Put the state together again, in the current memory context.
 */
Jsonb *
alvyn_rules_end(RuleState *state)
{
	Datum		result = PointerGetDatum(DatumGetJsonbPCopy(JsonbPGetDatum(state->state)));
	int			i;

	for (i = 0; i < state->set->nfields; i++)
	{
		RuleField  *field = &state->fields[i];
		const RulePath *path = &state->set->fields[i];
		Datum		names;

		if (!field->changed)
			continue;
		names = PointerGetDatum(path_array(path, path->count));
		if (field->kind == FIELD_ABSENT)
			result = DirectFunctionCall2(jsonb_delete_path, result, names);
		else
			result = DirectFunctionCall4(jsonb_set,
										 state_with_parents(result, path),
										 names,
										 JsonbPGetDatum(field_value(field)),
										 BoolGetDatum(true));
	}
	return DatumGetJsonbP(result);
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

/*
 * The rules for an event type, or NULL.
 */
static const RuleType *
rules_find(const RuleSet *set, const char *type, int length)
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
 * Take one field out of the state.
 */
static void
rules_load_field(RuleState *state, RuleField *field, const RulePath *path)
{
	Jsonb	   *found = path_extract(JsonbPGetDatum(state->state), path,
									 path->count);

	if (found)
		field_other(field, found, found);
}

/*
 * Apply one rule to its field.
 */
static void
rule_apply(RuleState *state, const Rule *rule, Jsonb *data, TimestampTz time)
{
	RuleField  *field = &state->fields[rule->field];
	MemoryContext old;
	JsonbValue	value;
	char		buffer[MAXDATELEN + 1];
	int			utc = 0;

	field->changed = true;
	switch (rule->operation)
	{
		case RULE_SET:
			old = MemoryContextSwitchTo(state->context);
			field_clear(field);
			field_other(field, rule->constant, NULL);
			MemoryContextSwitchTo(old);
			break;
		case RULE_COPY:
		case RULE_APPEND:
			rule_value(rule, data, &value);
			old = MemoryContextSwitchTo(state->context);
			if (rule->operation == RULE_COPY)
				field_copy(field, &value);
			else
				field_append(field, rule, JsonbValueToJsonb(&value));
			MemoryContextSwitchTo(old);
			break;
		case RULE_INCREMENT:
			field_number(state, field, rule, rule->number);
			break;
		case RULE_ADD:
		case RULE_SUBTRACT:
		case RULE_MIN:
		case RULE_MAX:
			field_number(state, field, rule, rule_number(rule, data));
			break;
		case RULE_REMOVE:
			field_clear(field);
			break;
		case RULE_TIME:
			/* The same text whatever the session's time zone is. */
			JsonEncodeDateTime(buffer, TimestampTzGetDatum(time),
							   TIMESTAMPTZOID, &utc);
			value.type = jbvString;
			value.val.string.val = buffer;
			value.val.string.len = strlen(buffer);
			old = MemoryContextSwitchTo(state->context);
			field_copy(field, &value);
			MemoryContextSwitchTo(old);
			break;
	}
}

/*
 * The value at a rule's path into the payload.
 */
static JsonbValue *
rule_value(const Rule *rule, Jsonb *data, JsonbValue *value)
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
static Numeric
rule_number(const Rule *rule, Jsonb *data)
{
	JsonbValue	value;

	rule_value(rule, data, &value);
	if (value.type != jbvNumeric)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload has no number at path \"%s\"",
						rule->path.text)));
	return value.val.numeric;
}

/*
 * Bring a number into a field.  A field that is absent counts as 0 for sums
 * and takes the first number as its lowest and highest.
 */
static void
field_number(RuleState *state, RuleField *field, const Rule *rule,
			 Numeric number)
{
	Datum		result = NumericGetDatum(number);
	MemoryContext old;
	Numeric		copy;

	if (field->kind == FIELD_NUMBER)
	{
		PGFunction	combine = rule->operation == RULE_MIN ? numeric_smaller :
		rule->operation == RULE_MAX ? numeric_larger :
		rule->operation == RULE_SUBTRACT ? numeric_sub : numeric_add;

		result = DirectFunctionCall2(combine, NumericGetDatum(field->number),
									 result);
	}
	else if (field->kind != FIELD_ABSENT && field->kind != FIELD_NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("state field \"%s\" is not a number",
						state->set->fields[rule->field].text)));
	else if (rule->operation == RULE_SUBTRACT)
		result = DirectFunctionCall1(numeric_uminus, result);

	/* The result may be the number that the field holds. */
	old = MemoryContextSwitchTo(state->context);
	copy = DatumGetNumericCopy(result);
	MemoryContextSwitchTo(old);
	field_clear(field);
	field->kind = FIELD_NUMBER;
	field->number = copy;
	field->owned = copy;
}

/*
 * Append an element to a field, which becomes an array if it is none.
 */
static void
field_append(RuleField *field, const Rule *rule, Jsonb *element)
{
	int			excess;

	if (field->kind != FIELD_ARRAY)
	{
		field_clear(field);
		field->kind = FIELD_ARRAY;
	}
	field->elements = lappend(field->elements, element);
	excess = list_length(field->elements) - rule->keep;
	if (rule->keep > 0 && excess > 0)
	{
		List	   *all = field->elements;

		field->elements = list_copy_tail(all, excess);
		while (excess > 0)
			pfree(list_nth(all, --excess));
		list_free(all);
	}
}

/*
 * Put a copy of a value into a field.
 */
static void
field_copy(RuleField *field, JsonbValue *value)
{
	Jsonb	   *copy = JsonbValueToJsonb(value);

	field_clear(field);
	field_other(field, copy, copy);
}

/*
 * Put a value into an empty field.  "owned" is what has to be freed with it.
 */
static void
field_other(RuleField *field, Jsonb *value, void *owned)
{
	JsonbValue	scalar;

	field->kind = FIELD_OTHER;
	field->other = value;
	field->owned = owned;
	if (JB_ROOT_IS_SCALAR(value))
	{
		JsonbExtractScalar(&value->root, &scalar);
		if (scalar.type == jbvNull)
			field->kind = FIELD_NULL;
		else if (scalar.type == jbvNumeric)
		{
			field->kind = FIELD_NUMBER;
			field->number = scalar.val.numeric;
		}
	}
	else if (JB_ROOT_IS_ARRAY(value))
	{
		field->kind = FIELD_ARRAY;
		field->elements = array_elements(value);
	}
}

/*
 * Empty a field and free what it held.
 */
static void
field_clear(RuleField *field)
{
	if (field->kind == FIELD_ARRAY)
		list_free_deep(field->elements);
	if (field->owned)
		pfree(field->owned);
	field->kind = FIELD_ABSENT;
	field->elements = NIL;
	field->owned = NULL;
}

/*
 * The elements of an array, each a copy.
 */
static List *
array_elements(Jsonb *array)
{
	JsonbIterator *it = JsonbIteratorInit(&array->root);
	JsonbValue	element;
	JsonbIteratorToken token;
	List	   *result = NIL;

	while ((token = JsonbIteratorNext(&it, &element, true)) != WJB_DONE)
	{
		if (token == WJB_ELEM)
			result = lappend(result, JsonbValueToJsonb(&element));
	}
	return result;
}

/*
 * The value of a field as jsonb.
 */
static Jsonb *
field_value(RuleField *field)
{
	JsonbParseState *parse = NULL;
	JsonbValue	value;
	ListCell   *lc;

	if (field->kind == FIELD_OTHER || field->kind == FIELD_NULL)
		return field->other;
	if (field->kind == FIELD_NUMBER)
	{
		value.type = jbvNumeric;
		value.val.numeric = field->number;
		return JsonbValueToJsonb(&value);
	}

	pushJsonbValue(&parse, WJB_BEGIN_ARRAY, NULL);
	foreach(lc, field->elements)
	{
		Jsonb	   *element = lfirst(lc);

		if (!JB_ROOT_IS_SCALAR(element) ||
			!JsonbExtractScalar(&element->root, &value))
		{
			value.type = jbvBinary;
			value.val.binary.data = &element->root;
			value.val.binary.len = VARSIZE(element) - VARHDRSZ;
		}
		pushJsonbValue(&parse, WJB_ELEM, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&parse, WJB_END_ARRAY, NULL));
}

/*
 * A state in which a field can be set: what the field lies in is there and is
 * an object.
 */
static Datum
state_with_parents(Datum state, const RulePath *path)
{
	int			count;

	for (count = 1; count < path->count; count++)
	{
		Jsonb	   *parent = path_extract(state, path, count);
		JsonbValue	scalar;

		if (parent && JB_ROOT_IS_OBJECT(parent))
			continue;
		if (parent && !(JB_ROOT_IS_SCALAR(parent) &&
						JsonbExtractScalar(&parent->root, &scalar) &&
						scalar.type == jbvNull))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("state field \"%s\" does not lie in an object",
							path->text)));
		state = DirectFunctionCall4(jsonb_set, state,
									PointerGetDatum(path_array(path, count)),
									DirectFunctionCall1(jsonb_in,
														CStringGetDatum("{}")),
									BoolGetDatum(true));
	}
	return state;
}

/*
 * What the first "count" names of a path lead to, or NULL.
 */
static Jsonb *
path_extract(Datum state, const RulePath *path, int count)
{
	LOCAL_FCINFO(extract, 2);
	Datum		value;

	InitFunctionCallInfoData(*extract, NULL, 2, InvalidOid, NULL, NULL);
	extract->args[0].value = state;
	extract->args[0].isnull = false;
	extract->args[1].value = PointerGetDatum(path_array(path, count));
	extract->args[1].isnull = false;
	value = jsonb_extract_path(extract);
	return extract->isnull ? NULL : DatumGetJsonbP(value);
}

/*
 * The first "count" names of a path as the text[] that the server's jsonb
 * functions take.
 */
static ArrayType *
path_array(const RulePath *path, int count)
{
	Datum	   *names = palloc(sizeof(Datum) * count);
	int			i;

	for (i = 0; i < count; i++)
		names[i] = CStringGetTextDatum(path->names[i]);
	return construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT);
}
