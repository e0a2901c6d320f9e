/*-------------------------------------------------------------------------
 *
 * definition.h
 *		The definitions of snapshots and deciders, as this backend knows them.
 *
 * IDENTIFICATION
 *		src/definition.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef DEFINITION_H
#define DEFINITION_H

#include "rules.h"

/* A row of alvyn.snapshots. */
typedef struct SnapshotDefinition
{
	int64		snapshot_no;
	char	   *name;
	char	   *event_type;		/* the name with "Snapshot" behind it */
	char	   *prefix;			/* with "-" behind it */
	int			every;
	int32		schema_version;
	Jsonb	   *initial_state;
	RuleSet    *rules;			/* or NULL */
	char	   *evolve;			/* signature of the function, or NULL */
	Oid			evolve_function;	/* invalid when it is gone */
} SnapshotDefinition;

/* A row of alvyn.deciders. */
typedef struct DeciderDefinition
{
	char	   *name;
	char	   *prefix;			/* with "-" behind it */
	char	   *snapshot_name;
	char	   *decide;			/* signature of the function */
	Oid			decide_function;	/* invalid when it is gone */
} DeciderDefinition;

/* Everything defined, in the order of the names. */
typedef struct Definitions
{
	int			nsnapshots;
	SnapshotDefinition *snapshots;
	int			ndeciders;
	DeciderDefinition *deciders;
} Definitions;

extern void alvyn_definition_init(void);
extern const Definitions *alvyn_definitions(Oid function);
extern const SnapshotDefinition *alvyn_definition_snapshot(Oid function,
														   const char *name);
extern const DeciderDefinition *alvyn_definition_decider(Oid function,
														 const text *stream_id);
extern bool alvyn_definition_covers(const char *prefix,
									const text *stream_id);
extern void alvyn_definition_check_stream(const SnapshotDefinition *def,
										  const text *stream_id);

#endif							/* DEFINITION_H */
