#!/bin/bash
# A process tree that ignores SIGTERM, forks twice and calls setsid is stopped whole: by cancel and by
# the time-out. A sidecar is gone after its task, also when flowrun died meanwhile.
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
      until test -e $W/deep; do read -t 0.05 x <> <(:) || :; done
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
same "nothing is left after cancel" "$(marked)" ""

rm deep
"$flowrun" tree.yaml -p timeout=700ms > out 2>&1
same "timed out" $? 1
has "the cause" out "tree@n1 timed_out"
same "nothing is left after the time-out" "$(marked)" ""

cat > side.yaml <<'END'
name: side
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  main:
    shell: bash
    run: |
      echo main
      until test -e $W/free; do read -t 0.05 x <> <(:) || :; done
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
finish
