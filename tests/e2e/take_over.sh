#!/bin/bash
# A follower takes a run over when its owner dies, at moments that a seed draws. What it printed from the
# beginning on is the story that the store has: no line is missing, none is there twice.
# usage: take_over.sh BUILD [TIMES] [SEED]
. "$(dirname "$0")/lib.sh"
begin "$1"
times=${2:-12}
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
# Task by task, as each one's lines are in order.
told() {
    sed -E 's/^[0-9:]{8} //' "$1" | grep -vE '^(n[0-9]|control|flowrun): ' | sort -s -k1,1
}
for ((i = 1; i <= times; i++)); do
    "$flowrun" p.yaml --quiet > own 2>&1 &
    own=$!
    until_true 20 "$flowrun" status $i > /dev/null
    : > att
    "$build/tests/e2e/take_over_test" $i > att 2>&1 &
    att=$!
    k=$((RANDOM % 3500))
    while kill -0 $own 2> /dev/null && [ "$(lines att)" -lt $k ]; do read -r -t 0.01 <> <(:); done
    case $((RANDOM % 3)) in
    0) kill -TERM $own ;; # it leaves
    1) kill -STOP $own; kill -9 $own ;;
    2) kill -9 $own ;;
    esac 2> /dev/null
    wait $own 2> /dev/null
    wait $att
    code=$?
    "$flowrun" attach $i --verbose > late 2>&1
    if [ $code = 2 ]; then # the run was over before
        has "seed $seed, time $i" att "is over"
        continue
    fi
    same "seed $seed, time $i: its code" $code 0
    if cmp -s <(told att) <(told late); then ok; else
        bad "seed $seed, time $i: taken over at line $k"
        diff <(told att) <(told late) | head -20
    fi
    same "each line once" "$(grep -c 'talks@n. | ' att) $(grep -c 'chain@n1 | ' att) $(grep -c 'flaky@n1 | ' att)" "600 3000 200"
done
finish
