-- The background worker.  It runs enabled projections, notifies and maintains
-- as the role that started it.

CREATE FUNCTION alvyn.due_projections() RETURNS SETOF text
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT p.name
      FROM alvyn.projections p
      LEFT JOIN alvyn.consumer_partitions c ON c.name = p.name
     WHERE p.enabled
       AND (p.building IS NOT NULL
            OR (p.retry_at IS NULL OR p.retry_at <= pg_catalog.clock_timestamp())
               AND coalesce(c."position", 0) < alvyn.last_position())
     ORDER BY p.name;
END;
COMMENT ON FUNCTION alvyn.due_projections() IS
    'Projections that the worker is to run now';

CREATE FUNCTION alvyn.start_worker(
    notify_interval interval DEFAULT NULL,
    maintain_interval interval DEFAULT NULL
) RETURNS int
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'alvyn_start_worker';
COMMENT ON FUNCTION alvyn.start_worker(interval, interval) IS
    'Start the worker of this database, as the current user; returns its process id';

CREATE FUNCTION alvyn.worker_pid() RETURNS int
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT l.pid
      FROM pg_catalog.pg_locks l
      JOIN pg_catalog.pg_database d ON d.oid = l.database
      JOIN pg_catalog.pg_extension e ON e.oid = l.objid
     WHERE d.datname = pg_catalog.current_database()
       AND e.extname = 'alvyn'
       AND l.locktype = 'object'
       AND l.classid = 'pg_catalog.pg_extension'::pg_catalog.regclass
       AND l.objsubid = 1
       AND l.granted
       AND l.mode = 'ExclusiveLock';
END;
COMMENT ON FUNCTION alvyn.worker_pid() IS
    'Process id of the worker of this database; null when none is running';

CREATE FUNCTION alvyn.stop_worker() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN coalesce(pg_terminate_backend(alvyn.worker_pid(), 10000), false);
END
$$;
COMMENT ON FUNCTION alvyn.stop_worker() IS
    'End the worker of this database and wait for its end; false when none is running';
