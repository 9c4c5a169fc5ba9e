#!/bin/bash
# rerun: of a pipeline: which failed runs run again by themselves, how often, from what failed or as a new
# run; what prevents it. usage: rerun_policy.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
sql() { python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("PRAGMA busy_timeout = 5000"); rows = ["|".join(map(str, r)) for r in d.execute(sys.argv[2])]; d.commit(); print(" ".join(rows), end="\n" if rows else "")' home/state.db "$1"; }
last() { "$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/'; }
serve() {
    "$flowrun" serve > serve.out 2>&1 &
    serve=$!
    until_true 20 test -S home/host.sock
}
stop() {
    kill "$serve"
    wait "$serve"
}
pipeline() { # NAME RERUN COMMAND [MORE]
    printf 'name: %s\nrerun: %s\n%s\nnodes: [{name: n1, executor: local}]\nenv: {W: "${{ env.W }}"}\ntasks:\n  first: {run: "echo %s first >> $W/ran"}\n  t: {needs: [first], run: %s}\n' \
        "$1" "$2" "${4:-}" "$1" "'$3'" > "$1.yaml"
}
ran() { grep -c "^$1 " ran; }
# Runs FILE; its number stays in no. What follows by itself is over when the store says so.
run() {
    "$flowrun" "$1.yaml" > "out.$1" 2>&1
    code=$?
    no=$(sql "SELECT max(no) FROM run WHERE name = '$1'")
}
over() { [ "$(sql "SELECT count(*) FROM run WHERE name = '$1' AND (state <> 'over' OR rerun_wall <> 0)")" = 0 ]; }
rows() { sql "SELECT no - (SELECT min(no) FROM run WHERE name = '$1') + 1, outcome, round, reruns, retry_of <> 0 FROM run WHERE name = '$1' ORDER BY no"; }

# ---- what is wrong in a file
printf 'rerun: {after: 5m}\ntasks: {a: {run: "true"}}\n' > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
same "times is needed" $? 2
has "and named" out "wrong.yaml:1:8: rerun needs the key 'times'"
printf 'rerun: {times: 2, after: soon, from: end, on: [exits]}\ntasks: {a: {run: "true"}}\n' > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
has "a duration" out "after is 'soon'"
has "a place" out "from is 'end'"
has "a cause" out "'exits' is no cause to try again"
printf 'rerun: 2\ntasks: {a: {run: "true"}}\n' > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
has "a number alone" out "like {times: 2}"

# ---- cells: which runs, how often; the first line of each is what it says, the second what became of it
mkfifo never
serve
cell() { # NAME RERUN COMMAND ROWS TIMES-OF-t [MORE]
    pipeline "$1" "$2" "$3" "${6:-}"
    run "$1"
    until_true 20 over "$1"
    same "$1" "$(rows "$1")" "$4"
    same "$1: how often t ran" "$(grep -c "^$1 t" ran)" "$5"
}
say() { echo "echo $1 t >> \$W/ran; $2"; }
cell mended "{times: 3, after: 0s}" "$(say mended 'test $FLOWRUN_ATTEMPT_NO = 2')" "1|succeeded|2|1|0" 2
same "from what failed: the first task ran once" "$(grep -c "^mended first" ran)" 1
has "the first end says that it runs again" out.mended "in 0ms it runs again from what failed, if a 'flowrun serve' drives the home's runs then (rerun 1 of 3)"
cell failed "{times: 2, after: 0s}" "$(say failed 'exit 3')" "1|failed|3|2|0" 3
cell start "{times: 2, after: 0s, from: start}" "$(say start 'exit 3')" "1|failed|1|0|0 2|failed|1|1|1 3|failed|1|2|1" 3
same "from the start: the first task runs again" "$(grep -c "^start first" ran)" 3
cell start_mended "{times: 5, after: 0s, from: start}" "$(say start_mended 'test "$(grep -c "start_mended t" $W/ran)" = 2')" "1|failed|1|0|0 2|succeeded|1|1|1" 2
cell good "{times: 2, after: 0s}" "$(say good true)" "1|succeeded|1|0|0" 1
cell other_cause "{times: 2, after: 0s, on: [timeout, node_lost]}" "$(say other_cause 'exit 3')" "1|failed|1|0|0" 1
cell listed_cause "{times: 1, after: 0s, on: [exit]}" "$(say listed_cause 'exit 3')" "1|failed|2|1|0" 2
cell listed_code "{times: 1, after: 0s, on: [timeout, 3]}" "$(say listed_code 'exit 3')" "1|failed|2|1|0" 2
cell other_code "{times: 1, after: 0s, on: [timeout, 3]}" "$(say other_code 'exit 4')" "1|failed|1|0|0" 1
cell too_long "{times: 1, after: 0s, on: timeout}" "$(say too_long 'read x < $W/never')" "1|failed|2|1|0" 2 "timeout: 1s"
cell too_long_not "{times: 1, after: 0s, on: exit}" "$(say too_long_not 'read x < $W/never')" "1|failed|1|0|0" 1 "timeout: 1s"
cell no_policy "{times: 1, after: 0s, on: signal}" "$(say no_policy 'kill -9 $$')" "1|failed|2|1|0" 2
printf 'name: two\nrerun: {times: 1, after: 0s, on: [3]}\ntasks:\n  a: {run: "exit 3"}\n  b: {run: "exit 4"}\n' > two.yaml
run two
until_true 20 over two
same "two failures, one of them not listed" "$(rows two)" "1|failed|1|0|0"
printf 'name: effort\nrerun: {times: 1, after: 0s}\ntasks:\n  a: {run: "exit 3"}\n  b: {best_effort: true, run: "exit 137"}\n  c: {needs: [a], run: "true"}\n' > effort.yaml
run effort
until_true 20 over effort
same "a failure that does not count" "$(rows effort)" "1|failed|2|1|0"
pipeline cancelled "{times: 2, after: 0s}" "$(say cancelled 'read x < $W/never')"
"$flowrun" cancelled.yaml > out 2>&1 &
pid=$!
until_true 20 holds ran "cancelled t"
"$flowrun" cancel "$(last)" > out.cancel 2>&1
wait $pid
same "cancelled" $? 3
same "a cancelled run" "$(rows cancelled)" "1|cancelled|1|0|0"

# ---- a run that is to run again, and what prevents that
pipeline later "{times: 2, after: 1h}" "$(say later 'exit 3')"
later() { run later; sql "SELECT rerun_wall - ended_wall, rerun_from FROM run WHERE no = $no"; }
same "due an hour later" "$(later)" "3600000|failed"
run later
"$flowrun" status "$no" > out
has "status says when" out "it runs again from what failed at $(date -u +%Y-)"
has "and what prevents it" out "'flowrun cancel $no' prevents it"
same "JSON, too" "$("$flowrun" status "$no" --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["rerun_wall"] - d["ended_wall"], d["reruns"])')" "3600000 0"
"$flowrun" rm "$no" > out 2>&1
same "it is not removed" $? 2
has "as it is still to run" out "run $no is to run again by itself: 'flowrun cancel $no' prevents that"
"$flowrun" cancel "$no" > out 2>&1
same "cancel" $? 0
has "says so" out "run $no is over (failed) and does not run again by itself"
same "then nothing is due" "$(sql "SELECT rerun_wall, rerun_from FROM run WHERE no = $no")" "0|"
same "and its story has it" "$(sql "SELECT text FROM event WHERE run = (SELECT id FROM run WHERE no = $no) AND kind = 'rerun'")" "it does not run again by itself: cancelled"
"$flowrun" cancel "$no" > out 2>&1
same "a second time there is nothing to prevent" $? 0
run later
"$flowrun" retry "$no" > out 2>&1
same "retried by hand, it fails" $? 1
same "and the policy counts anew" "$(sql "SELECT round, reruns, rerun_wall - ended_wall FROM run WHERE no = $no")" "2|0|3600000"
run later
"$flowrun" rerun "$no" > out 2>&1
same "made again by hand" "$(sql "SELECT rerun_wall, (SELECT text FROM event WHERE run = run.id AND kind = 'rerun') FROM run WHERE no = $no")" "0|run $((no + 1)) repeats it"
due() { sql "UPDATE run SET rerun_wall = $2 WHERE no = $1"; }
story() { [ "$(sql "SELECT text FROM event WHERE run = (SELECT id FROM run WHERE no = $1) AND kind = 'rerun'")" = "it does not run again by itself: $2" ]; }
stop

# ---- what the next host finds: due a moment ago, more than a day ago, of a schedule that went on
run later
moment=$no
due "$moment" 1
run later
due "$no" "$(($(date +%s) * 1000 - 60000))"
moment2=$no
run later
sql "INSERT INTO schedule VALUES(7, '/p', 's', 'later', '', '', 'active', 0, '', 0, 0, 0)"
sql "INSERT INTO fire VALUES(7, 1000, 1000, 1, 'ran', $no, 'failed', 0, ''), (7, 2000, 2000, 1, 'ran', 99, 'succeeded', 0, '')"
sql "UPDATE run SET schedule = 7, at_ms = 1000, rerun_wall = $(($(date +%s) * 1000 - 1000)) WHERE no = $no"
newer=$no
run later
sql "UPDATE run SET schedule = 7, at_ms = 3000, rerun_wall = $(($(date +%s) * 1000 - 1000)) WHERE no = $no"
newest=$no
pipeline lost "{times: 2, after: 1h, from: start}" "$(say lost 'exit 3')"
run lost
due "$no" "$(($(date +%s) * 1000 - 1000))"
lost=$no
rm "home/blobs/$(sql "SELECT spec_hash FROM run WHERE no = $no")"
pipeline urgent "{times: 1, after: 1h, from: start}" "$(say urgent 'exit 3')"
run urgent
due "$no" "$(($(date +%s) * 1000 - 1000))"
sql "UPDATE run SET priority = 4 WHERE no = $no"
urgent=$no
serve
until_true 20 eval '[ "$(sql "SELECT priority FROM run WHERE retry_of = '$urgent'")" = 4 ]'
until_true 20 eval '[ "$(sql "SELECT round, outcome FROM run WHERE no = '$moment2'")" = "2|failed" ]'
until_true 20 story "$moment" "no host that stays was there for a day when it was due"
until_true 20 story "$newer" "run 99 of a later instant of its schedule has succeeded"
until_true 20 eval '[ "$(sql "SELECT round FROM run WHERE no = '$newest'")" = 2 ]'
until_true 20 eval '[ "$(sql "SELECT rerun_wall FROM run WHERE no = '$lost'")" = 0 ]'
same "a run whose copy is gone stays as it is" "$(sql "SELECT round, outcome FROM run WHERE no = $lost")" "1|failed"
same "nor do those that were dropped run" "$(sql "SELECT round FROM run WHERE no IN ($moment, $newer)")" "1 1"

# ---- beside a limit it waits its turn
pipeline turn "{times: 1, after: 0s}" "$(say turn 'test $FLOWRUN_ATTEMPT_NO = 2')" "max_active_runs: 1"
sed 's/^name: turn/name: turn\nparams: {who: {default: x}}/; s/run: .echo turn t.*/run: "echo busy t >> $W\/ran; read x < $W\/never"}/' turn.yaml > busy.yaml
"$flowrun" busy.yaml > out.busy 2>&1 &
pid=$!
until_true 20 holds ran "busy t"
"$flowrun" turn.yaml > out.turn 2>&1 &
turn=$!
until_true 20 holds out.turn "is queued"
echo > never
wait $pid
wait $turn
until_true 20 over turn
same "behind the limit" "$(rows turn | tr ' ' '\n' | tail -n 1)" "2|succeeded|2|1|0"
stop
finish
