-- The next run of a projection.
SELECT alvyn.run_projection('balances', 5000);
