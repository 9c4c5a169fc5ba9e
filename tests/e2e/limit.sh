#!/bin/bash
# A run that takes longer than its timeout: its tasks are stopped, it has failed, its hooks run.
. "$(dirname "$0")/lib.sh"
begin "$1"

cat > p.yaml <<'END'
params: {time: {default: 1s}}
timeout: ${{ params.time }}
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  a: {run: "test -e $W/quick || { echo waits; sleep 1000; }"}
  b: {needs: [a], run: "true"}
on_failure: [{name: bad, run: "echo $FLOWRUN_STATUS > $W/bad"}]
on_cancel: [{name: left, run: "echo > $W/left"}]
END
"$flowrun" p.yaml --verbose > out 2>&1
same "exit code" $? 1
has "what is stopped says why" out "run 1 cancelling: timeout after 1.0s"
has "the end says why" out "run 1 failed: timeout after 1.0s"
check "so does the task" grep -Eq '^a +n1 +cancelled +1 .*stopped: the run.s timeout' out
same "the hook of failure ran" "$(cat bad) $(ls left 2> /dev/null)" "failed "
same "nothing runs any more" "$(marked_tasks)" ""
has "the store has the reason" <("$flowrun" runs) "timeout after 1.0s"
same "and JSON" "$("$flowrun" status --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["state"], d["reason"])')" \
    "failed timeout after 1.0s"
touch quick
"$flowrun" retry 1 > out 2>&1
same "a retry has all of the time again: exit code" $? 0
same "no reason is left" "$("$flowrun" runs --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["state"], d["reason"])')" "succeeded "
rm quick bad

# flowrun is killed; when it is resumed the time is over.
start p.yaml -p time=1h
pid=$!
until_true 20 holds out "a@n1 | waits"
kill -9 $pid
wait $pid 2> /dev/null
python3 -c '
import sqlite3
db = sqlite3.connect("home/state.db")
db.execute("UPDATE run SET started_wall = started_wall - 3601000 WHERE no = 2")
db.commit()'
"$flowrun" resume 2 > out 2>&1
same "resumed behind its time: exit code" $? 1
has "it has timed out" out "run 2 failed: timeout after 1h"
same "its hook ran" "$(cat bad)" "failed"

"$flowrun" validate p.yaml -p time=soon > out 2>&1
same "no time: exit code" $? 2
has "no time" out "; expected never or a duration like 10s, above zero"
"$flowrun" validate p.yaml -p time=never > out 2>&1
same "no limit" $? 0

finish
