#!/bin/bash
# A run as a trace of OpenTelemetry: what 'flowrun trace' prints and what a collector gets are the same spans, in one
# tree, under ids that tasks see. A collector that is down gets them later; what it rejects is told.
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir rx home
(cd rx && exec python3 "$repo/tests/e2e/notify_receiver.py") &
receiver=$!
trap 'kill $receiver; wait $receiver 2>/dev/null; cleanup' EXIT
until_true 20 [ -s rx/ports ]
read -r http _ < rx/ports
export COLLECTOR_HEADERS="x-key=planted%2Dkey,x-team=a b"
{
    echo "name: p"
    local3
    cat <<'END2'
env: {W: "${{ env.W }}"}
tasks:
  first: {on: n1, run: 'echo "$TRACEPARENT" > $W/parent'}
  again: {on: n2, run: "test $FLOWRUN_ATTEMPT_NO = 2", retry: {times: 1, delay: 10ms}}
  gang: {needs: [first], on: all, gang: true, run: "true"}
  bad: {needs: [gang], on: n3, run: "exit 3"}
  never: {needs: [bad], on: n1, run: "true"}
END2
} > p.yaml
"$flowrun" p.yaml > out 2>&1
same "the run fails as its task does" $? 1
"$flowrun" trace > trace
same "a trace" $? 0
cat > tree.py <<'END2'
import json, sys
spans = [s for l in open(sys.argv[1]) for r in json.loads(l)["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]]
by_id = {s["spanId"]: s for s in spans}
assert len(by_id) == len(spans), "ids twice"
def value(s, key):
    for a in s["attributes"]:
        if a["key"] == key:
            return a["value"].get("stringValue", a["value"].get("intValue"))
for s in spans:
    up = by_id.get(s.get("parentSpanId"))
    assert s is spans[0] or up, "no parent: %s" % s
    assert int(s["startTimeUnixNano"]) <= int(s["endTimeUnixNano"]), s
    assert not up or s["name"] in ("wait", "queued") or int(up["startTimeUnixNano"]) <= int(s["startTimeUnixNano"]), s
    assert not up or int(s["endTimeUnixNano"]) <= int(up["endTimeUnixNano"]), (s, up)
    assert len(s["traceId"]) == 32 and len(s["spanId"]) == 16 and s["kind"] == 1, s
def path(s):
    up = by_id.get(s.get("parentSpanId"))
    return (path(up) + " > " if up else "") + s["name"]
for s in sorted(spans, key=lambda s: (path(s), s["startTimeUnixNano"])):
    if s["name"] not in ("wait", "start", "queued"):
        print(path(s), value(s, "cicd.pipeline.result") or value(s, "cicd.pipeline.task.run.result") or "-",
              value(s, "flowrun.exit_code") or "-", value(s, "flowrun.rank") or "-",
              s.get("status", {}).get("code", 0), len(s.get("links", [])))
seen = open("parent").read().strip().split("-")
assert seen[0] == "00" and seen[1] == spans[0]["traceId"] and by_id[seen[2]]["name"] == "first@n1" and seen[3] == "01", seen
assert value(spans[0], "cicd.pipeline.run.id") == spans[0]["traceId"]
END2
python3 tree.py trace > got
cat > want <<'END2'
p failure - - 2 0
p > again - - - 0 0
p > again > again@n2 failure 1 0 2 0
p > again > again@n2 success 0 0 0 1
p > bad - - - 2 0
p > bad > bad@n3 failure 3 0 2 0
p > first - - - 0 0
p > first > first@n1 success 0 0 0 0
p > gang - - - 0 0
p > gang > generation - - - 0 0
p > gang > generation > gang@n1 success 0 0 0 0
p > gang > generation > gang@n2 success 0 1 0 0
p > gang > generation > gang@n3 success 0 2 0 0
END2
check "one tree" diff want got

# ---- a collector ----
cat > home/config.yaml <<END2
channels: {spans: {kind: otlp, url: "http://127.0.0.1:$http/v1/traces", headers: {env: COLLECTOR_HEADERS}}}
notify: {on: [succeeded, failed], to: spans}
END2
"$flowrun" p.yaml > out 2>&1
"$flowrun" trace 2 > trace
cat > sent.py <<'END2'
import json, sys
got = [json.loads(l) for l in open("rx/got.http")]
got = [g for g in got if g["path"] == sys.argv[1]]
print(len(got), got[-1]["headers"]["content-type"], got[-1]["headers"].get("x-key"), got[-1]["headers"].get("x-team"),
      json.loads(got[-1]["body"]) == json.loads(open("trace").read()))
END2
same "the collector has the same" "$(python3 sent.py /v1/traces)" "1 application/json planted-key a b True"
"$flowrun" notify list > list
has "which is told" list "sent         1  HTTP status 204"
hasnt "without its key" list planted-key
check "which is not kept" sh -c "! grep -rqaF planted-key home"
"$flowrun" notify test spans > out 2>&1
same "a test" $? 0

# ---- by the variables of exporters, while nobody listens ----
rm home/config.yaml
export OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:$http/base/" OTEL_EXPORTER_OTLP_HEADERS="X-Key=other,bad, ,"
export OTEL_RESOURCE_ATTRIBUTES=service.name=x,deployment.environment=lab OTEL_SERVICE_NAME=nightly
OTEL_SDK_DISABLED=true "$flowrun" p.yaml > out 2>&1
same "nothing is sent where the SDK is off" "$("$flowrun" notify list --channel otlp)" "there is no such delivery"
"$flowrun" rm 3 > out 2>&1
echo "503 1" > rx/answer
"$flowrun" p.yaml > out 2>&1
"$flowrun" trace 4 > trace
same "the resource is what the variables say" "$(python3 -c '
import json
of = {a["key"]: a["value"]["stringValue"] for a in json.load(open("trace"))["resourceSpans"][0]["resource"]["attributes"]}
print(of["service.name"], of["deployment.environment"])')" "nightly lab"
same "it was tried" "$(python3 sent.py /base/v1/traces)" "1 application/json other None True"
"$flowrun" notify list --channel otlp > list
has "and waits" list "waiting      1  HTTP status 503; headers: 1 of its entries was not NAME=VALUE and left out; next try"
rm rx/answer
printf '%s' '{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old\u001b[2J"}}' > rx/says
"$flowrun" serve > served 2>&1 &
host=$!
sent() { "$flowrun" notify list --channel otlp --state sent > list && grep -Fq "the collector rejected 2 spans: too old\x1b[2J" list; }
until_true 40 sent
same "it came once more" "$(python3 sent.py /base/v1/traces)" "2 application/json other None True"
kill -TERM $host
wait $host

# ---- many ----
rm rx/says
python3 - > many.yaml <<'END2'
print("name: many\ntasks:\n" + "".join("  t%d: {run: 'true'}\n" % i for i in range(300)))
END2
"$flowrun" many.yaml > out 2>&1
same "300 tasks" $? 0
"$flowrun" trace > trace
check "batches of 512 at most" python3 - <<'END2'
import json
sizes = [len(json.loads(l)["resourceSpans"][0]["scopeSpans"][0]["spans"]) for l in open("trace")]
assert all(s == 512 for s in sizes[:-1]) and 0 < sizes[-1] <= 512 and sum(sizes) >= 601 and len(sizes) > 1, sizes
END2
"$flowrun" trace 77 > out 2>&1
same "no such run" $? 2
finish
