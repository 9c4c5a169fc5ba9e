#!/bin/bash
# A follower takes its run over when the host dies, at moments that a seed draws. What it printed from the
# beginning on is the story that the store has: no line is missing, none is there twice.
# usage: take_over.sh BUILD [TIMES] [SEED]
. "$(dirname "$0")/lib.sh"
begin "$1"
times=${2:-8}
seed=${3:-$$}
RANDOM=$seed
export FLOWRUN_LIBEXEC=$build/tasks

cat > p.yaml <<'END'
name: p
nodes:
  - {name: n1, executor: local, slots: 4}
  - {name: n2, executor: local, slots: 4}
tasks:
  talks: {on: all, run: "for i in $(seq 300); do echo $i; test $((i % 20)) != 0 || sleep 0.01; done"}
  flaky: {on: n1, run: "seq 50; sleep 0.03; test $FLOWRUN_ATTEMPT_NO = 4", retry: {times: 4, delay: 10ms}}
  gang: {on: all, gang: true, needs: [flaky], run: "seq 100; sleep 0.05; printf end"}
  fails: {on: n2, best_effort: true, run: "seq 20; exit 3"}
  quick: {on: n2, needs: [fails], run: "true"}
  chain: {on: n1, needs: [quick], run: "seq 3000; sleep 0.1"}
  end: {on: n2, needs: [chain, gang, talks], run: "echo last; echo v=1 >> $FLOWRUN_OUTPUT", outputs: [v]}
END
# A run that is host and has nothing to do but wait.
cat > host.yaml <<'END'
name: host
env: {W: "${{ env.W }}"}
tasks: {wait: {run: "until test -e $W/go; do sleep 0.05; done"}}
END
for ((i = 1; i <= times; i++)); do
    host=$((2 * i - 1)) run=$((2 * i))
    rm -f go
    : > att
    "$flowrun" host.yaml --quiet > own 2>&1 &
    own=$!
    until_true 20 test -S "$FLOWRUN_HOME/host.sock"
    until_true 20 eval '"$flowrun" status $host > own.status 2>&1'
    ("$flowrun" p.yaml --verbose > att 2>&1; echo $? > code) &
    att=$!
    k=$((RANDOM % 3500))
    while kill -0 $att 2> /dev/null && [ "$(lines att)" -lt $k ]; do sleep 0.01; done
    case $((RANDOM % 3)) in
    0) kill -TERM $own ;; # it leaves
    1) kill -STOP $own; kill -9 $own ;;
    2) kill -9 $own ;;
    esac 2> /dev/null
    wait $own 2> /dev/null
    wait $att
    same "seed $seed, time $i: its code" "$(cat code)" 0
    "$flowrun" attach $run --verbose > late 2>&1
    if cmp -s <(told att) <(told late); then ok; else
        bad "seed $seed, time $i: taken over at line $k"
        diff <(told att) <(told late) | head -20
    fi
    same "each line once" "$(grep -c 'talks@n. | ' att) $(grep -c 'chain@n1 | ' att) $(grep -c 'flaky@n1 | ' att)" "600 3000 200"
    touch go
    "$flowrun" resume $host --quiet > own 2>&1
    same "seed $seed, time $i: the first one goes on" $? 0
done
finish
