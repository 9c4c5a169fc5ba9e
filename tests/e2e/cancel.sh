#!/bin/bash
# Stopping: from another shell, by Ctrl-C once, left by Ctrl-C twice, and a run that nobody owns.
. "$(dirname "$0")/lib.sh"
begin "$1"
{
    echo "name: long"
    local3
    cat <<'END'
env: {W: "${{ env.W }}"}
tasks:
  wait:
    on: all
    gang: true
    grace: 1s
    run: |
      echo ready
      exec sleep 1000
  never: {needs: [wait], run: "echo never"}
on_cancel: [{name: say, run: "echo hook ran >> $W/hooks"}]
on_failure: [{name: wrong, run: "echo failure >> $W/hooks"}]
END
} > long.yaml

running() { until_true 20 holds out "wait@n1 running"; until_true 20 holds out "wait@n2 running"; until_true 20 holds out "wait@n3 running"; }

start long.yaml
pid=$!
running
"$flowrun" cancel > cancel 2>&1
same "cancel from another shell" $? 0
same "it returns when nothing of a task is left" "$(marked_tasks)" ""
has "and says so" cancel "run 1 is cancelled: 3 tasks stopped, no process of them is left"
wait "$pid"
same "the run's exit code" $? 3
has "cancelled" out "run 1 cancelled"
same "the hook of this outcome ran once" "$(cat hooks)" "hook ran"
same "nothing is left" "$(left)" ""

# A shell without job control gives background children an ignored SIGINT: python gives it back.
interruptible() {
    : > "$work/out"
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$flowrun" "$@" --verbose > "$work/out" 2>&1 &
}
interruptible long.yaml
pid=$!
running
kill -INT "$pid"
wait "$pid"
same "Ctrl-C once" $? 3
has "it says what it does" out "stopping all tasks of run 2; Ctrl-C again leaves them running"
same "nothing is left" "$(left)" ""

sed -e 's/exec sleep 1000/trap "" TERM; while :; do sleep 1000; done/' -e 's/grace: 1s/grace: 100s/' long.yaml > stubborn.yaml
interruptible stubborn.yaml
pid=$!
running
kill -INT "$pid"
until_true 20 holds out "stopping all tasks of run 3"
kill -INT "$pid"
wait "$pid"
same "Ctrl-C twice" $? 4
has "it says how to go on" out "'flowrun resume 3' takes over"
check "the tasks go on" test -n "$(marked_tasks)"
if grep -q "tasks go on;" out; then # the second came in time
    "$flowrun" status 3 > out
    has "they were not asked to stop" out " running "
else
    has "it says that they were" out "already asked to stop"
fi
for p in $(marked); do kill -9 "$p" 2>/dev/null; done

start long.yaml
pid=$!
running
kill -9 "$pid"
wait "$pid" 2>/dev/null
check "the tasks go on" test -n "$(marked_tasks)"
"$flowrun" cancel 4 > out 2>&1
same "cancel of a run without owner" $? 0
has "it says what it found" out "run 4 is cancelled: 3 tasks stopped, no process of them is left"
same "nothing is left" "$(left)" ""
"$flowrun" cancel 4 > out 2>&1
same "cancel of what is over: that is what was wanted" $? 0
same "it says so" "$(cat out)" "run 4 is over (cancelled): there is nothing to stop"
same "as an object" "$("$flowrun" cancel 4 --json)" '{"run":4,"state":"cancelled","stopped":3,"left":[]}'
"$flowrun" resume 4 > out 2>&1
same "resume of it ends as the run did" $? 3
has "and says so" out "run 4 is over (cancelled): there is nothing to resume; 'flowrun retry 4' runs again what failed"
"$flowrun" resume 4 --file q.yaml > out 2>&1
same "with another file it cannot be" $? 2
"$flowrun" retry 4 --from nothing > out 2>&1
same "nor retry from what is not there" $? 2
printf 'tasks: {bad: {run: "exit 1"}}\n' > bad.yaml
"$flowrun" bad.yaml > out 2>&1
"$flowrun" resume 5 --json > out 2>&1
same "resume of a run that failed" $? 1
same "as an object" "$(cat out)" '{"run":5,"state":"failed","reason":"bad@local: exit code 1"}'
finish
