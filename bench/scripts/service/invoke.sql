-- A request: begun, 20 ms in the upstream system, finished; or shed at once.
\set request :client_id + 1000 * :k
\set k :k + 1
SELECT service.begin(:key, :run || '-' || :request) = 'begun' AS begun \gset
\if :begun
\sleep 20 ms
SELECT service.finish(:key, :run || '-' || :request) = 'served' AS served \gset
\endif
