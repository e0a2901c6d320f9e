-- The installed extension is the version that the control file names, and
-- lives in its own schema, from which nothing can move it.
SELECT extversion, extnamespace::regnamespace AS schema, extrelocatable
FROM pg_catalog.pg_extension
WHERE extname = 'alvyn';
