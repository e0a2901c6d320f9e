-- Events as CloudEvents, and CloudEvents as events.
--
-- The examples of the specification (CloudEvents 1.0.2 and its JSON format)
-- come back as they were sent, apart from attributes that are null, which
-- count as absent.  An event of this store has all context attributes, and
-- comes back as the same event.
DROP EXTENSION alvyn;
CREATE EXTENSION alvyn;
SET timezone = 'Asia/Tokyo';
CREATE TABLE examples (no int PRIMARY KEY, example jsonb);
INSERT INTO examples VALUES
(1, '{"specversion": "1.0", "type": "com.github.pull_request.opened", "source": "https:\/\/github.com/cloudevents/spec/pull", "subject": "123", "id": "A234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "comexampleothervalue": 5, "datacontenttype": "text/xml", "data": "<much wow=\"xml\"/>"}'),
(2, '{"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext", "id": "A234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "comexampleothervalue": 5, "datacontenttype": "application/vnd.apache.thrift.binary", "data_base64": "AAH+/w=="}'),
(3, '{"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext", "id": "B234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "comexampleothervalue": 5, "unsetextension": null, "datacontenttype": "application/xml", "data": "<much wow=\"xml\"/>"}'),
(4, '{"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext", "subject": null, "id": "C234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "comexampleothervalue": 5, "datacontenttype": "application/json", "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": true}}'),
(5, '{"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext", "subject": null, "id": "D234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "comexampleothervalue": 5, "data": "I''m just a string"}'),
(6, '{"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext/4", "id": "B234-1234-1234", "time": "2018-04-05T17:31:00Z", "comexampleextension1": "value", "comexampleothervalue": 5, "datacontenttype": "application/vnd.apache.thrift.binary", "data_base64": ""}'),
(7, '{"specversion": "1.0", "type": "com.example.someotherevent", "source": "/mycontext/9", "id": "C234-1234-1234", "time": "2018-04-05T17:31:05Z", "comexampleextension1": "value", "comexampleothervalue": 5, "datacontenttype": "application/json", "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": true}}'),
-- All types of extensions; null payload; none; other forms of a time.
(8, '{"specversion": "1.0", "type": "t", "source": "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "id": "1", "time": "2018-04-05T17:31:00.123456Z", "a": true, "b": false, "c": -2147483648, "d": 2147483647, "e": "", "dataschema": "https://example.com/schema.json#v1", "data": null}'),
(9, '{"specversion": "1.0", "type": "t", "source": "a", "id": "1", "time": "2018-04-05T17:31:00.5Z", "alvynmetadata": "not ours"}'),
(10, '{"specversion": "1.0", "type": "t", "source": "//a/?q=[1]#f%20", "id": "größe 日本", "time": "2018-04-05T00:00:00Z", "subject": "a b", "datacontenttype": "application/json; charset=utf-8", "data": 1.50}');

-- Taken apart.
SELECT c.* FROM examples, alvyn.from_cloudevent(example) c WHERE no > 1 ORDER BY no;

-- There and back, by way of a stream.
SELECT count(alvyn.append('example-' || no, 0, c.type, c.data, c.metadata, c.id, c."time"))
FROM examples, alvyn.from_cloudevent(example) c;
SELECT no, alvyn.cloudevent(e) = jsonb_strip_nulls(example - 'data') || CASE WHEN example ? 'data' THEN jsonb_build_object('data', example -> 'data') ELSE '{}' END AS same
FROM examples, alvyn.load('example-' || no) e ORDER BY no;

-- Times at other offsets and with more digits: the same moment, in UTC.
SELECT to_json(f."time" AT TIME ZONE 'UTC')
FROM unnest(ARRAY['2018-04-05T19:31:00+02:00', '2018-04-05t17:31:00.1234564z', '2016-12-31T23:59:60Z', '2000-02-29T00:00:00-00:00']) WITH ORDINALITY t (t, i),
     alvyn.from_cloudevent(jsonb_build_object('specversion', '1.0', 'type', 't', 'source', 's', 'id', '1', 'time', t)) f
ORDER BY i;
-- Without a time, the event has that of its append.
SELECT f."time" IS NULL AS none, alvyn.append('example-0', 0, f.type, f.data, f.metadata, f.id, f."time") IS NOT NULL AS appended
FROM alvyn.from_cloudevent('{"specversion": "1.0", "type": "t", "source": "s", "id": "1"}') f;
SELECT alvyn.cloudevent(e) - 'time' AS event, alvyn.cloudevent(e) ? 'time' AS "time" FROM alvyn.load('example-0') e;

-- Events of this store: every attribute, with the defaults and with others.
SELECT (alvyn.append('order-1', 0, 'Placed', '{"n": 1}', NULL, NULL, '2024-02-29 12:00:00.000001+00')).version;
SELECT (alvyn.append('order-1', 1, 'Paid', 'null', '{"user": "ada", "tries": 2, "ok": true, "correlationId": "c-1", "nested": {"a": [1]}, "half": 0.5, "big": 2147483648, "none": null, "id": "x", "data": "y"}',
                    'own-id', '2024-02-29 12:00:10+00')).version;
SELECT (alvyn.append('order-1', 2, 'Shipped', '[]', '{"source": "https://shop.example.com", "subject": "parcel", "dataschema": "no uri", "datacontenttype": "application/vnd.x+json", "data_form": "base64"}',
                    NULL, '2024-02-29 12:00:00.12+00')).version;
SELECT (alvyn.append('order-1', 3, 'Noted', '1', '"metadata that is no object"', NULL, '0001-01-01 00:00:00+00')).version;
SELECT jsonb_pretty(alvyn.cloudevent(e)) FROM alvyn.load('order-1') e;
SELECT alvyn.cloudevent(e, 'https://shop.example.com/events') ->> 'source' FROM alvyn.load('order-1', 1, 1) e;
-- Back: type, time, id, data and metadata are the same; what CloudEvents had
-- to be told is added to the metadata.
SELECT e.version, (f.type, f."time", f.id, f.data) = (e.type, e."time", e.id, e.data) AS same,
       CASE jsonb_typeof(e.metadata) WHEN 'object' THEN f.metadata @> e.metadata END AS contained
FROM alvyn.load('order-1') e, alvyn.from_cloudevent(alvyn.cloudevent(e)) f ORDER BY e.version;
-- And once more there: nothing is added or lost any more.
SELECT e.version, alvyn.cloudevent(ROW(e.position, e.stream_id, e.version, f.id, f.type, f."time", f.data, f.metadata, 1, false)::alvyn.event) = alvyn.cloudevent(e) AS same
FROM alvyn.load('order-1') e, alvyn.from_cloudevent(alvyn.cloudevent(e)) f ORDER BY e.version;

-- No event, no CloudEvent.
SELECT alvyn.cloudevent(NULL) IS NULL AS none;
DROP TABLE examples;
