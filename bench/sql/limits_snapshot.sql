-- What the sections "snapshot" and "command" of bench/limits measure: the
-- same fold as rules and in PL/pgSQL, streams with and without snapshots, and
-- a decider.

CREATE FUNCTION limits.evolve(state jsonb, event alvyn.event)
    RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    RETURN jsonb_build_object(
        'balance', (state ->> 'balance')::numeric + (event.data ->> 'amount')::numeric,
        'deposits', (state ->> 'deposits')::int + 1);
END
$$;

CREATE FUNCTION limits.decide(state jsonb, command jsonb)
    RETURNS SETOF alvyn.new_event
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    event alvyn.new_event;
BEGIN
    event.type := 'MoneyDeposited';
    event.data := command;
    RETURN NEXT event;
END
$$;

CREATE PROCEDURE limits.define(snapshot text, every int, rules boolean)
    LANGUAGE sql
    BEGIN ATOMIC
        SELECT alvyn.create_snapshot(
            snapshot, lower(snapshot), every, '{"balance": 0, "deposits": 0}',
            evolve => CASE WHEN NOT rules THEN 'limits.evolve(jsonb, alvyn.event)'::regprocedure END,
            rules => CASE WHEN rules THEN
                '{"MoneyDeposited": {"balance": {"add": "amount"},
                                     "deposits": {"increment": 1}}}'::jsonb END);
    END;

-- Streams "prefix-1" and so on of so many events each, and a tail of 25 events
-- behind the last snapshot where there are snapshots.
CREATE PROCEDURE limits.deposit(prefix text, events integer, streams integer)
    LANGUAGE plpgsql
    AS $$
BEGIN
    FOR stream IN 1 .. streams LOOP
        FOR batch IN 0 .. (events - 1) / 10000 LOOP
            PERFORM alvyn.append_batch(
                concat(prefix, '-', stream), NULL,
                array_agg('MoneyDeposited'::text),
                array_agg(jsonb_build_object(
                    'amount', n % 10,
                    'operationToken', concat_ws(':', 'seed', stream, n))))
               FROM generate_series(batch * 10000, least(events, (batch + 1) * 10000) - 1) AS n;
            COMMIT;
        END LOOP;
    END LOOP;
END
$$;
