-- Each refused call of a governor has its SQLSTATE; docs/errors.md lists
-- them.  The wording of each is shown once.
--
-- I11: bad input gets one error, nothing is taken, the session lives on.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SELECT alvyn.create_governor('one', 0.001, 2);

-- Wording.
\set SHOW_CONTEXT never
SELECT alvyn.create_governor('', 1, 1);
SELECT alvyn.create_governor('new', 0, 1);
SELECT alvyn.create_governor('new', 1, 0.5);
SELECT alvyn.create_governor('one', 1, 1);
SELECT alvyn.alter_governor('none', 1, 1);
SELECT alvyn.drop_governor('none');
SELECT alvyn.acquire('none');
SELECT alvyn.acquire(NULL);
SELECT alvyn.acquire('one', 3);
SELECT alvyn.acquire('one', wait => '-1 s');
BEGIN READ ONLY;
SELECT alvyn.acquire('one');
ROLLBACK;
ALTER TABLE alvyn.governor_states RENAME TO states;
SELECT alvyn.acquire('one');
ALTER TABLE alvyn.states RENAME TO governor_states;

-- Codes.
CREATE FUNCTION failure(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN 'no error: ' || call;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' <- ' || call;
END
$$;
\pset tuples_only on
\pset format unaligned
SELECT failure('alvyn.' || call)
FROM unnest(ARRAY[
    $$create_governor(NULL, 1, 1)$$,
    $$create_governor(repeat('x', 513), 1, 1)$$,
    $$create_governor('new', NULL, 1)$$,
    $$create_governor('new', 0.0009, 1)$$,
    $$create_governor('new', 1000001, 1)$$,
    $$create_governor('new', 'NaN', 1)$$,
    $$create_governor('new', 1, NULL)$$,
    $$create_governor('new', 1, 0)$$,
    $$create_governor('new', 1, 'NaN')$$,
    $$create_governor('new', 1000, 1000000001)$$,
    $$create_governor('new', 0.001, 100000)$$,
    $$alter_governor('one', 0, 1)$$,
    $$alter_governor('one', 1, 0)$$,
    $$acquire('one', NULL)$$,
    $$acquire('one', 0)$$,
    $$acquire('one', -1)$$,
    $$acquire('one', 'NaN')$$,
    $$acquire('one', 'infinity')$$,
    $$acquire('one', 2.001)$$,
    $$acquire('one', 1, '25 hours')$$,
    $$take_tokens('none', 1)$$,
    $$return_tokens('none', 1)$$]) WITH ORDINALITY x (call, i)
ORDER BY i;
DROP FUNCTION failure;
-- Nothing was taken.
SELECT granted FROM alvyn.acquire('one', 2);
