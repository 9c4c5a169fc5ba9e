#!/bin/bash
# GET /metrics: what a host counts, in the text format of Prometheus, from memory.
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v curl > /dev/null || skip "curl is not here"

figures() { curl -sS --unix-socket "$FLOWRUN_HOME/host.sock" -D head http://flowrun/metrics > got; }
# value NAME{LABELS}: of the newest look
value() { awk -v name="$1" 'substr($0, 1, length(name) + 1) == name " " { print $2 }' got; }
is() { figures && [ "$(value "$1")" = "$2" ]; }

mkdir folder
cat > folder/nightly.yaml <<'END'
name: nightly
schedule: {cron: "0 3 * * *"}
tasks: {a: {run: "true"}}
END
serve() {
    "$flowrun" serve --metrics 127.0.0.1:0 folder > serve.out 2>&1 &
    serve=$!
}
serve
until_true 60 is 'flowrun_schedule_paused{pipeline="nightly",schedule="default"}' 0
cat > p.yaml <<'END'
name: p
tasks:
  fine: {run: "true"}
  again: {run: "test $FLOWRUN_ATTEMPT_NO = 2", retry: {times: 1, delay: 10ms}}
END
"$flowrun" p.yaml > out 2>&1
same "a run that succeeds" $? 0
printf 'name: q\ntasks: {bad: {run: "exit 3"}}\n' > q.yaml
"$flowrun" q.yaml > out 2>&1
same "a run that fails" $? 1
cat > t.yaml <<'END'
name: t
env: {W: "${{ env.W }}"}
tasks:
  fit:
    metrics: m
    run: |
      echo '{"step":7,"loss":1.5,"throughput":640}' >> m
      while [ ! -e $W/over ]; do sleep 0.05; done
END
start t.yaml
follower=$!
until_true 20 is 'flowrun_train_step{pipeline="t",task="fit"}' 7
disk() { figures && grep -q '^flowrun_node_disk_free_bytes{node="local"} [1-9]' got; }
until_true 20 disk
check "free space on its node's disk" disk
figures
has "its type" head "text/plain; version=0.0.4; charset=utf-8"
while read -r name want; do
    same "$name" "$(value "$name")" "$want"
done <<'END'
flowrun_leader 1
flowrun_runs{state="running"} 1
flowrun_runs_total{pipeline="p",outcome="succeeded",origin="cli"} 1
flowrun_retries_total{pipeline="p",cause="exit"} 1
flowrun_attempts_total{pipeline="p",outcome="succeeded",cause="exit"} 2
flowrun_attempts_total{pipeline="p",outcome="failed",cause="exit"} 1
flowrun_runs_total{pipeline="q",outcome="failed",origin="cli"} 1
flowrun_run_duration_seconds_count{pipeline="q",outcome="failed"} 1
flowrun_run_duration_seconds_bucket{pipeline="q",outcome="failed",le="+Inf"} 1
flowrun_attempts_total{pipeline="q",outcome="failed",cause="exit"} 1
flowrun_instances{state="running"} 1
flowrun_queue_length{pool=""} 0
flowrun_schedule_paused{pipeline="nightly",schedule="default"} 0
flowrun_node_up{node="local"} 1
flowrun_node_attempts{node="local"} 1
flowrun_train_loss{pipeline="t",task="fit"} 1.5
flowrun_train_tokens_per_second{pipeline="t",task="fit"} 640
END
check "the time of the last success" grep -q '^flowrun_run_last_success_timestamp_seconds{pipeline="p"} 1[0-9.]*$' got
check "when the schedule is due" grep -q '^flowrun_schedule_next_timestamp_seconds{pipeline="nightly",schedule="default"} 1[0-9]*$' got
check "requests by route" grep -q '^flowrun_http_requests_total{route="/metrics",code="2xx"} [1-9]' got
check "commits" grep -q '^flowrun_store_commit_seconds_count [1-9]' got
check "memory" grep -q '^process_resident_memory_bytes [1-9]' got
hasnt "no ids of runs" got "$("$flowrun" status 1 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')"
same "each HELP once" "$(grep '^# HELP' got | awk '{print $3}' | sort | uniq -d)" ""
touch over
wait "$follower"
until_true 20 is 'flowrun_runs{state="running"}' 0
figures
hasnt "a training goes with its run" got flowrun_train_step
cp got "${FIGURES:-/dev/null}"

# ---- a listener of its own: figures, without a token, and nothing else ----
at=$(sed -n 's|.*figures at \(http://[^/]*\)/metrics.*|\1|p' serve.out)
asked() { curl -s -o answer -w '%{http_code}' "$@"; }
same "figures without a token" "$(asked "$at/metrics")" 200
has "the same" answer 'flowrun_runs_total{pipeline="q",outcome="failed",origin="cli"} 1'
same "not the pages" "$(asked "$at/")" 404
same "not the interface" "$(asked "$at/api/v1/runs")" 404
same "not that of health" "$(asked "$at/api/v1/health")" 404
same "nothing is changed" "$(asked -X POST -H "Origin: $at" -H 'Content-Type: application/json' -d '{}' "$at/metrics")" 405
same "not by the name of another site" "$(asked -H 'Host: evil.example' "$at/metrics")" 421
same "one that is no address" "$("$flowrun" serve --metrics here 2>&1; echo $?)" \
    "flowrun: serve: --metrics takes ADDRESS:PORT as 127.0.0.1:8470 or [::1]:8470, not 'here'
2"

kill "$serve"
wait "$serve" 2> /dev/null
serve
until_true 60 is 'flowrun_schedule_paused{pipeline="nightly",schedule="default"}' 0
check "the next host knows the last success" grep -q '^flowrun_run_last_success_timestamp_seconds{pipeline="p"} 1[0-9.]*$' got
hasnt "and that there was none" got 'flowrun_run_last_success_timestamp_seconds{pipeline="q"}'
kill "$serve"
wait "$serve" 2> /dev/null
same "nothing is left running" "$(left)" ""
finish
