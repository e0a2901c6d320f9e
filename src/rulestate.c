/*-------------------------------------------------------------------------
 *
 * rulestate.c
 *		Declarative folds: what rules do to a state.
 *
 * While events are folded the fields are kept apart: a number as a numeric,
 * an array that grows as a list of its elements, anything else as jsonb.  The
 * state is taken apart before the first event and put together after the last
 * one.  The simple version, a new jsonb state for every event, spends nearly
 * all its time in copying fields that the event does not touch.
 *
 * Most numbers that events add are small integers.  These are summed up in
 * 64 bits beside the numeric and added to it when it is asked for, since an
 * addition of numerics costs many times as much.  Adding an integer changes
 * no scale, so the result is the same to the digit.
 *
 * What a field holds is freed when it gets another value, since a fold may go
 * over any number of events.
 *
 * IDENTIFICATION
 *		src/rulestate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "rulestate.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/memutils.h"

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
	Numeric		number;			/* NULL stands for 0 */
	int64		sum;			/* to be added to the number */
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

static void state_load_field(RuleState *state, RuleField *field,
							 const RulePath *path);
static void rule_apply(RuleState *state, const Rule *rule, Jsonb *data,
					   TimestampTz time);
static void field_number(RuleState *state, RuleField *field,
						 const Rule *rule, Numeric number);
static bool field_sum(RuleField *field, const Rule *rule, Numeric number);
static void field_sum_up(RuleState *state, RuleField *field);
static void field_keep_number(RuleState *state, RuleField *field,
							  Numeric number);
static void field_append(RuleState *state, RuleField *field,
						 const Rule *rule, JsonbValue *value);
static void field_make_array(RuleState *state, RuleField *field);
static void field_copy(RuleState *state, RuleField *field, JsonbValue *value);
static Jsonb *state_copy(RuleState *state, JsonbValue *value);
static void field_other(RuleField *field, Jsonb *value, void *owned);
static void field_clear(RuleField *field);
static Jsonb *field_value(RuleField *field);
static bool state_is_flat(const RuleState *state);
static Jsonb *state_build(RuleState *state);
static bool state_changes(const RuleState *state, const JsonbValue *key);
static void value_of_jsonb(Jsonb *jsonb, JsonbValue *value);
static Datum state_with_parents(Datum state, const RulePath *path);
static Jsonb *path_extract(Datum state, const RulePath *path, int count);
static ArrayType *path_array(const RulePath *path, int count);

/*
 * Take a state apart, in the current memory context.
 */
RuleState *
alvyn_rulestate_begin(const RuleSet *set, Jsonb *state)
{
	RuleState  *result = palloc0(sizeof(RuleState));
	int			i;

	result->set = set;
	result->state = state;
	result->context = CurrentMemoryContext;
	result->fields = palloc0(sizeof(RuleField) * set->nfields);
	for (i = 0; i < set->nfields; i++)
		state_load_field(result, &result->fields[i], &set->fields[i]);
	return result;
}

/*
 * Fold one event.  Returns whether there are rules for its type; raises 22023
 * when the payload lacks what a rule needs.  What is allocated in the current
 * context can go after the call.
 */
bool
alvyn_rulestate_apply(RuleState *state, const char *type, int length,
					  Datum data, TimestampTz time)
{
	const RuleType *found = alvyn_rules_find(state->set, type, length);
	Jsonb	   *payload;
	int			i;

	if (found == NULL)
		return false;
	payload = DatumGetJsonbP(data);
	for (i = 0; i < found->count; i++)
		rule_apply(state, &found->rules[i], payload, time);
	return true;
}

/*
 * Put the state together again, in the current memory context.
 */
Jsonb *
alvyn_rulestate_end(RuleState *state)
{
	Datum		result;
	int			i;

	for (i = 0; i < state->set->nfields; i++)
		field_sum_up(state, &state->fields[i]);
	if (state_is_flat(state))
		return state_build(state);

	result = PointerGetDatum(DatumGetJsonbPCopy(JsonbPGetDatum(state->state)));
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
 * Take one field out of the state.
 */
static void
state_load_field(RuleState *state, RuleField *field, const RulePath *path)
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
	JsonbValue	value;
	char		buffer[MAXDATELEN + 1];
	int			utc = 0;

	field->changed = true;
	switch (rule->operation)
	{
		case RULE_SET:
			field_clear(field);
			field_other(field, rule->constant, NULL);
			break;
		case RULE_COPY:
			field_copy(state, field, alvyn_rule_value(rule, data, &value));
			break;
		case RULE_APPEND:
			field_append(state, field, rule, alvyn_rule_value(rule, data, &value));
			break;
		case RULE_INCREMENT:
			field_number(state, field, rule, rule->number);
			break;
		case RULE_ADD:
		case RULE_SUBTRACT:
		case RULE_MIN:
		case RULE_MAX:
			field_number(state, field, rule, alvyn_rule_number(rule, data));
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
			field_copy(state, field, &value);
			break;
	}
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

	if (field_sum(field, rule, number))
		return;
	field_sum_up(state, field);
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

	field_keep_number(state, field, DatumGetNumeric(result));
}

/*
 * Add a number to the sum of a field, if it is a small integer and the field
 * a number or nothing yet.  Returns false when it is not that simple.
 */
static bool
field_sum(RuleField *field, const Rule *rule, Numeric number)
{
	bool		is_small = rule->is_small;
	int64		value = rule->small;
	int64		sum;

	if (rule->operation == RULE_MIN || rule->operation == RULE_MAX ||
		field->kind == FIELD_ARRAY || field->kind == FIELD_OTHER)
		return false;
	if (rule->operation != RULE_INCREMENT)
		is_small = alvyn_rule_is_small(number, &value);
	if (rule->operation == RULE_SUBTRACT)
		value = -value;
	if (!is_small || pg_add_s64_overflow(field->sum, value, &sum))
		return false;

	if (field->kind != FIELD_NUMBER)
		field_clear(field);
	field->kind = FIELD_NUMBER;
	field->sum = sum;
	return true;
}

/*
 * Bring the sum of a field into its number.
 */
static void
field_sum_up(RuleState *state, RuleField *field)
{
	Numeric		sum;

	if (field->kind != FIELD_NUMBER || (field->sum == 0 && field->number))
		return;
	sum = int64_to_numeric(field->sum);
	if (field->number)
		sum = DatumGetNumeric(DirectFunctionCall2(numeric_add,
												  NumericGetDatum(field->number),
												  NumericGetDatum(sum)));
	field_keep_number(state, field, sum);
}

/*
 * Make a copy of a number the value of a field.  It may be the number that
 * the field holds.
 */
static void
field_keep_number(RuleState *state, RuleField *field, Numeric number)
{
	MemoryContext old = MemoryContextSwitchTo(state->context);
	Numeric		copy = DatumGetNumericCopy(NumericGetDatum(number));

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
field_append(RuleState *state, RuleField *field, const Rule *rule,
			 JsonbValue *value)
{
	Jsonb	   *element = state_copy(state, value);
	MemoryContext old;
	int			excess;

	if (field->kind != FIELD_ARRAY)
		field_make_array(state, field);

	old = MemoryContextSwitchTo(state->context);
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
	MemoryContextSwitchTo(old);
}

/*
 * Take a field apart that holds an array, or empty any other.
 */
static void
field_make_array(RuleState *state, RuleField *field)
{
	List	   *elements = NIL;

	if (field->kind == FIELD_OTHER && JB_ROOT_IS_ARRAY(field->other) &&
		!JB_ROOT_IS_SCALAR(field->other))
	{
		JsonbIterator *it = JsonbIteratorInit(&field->other->root);
		JsonbValue	value;
		JsonbIteratorToken token;

		while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
		{
			Jsonb	   *element;
			MemoryContext old;

			if (token != WJB_ELEM)
				continue;
			element = state_copy(state, &value);
			old = MemoryContextSwitchTo(state->context);
			elements = lappend(elements, element);
			MemoryContextSwitchTo(old);
		}
	}
	field_clear(field);
	field->kind = FIELD_ARRAY;
	field->elements = elements;
}

/*
 * Put a copy of a value into a field.
 */
static void
field_copy(RuleState *state, RuleField *field, JsonbValue *value)
{
	Jsonb	   *copy = state_copy(state, value);

	field_clear(field);
	field_other(field, copy, copy);
}

/*
 * A copy of a value that lives as long as the state.  What is needed to make
 * it stays in the current context, and goes with the event.
 */
static Jsonb *
state_copy(RuleState *state, JsonbValue *value)
{
	Jsonb	   *made = JsonbValueToJsonb(value);
	MemoryContext old = MemoryContextSwitchTo(state->context);
	Jsonb	   *copy = DatumGetJsonbPCopy(JsonbPGetDatum(made));

	MemoryContextSwitchTo(old);
	return copy;
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
	if (!JB_ROOT_IS_SCALAR(value) || !JsonbExtractScalar(&value->root, &scalar))
		return;
	if (scalar.type == jbvNull)
		field->kind = FIELD_NULL;
	else if (scalar.type == jbvNumeric)
	{
		field->kind = FIELD_NUMBER;
		field->number = scalar.val.numeric;
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
	field->number = NULL;
	field->sum = 0;
	field->elements = NIL;
	field->owned = NULL;
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
		value_of_jsonb(lfirst(lc), &value);
		pushJsonbValue(&parse, WJB_ELEM, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&parse, WJB_END_ARRAY, NULL));
}

/*
 * Is the state an object whose fields all lie at its top?
 */
static bool
state_is_flat(const RuleState *state)
{
	int			i;

	if (!JB_ROOT_IS_OBJECT(state->state))
		return false;
	for (i = 0; i < state->set->nfields; i++)
	{
		if (state->set->fields[i].count != 1)
			return false;
	}
	return true;
}

/*
 * The state as a new object: what no rule has changed, then the fields that
 * have a value.  Setting one field after the other costs several times as
 * much.
 */
static Jsonb *
state_build(RuleState *state)
{
	JsonbIterator *it = JsonbIteratorInit(&state->state->root);
	JsonbParseState *parse = NULL;
	JsonbIteratorToken token;
	JsonbValue	value;
	bool		keep = false;
	int			i;

	pushJsonbValue(&parse, WJB_BEGIN_OBJECT, NULL);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			keep = !state_changes(state, &value);
		if (keep && (token == WJB_KEY || token == WJB_VALUE))
			pushJsonbValue(&parse, token, &value);
	}
	for (i = 0; i < state->set->nfields; i++)
	{
		RuleField  *field = &state->fields[i];

		if (!field->changed || field->kind == FIELD_ABSENT)
			continue;
		value.type = jbvString;
		value.val.string.val = state->set->fields[i].names[0];
		value.val.string.len = state->set->fields[i].lengths[0];
		pushJsonbValue(&parse, WJB_KEY, &value);
		if (field->kind == FIELD_NUMBER)
		{
			value.type = jbvNumeric;
			value.val.numeric = field->number;
		}
		else
			value_of_jsonb(field_value(field), &value);
		pushJsonbValue(&parse, WJB_VALUE, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&parse, WJB_END_OBJECT, NULL));
}

/*
 * Is a key of the state the name of a field that rules have changed?
 */
static bool
state_changes(const RuleState *state, const JsonbValue *key)
{
	int			i;

	for (i = 0; i < state->set->nfields; i++)
	{
		const RulePath *path = &state->set->fields[i];

		if (state->fields[i].changed &&
			path->lengths[0] == key->val.string.len &&
			memcmp(path->names[0], key->val.string.val,
				   key->val.string.len) == 0)
			return true;
	}
	return false;
}

/*
 * A whole jsonb as a value to build with.
 */
static void
value_of_jsonb(Jsonb *jsonb, JsonbValue *value)
{
	if (JB_ROOT_IS_SCALAR(jsonb) && JsonbExtractScalar(&jsonb->root, value))
		return;
	value->type = jbvBinary;
	value->val.binary.data = &jsonb->root;
	value->val.binary.len = VARSIZE(jsonb) - VARHDRSZ;
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
