-- A deposit as one command.
\set stream :client_id + 1
SELECT (alvyn.execute('command-' || :stream, :data)).version;
