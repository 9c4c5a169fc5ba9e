#!/bin/bash
# A process tree that ignores SIGTERM, forks twice and calls setsid is stopped whole: by cancel and by
# the time-out; halted processes likewise, and their ports are free. One that cannot be stopped is
# named. A sidecar is gone after its task, also when flowrun died meanwhile.
. "$(dirname "$0")/lib.sh"
begin "$1"
cat > tree.yaml <<'END'
name: tree
nodes: [{name: n1, executor: local}]
params: {timeout: {default: 1h}}
env: {W: "${{ env.W }}"}
tasks:
  tree:
    grace: 200ms
    timeout: ${{ params.timeout }}
    shell: bash
    run: |
      trap '' TERM
      setsid bash -c 'trap "" TERM; sleep 1000 & sleep 1001 & wait' &
      (setsid bash -c 'trap "" TERM; (sleep 1002 &) ; echo deep > $W/deep; sleep 1003' &)
      until test -e $W/deep; do sleep 0.05; done
      echo grown
      wait
END
start tree.yaml
pid=$!
until_true 20 holds out "tree@n1 | grown"
check "the tree stands" test "$(marked | wc -l)" -ge 5
"$flowrun" cancel > /dev/null
wait "$pid"
same "cancelled" $? 3
same "nothing is left after cancel" "$(left)" ""

rm deep
"$flowrun" tree.yaml -p timeout=700ms > out 2>&1
same "timed out" $? 1
has "the cause" out "tree@n1 timed_out"
same "nothing is left after the time-out" "$(left)" ""

cat > side.yaml <<'END'
name: side
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  main:
    shell: bash
    run: |
      echo main
      until test -e $W/free; do sleep 0.05; done
    sidecars:
      - {name: watch, run: "echo watching; touch $W/side; exec sleep 1000"}
END
start side.yaml
pid=$!
until_true 20 test -e side
until_true 20 holds out "main@n1 | [watch] watching"
kill -9 "$pid"
wait "$pid" 2>/dev/null
touch free
until_true 20 eval 'test -z "$(marked)"'
same "the sidecar is gone without flowrun" "$(marked)" ""
"$flowrun" resume > out 2>&1
same "resume finds the end" $? 0

# Halted processes act on no signal but SIGKILL, and one of them holds a port; both are gone and free.
cat > halted.yaml <<'YAML'
name: halted
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  halted:
    grace: 200ms
    shell: bash
    run: |
      trap '' TERM
      (setsid python3 -c 'import os, signal, socket
      signal.signal(signal.SIGTERM, signal.SIG_IGN)
      s = socket.create_server(("", 0))
      with open(os.environ["W"] + "/port.new", "w") as f: f.write(str(s.getsockname()[1]))
      with open(os.environ["W"] + "/p1", "w") as f: f.write(str(os.getpid()))
      os.rename(os.environ["W"] + "/port.new", os.environ["W"] + "/port")
      os.kill(os.getpid(), signal.SIGSTOP)' &)
      setsid bash -c 'trap "" TERM; echo $$ > $W/p2; kill -STOP $$' &
      until test -s $W/port -a -s $W/p2; do sleep 0.05; done
      echo $$ > $W/p3
      kill -STOP $$
YAML
start halted.yaml
pid=$!
for k in 1 2 3; do until_true 20 eval 'grep -q "^State:.*stopped" "/proc/$(cat p$k)/status"'; done
"$flowrun" cancel > cancel 2>&1
same "cancel of what is halted" $? 0
has "it says so" cancel "1 task stopped, no process of them is left"
wait "$pid"
same "nothing halted is left" "$(left)" ""
check "its port is free" python3 -c 'import socket; socket.create_server(("", int(open("port").read())))'

# A process that no signal reaches (uninterruptible: here by the freezer of cgroup v1) is named, by cancel
# and by status, and nothing starts in its place; once it is gone, the run goes on.
freezer=/sys/fs/cgroup/freezer$(sed -n 's/^[0-9]*:freezer://p' /proc/self/cgroup)/fr-stop.$$
if mkdir "$freezer" 2> /dev/null; then
    export FREEZER=$freezer
    trap 'echo THAWED > "$freezer/freezer.state"; cleanup; rmdir "$freezer"' EXIT
    cat > frozen.yaml <<'YAML'
name: frozen
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}", FREEZER: "${{ env.FREEZER }}"}
tasks:
  frozen:
    grace: 100ms
    run: |
      echo ran >> $W/ran
      test ! -e $W/thawed || exit 0
      sh -c 'echo $$ > $FREEZER/cgroup.procs; echo $$ > $W/icy; while :; do sleep 1; done' &
      wait
YAML
    start frozen.yaml
    pid=$!
    until_true 20 test -s icy
    echo FROZEN > "$freezer/freezer.state"
    until_true 20 grep -q FROZEN "$freezer/freezer.state"
    "$flowrun" cancel > cancel 2>&1
    same "cancel of what cannot be stopped" $? 1
    has "names it" cancel "frozen@n1 is not proven stopped: "
    has "with its state" cancel "$(cat icy) sh D"
    has "and what to do" cancel "stops it again before anything else starts there"
    wait "$pid"
    "$flowrun" status > status
    has "status names it" status "$(cat icy) sh D"
    "$flowrun" retry > out 2>&1
    check "a retry does not go on beside it" test $? -ne 0
    same "nothing ran in its place" "$(cat ran)" ran
    echo THAWED > "$freezer/freezer.state"
    until_true 20 eval 'test -z "$(marked)"'
    touch thawed
    "$flowrun" retry > out 2>&1
    same "once it is gone, it goes on" $? 0
    same "and ran once more" "$(lines ran)" 2
else
    echo "left out: an uninterruptible process (no freezer of cgroup v1 here)"
fi
finish
