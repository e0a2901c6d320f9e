-- The gate: how many transactions append at the same time.

CREATE FUNCTION alvyn.gate_status(
    OUT active boolean,
    OUT in_flight int,
    OUT queued int,
    OUT max_concurrent int,
    OUT max_queued int,
    OUT admitted bigint,
    OUT shed bigint,
    OUT appended bigint,
    OUT oldest_pid int,
    OUT oldest_since timestamptz
) RETURNS record
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'alvyn_gate_status';
COMMENT ON FUNCTION alvyn.gate_status() IS
    'How many transactions append now, wait and were refused, in all databases of the server';
