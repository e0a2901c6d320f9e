-- A worker claims events and completes them.
SELECT limits.deliver('worker-' || :client_id::text);
