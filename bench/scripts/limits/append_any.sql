-- Append one event to one of several streams.
\set stream random(1, :streams)
SELECT (alvyn.append(:prefix || '-' || :stream, NULL, 'MoneyDeposited', :data)).version;
