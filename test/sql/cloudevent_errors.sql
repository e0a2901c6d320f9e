-- What is no CloudEvent is refused with 22023, and the message names the
-- attribute.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;

-- Wording.
\set SHOW_CONTEXT never
SELECT alvyn.from_cloudevent('[]');
SELECT alvyn.from_cloudevent('{"specversion": "1.0", "type": "t", "source": "s"}');
SELECT alvyn.from_cloudevent('{"specversion": "1.0", "type": "t", "source": "s", "id": "1", "data": 1, "data_base64": ""}');
SELECT alvyn.from_cloudevent('{"specversion": "1.0", "type": "t", "source": "s", "id": "1", "traceParent": "x"}');
SELECT alvyn.from_cloudevent('{"specversion": "1.0", "type": "t", "source": "s", "id": "1", "time": "2018-02-30T00:00:00Z"}');
SELECT alvyn.cloudevent(ROW(1, 's', 1, 'i', 't', '2024-01-01', '1', NULL, 1, false)::alvyn.event, 'not a uri');

-- Codes, and the attribute that is named.
CREATE FUNCTION failure(change jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM alvyn.from_cloudevent('{"specversion": "1.0", "type": "t", "source": "s", "id": "1"}'::jsonb || change);
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    RETURN concat_ws(' ', SQLSTATE, coalesce(substring(SQLERRM FROM '^attributes? "(.*)"'), SQLERRM));
END
$$;
SELECT c.change, failure(c.change)
FROM unnest(ARRAY[
    '{}',
    '{"specversion": null}', '{"specversion": "0.3"}', '{"specversion": 1.0}', '{"specversion": "1.0.2"}',
    '{"id": null}', '{"id": ""}', '{"id": 5}', '{"id": "a\u0001"}',
    '{"source": null}', '{"source": ""}', '{"source": "a b"}', '{"source": "ä"}', '{"source": true}',
    '{"type": null}', '{"type": ""}', '{"type": {}}',
    '{"subject": ""}', '{"subject": 1}', '{"subject": "a\nb"}',
    '{"time": ""}', '{"time": "yesterday"}', '{"time": "2018-04-05"}', '{"time": "2018-04-05T17:31:00"}', '{"time": "2018-13-05T17:31:00Z"}', '{"time": 1522949460}',
    '{"datacontenttype": ""}', '{"datacontenttype": "json"}', '{"datacontenttype": "a/b c"}',
    '{"dataschema": ""}', '{"dataschema": "relative/schema"}', '{"dataschema": "a: b"}',
    '{"data_base64": "a"}', '{"data_base64": "AA="}', '{"data_base64": "AA==AA=="}', '{"data_base64": "????"}', '{"data_base64": 1}', '{"data_base64": "AA==", "data": null}',
    '{"data_base64": null, "data": 1}',
    '{"": 1}', '{"UPPER": "x"}', '{"with-hyphen": "x"}', '{"with_underscore": "x"}', '{"ä": "x"}',
    '{"ext": [1]}', '{"ext": {}}', '{"ext": 1.5}', '{"ext": 1e3}', '{"ext": 1.0}', '{"ext": 2147483648}', '{"ext": -2147483649}', '{"ext": "\u007f"}'
    ]::jsonb[]) WITH ORDINALITY c (change, i)
ORDER BY i;
\set VERBOSITY sqlstate
SELECT alvyn.from_cloudevent(NULL);
SELECT alvyn.from_cloudevent('null');
SELECT alvyn.from_cloudevent('"x"');
DROP FUNCTION failure;
