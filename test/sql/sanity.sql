-- Rules that every object of the extension keeps.  Each query lists what
-- breaks one, so all of them return no rows.
--
-- I6: no transaction id is stored.  I7: nothing notifies.  I8: names are
-- COLLATE "C", counters bigint, times timestamptz.  I9: every function pins
-- what it refers to.  I10: pg_dump keeps all user data.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
\pset tuples_only on

-- The members of the extension, and the columns of its tables and types.
CREATE TEMP VIEW members AS
SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS object
FROM pg_depend d
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'alvyn');
CREATE TEMP VIEW functions AS
SELECT p.*, m.object, l.lanname FROM pg_proc p JOIN members m ON m.objid = p.oid AND m.classid = 'pg_proc'::regclass
JOIN pg_language l ON l.oid = p.prolang;
CREATE TEMP VIEW columns AS
SELECT c.relname, c.relkind, a.attname, a.atttypid, a.atttypmod, a.attcollation, format('%s.%s', c.relname, a.attname) AS object
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'alvyn'::regnamespace AND c.relkind IN ('r', 'c', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped;
-- There are some, so that no query is empty because it looks at nothing.
SELECT (SELECT count(*) > 40 FROM members), (SELECT count(*) > 30 FROM functions), (SELECT count(*) > 40 FROM columns);

-- Objects without a comment.
SELECT object FROM members
WHERE classid IN ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass)
  AND obj_description(objid, classid::regclass::name) IS NULL
  AND NOT (classid = 'pg_type'::regclass AND (SELECT typtype = 'b' OR typrelid <> 0 AND (SELECT relkind <> 'c' FROM pg_class WHERE oid = typrelid)
                                              FROM pg_type WHERE oid = objid))
  AND NOT (classid = 'pg_class'::regclass AND (SELECT relkind IN ('c', 'i') FROM pg_class WHERE oid = objid));
-- Objects outside the schema, and objects in it that are no members.
SELECT object FROM members WHERE object NOT LIKE '%alvyn%';
SELECT oid::regclass FROM pg_class WHERE relnamespace = 'alvyn'::regnamespace AND relkind IN ('r', 'S', 'v', 'm', 'f', 'p')
  AND oid NOT IN (SELECT objid FROM members WHERE classid = 'pg_class'::regclass);
SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'alvyn'::regnamespace AND oid NOT IN (SELECT oid FROM functions);

-- I9: functions whose references are looked up when they run, without a path
-- of their own; definer functions whose path is not the safe one.
SELECT object FROM functions
WHERE lanname NOT IN ('c', 'internal') AND prosqlbody IS NULL AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false);
SELECT object FROM functions WHERE prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false);
-- C functions whose name is not alvyn_ and the name of the function.
SELECT object, prosrc FROM functions WHERE lanname = 'c' AND prosrc NOT LIKE 'alvyn\_%';
-- Functions that change something and could be run in a worker.
SELECT object FROM functions WHERE provolatile = 'v' AND proparallel = 's' AND proname <> 'last_position';
-- Functions in untrusted languages other than C.
SELECT object FROM functions WHERE lanname NOT IN ('c', 'internal', 'sql', 'plpgsql');
-- Reading functions that say nothing of parallel safety.
SELECT object FROM functions WHERE provolatile <> 'v' AND prokind = 'f' AND proparallel = 'u' AND proname <> 'read';

-- Open to everybody.
SELECT object FROM functions, LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner))) a WHERE a.grantee = 0;
SELECT c.oid::regclass, a.privilege_type FROM pg_class c, LATERAL aclexplode(coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))) a
WHERE relnamespace = 'alvyn'::regnamespace AND relkind IN ('r', 'S', 'v', 'm') AND a.grantee = 0;
SELECT a.privilege_type FROM pg_namespace, LATERAL aclexplode(nspacl) a WHERE nspname = 'alvyn' AND a.grantee = 0;
-- Grants to others than the roles of the scheme, grants with grant option,
-- grants that write a table.
SELECT c.oid::regclass, a.grantee::regrole, a.privilege_type FROM pg_class c, LATERAL aclexplode(relacl) a
WHERE relnamespace = 'alvyn'::regnamespace AND a.grantee <> c.relowner
  AND (a.is_grantable OR a.privilege_type <> 'SELECT' OR a.grantee::regrole::text NOT IN ('alvyn_reader', 'alvyn_writer', 'alvyn_admin'));
SELECT object, a.grantee::regrole FROM functions, LATERAL aclexplode(proacl) a
WHERE a.grantee <> proowner AND (a.is_grantable OR a.grantee::regrole::text NOT IN ('alvyn_reader', 'alvyn_writer', 'alvyn_admin'));

-- Tables without primary key, and not logged; foreign keys without index.
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'alvyn'::regnamespace AND relkind = 'r'
  AND (relpersistence <> 'p' OR NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p'));
SELECT conname FROM pg_constraint k WHERE connamespace = 'alvyn'::regnamespace AND contype = 'f'
  AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = k.conrelid AND i.indkey::int2[] @> k.conkey AND i.indkey[0] = ANY (k.conkey));
-- Indexes that are not named for their table, or have a constraint's name
-- that is generated.
SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
WHERE relnamespace = 'alvyn'::regnamespace AND NOT starts_with(relname, (SELECT relname FROM pg_class WHERE oid = indrelid)) AND relname <> 'idempotency_key';

-- I8: text of tables that is not COLLATE "C"; names and keys in row types.
SELECT object FROM columns WHERE atttypid IN ('text'::regtype, 'varchar'::regtype, 'char'::regtype) AND attcollation <> '"C"'::regcollation
  AND (relkind = 'r' OR attname ~ '(^|_)(id|type|key|name)$');
-- Counters that are not bigint.
SELECT object, format_type(atttypid, atttypmod) FROM columns
WHERE attname ~ '(version|position|count|_no|number|first|last|missing|streams|events|floor)$' AND attname <> 'schema_version' AND atttypid <> 'bigint'::regtype;
SELECT object, t FROM functions, LATERAL unnest(proargnames, proallargtypes::regtype[]) a (n, t)
WHERE n ~ '(version|versions|position|_no)$' AND n !~ '^schema_version' AND t NOT IN ('bigint', 'bigint[]');
-- Times that are not timestamptz; transaction ids; json; money and the like.
SELECT object, format_type(atttypid, atttypmod) FROM columns
WHERE atttypid NOT IN ('bigint'::regtype, 'int'::regtype, 'smallint'::regtype, 'text'::regtype, 'jsonb'::regtype, 'boolean'::regtype,
                       'timestamptz'::regtype, '"char"'::regtype, 'bytea'::regtype, 'bigint[]'::regtype, 'text[]'::regtype, 'interval'::regtype, 'numeric'::regtype, 'double precision'::regtype, 'name'::regtype,
                       'regprocedure'::regtype, 'regclass'::regtype, 'alvyn.new_event'::regtype);
-- Sequences that are not bigint, skip numbers or go round.
SELECT seqrelid::regclass FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
WHERE relnamespace = 'alvyn'::regnamespace AND (seqtypid <> 'bigint'::regtype OR seqcache <> 1 OR seqcycle OR seqincrement <> 1 OR seqmin <> 1);

-- I10: tables and sequences whose content pg_dump would lose.
SELECT c.oid::regclass FROM pg_class c, pg_extension e
WHERE relnamespace = 'alvyn'::regnamespace AND relkind IN ('r', 'S') AND extname = 'alvyn'
  AND NOT coalesce(c.oid = ANY (extconfig), false);
SELECT conf, cond FROM pg_extension, LATERAL unnest(extconfig, extcondition) u (conf, cond) WHERE extname = 'alvyn' AND cond <> '';

-- I7: triggers on tables that appends write, rules, functions that notify.
SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
WHERE relnamespace = 'alvyn'::regnamespace AND NOT tgisinternal AND relname NOT IN ('snapshots', 'deciders', 'tenant_quotas', 'usage_hours');
SELECT rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class WHERE relnamespace = 'alvyn'::regnamespace AND relkind = 'r';
SELECT object FROM functions WHERE prosrc ~* '\mnotify\M';
