-- The next message of another system arrives.
\set n :client_id + :clients * :k
\set k :k + 1
SELECT (alvyn.receive('shop', message_id, stream_id, 'Ordered', NULL, body => body, signature => signature)).duplicate
  FROM service.messages WHERE n = :n;
