-- A reader that has read everything waits for the next event, and notes how
-- old that is when it wakes up.
SELECT alvyn.wait(alvyn.last_position(), '5 seconds');
INSERT INTO limits.woken SELECT clock_timestamp() - time FROM alvyn.events ORDER BY position DESC LIMIT 1;
