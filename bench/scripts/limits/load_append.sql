-- A deposit in two round trips: the newest snapshot and what follows it, from
-- which the client would compute the state, then the append.
\set stream :client_id + 1
SELECT version AS loaded, type AS kind, data AS payload FROM alvyn.load_latest('command-' || :stream, 'Command') \aset
SELECT (alvyn.append('command-' || :stream, :loaded, 'MoneyDeposited', :data)).version;
