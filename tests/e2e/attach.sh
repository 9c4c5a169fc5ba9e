#!/bin/bash
# attach shows what the owner of a run shows: while it goes on, when it is over, and from the beginning
# whenever it is called. It ends with the run and its exit code; when the owner dies, it says so.
. "$(dirname "$0")/lib.sh"
begin "$1"

# What may differ is removed: clocks, notes about nodes, what the owner alone hears of. Tasks are
# independent of each other, so lines are compared task by task, each task's in their order.
told() {
    sed -E 's/^[0-9:]{8} //; s/"time_ms":[0-9]+/T/' "$1" |
        grep -vE '^(n[0-9]|control|flowrun): |"event":"(node|trouble)"|^cancelled from|^this home.s host |^the host ' |
        sed -E 's/^(.*"task":"([^"]*)","node":"([^"]*)".*)$/\2@\3 \1/' | sort -s -k1,1
}
alike() { if cmp -s <(told "$2") <(told "$3"); then ok; else bad "$1"; diff <(told "$2") <(told "$3") | head -20; fi; }

cat > p.yaml <<'END'
name: p
nodes:
  - {name: n1, executor: local}
  - {name: n2, executor: local, slots: 1}
env: {W: "${{ env.W }}"}
tasks:
  first: {on: n1, run: "echo one; echo two; echo z=1 >> $FLOWRUN_OUTPUT; echo a=2 >> $FLOWRUN_OUTPUT", outputs: [z, a]}
  flaky: {on: n1, run: "echo try $FLOWRUN_ATTEMPT_NO; test $FLOWRUN_ATTEMPT_NO = 3", retry: {times: 3, delay: 20ms}}
  gang: {on: all, gang: true, needs: [first, flaky], run: "echo rank $NODE_RANK; until test -e $W/go; do sleep 0.02; done; printf 'no newline'"}
  slow: {on: n2, timeout: 300ms, best_effort: true, run: "echo went; exec sleep 60"}
  bad: {on: n1, needs: [gang], run: "exit 3"}
  never: {on: n1, needs: [bad], run: "true"}
  last: {on: n1, needs: [gang], run: "echo y=3 >> $FLOWRUN_OUTPUT; echo b=4 >> $FLOWRUN_OUTPUT", outputs: [b, y]}
on_failure:
  - run: "echo hook"
END
no=0
for mode in "" --verbose --quiet --json "--json --quiet"; do
    no=$((no + 1))
    rm -f go
    "$flowrun" p.yaml $mode > own 2>&1 &
    own=$!
    running() { "$flowrun" status $no | grep -q 'gang@n2 *running'; }
    until_true 20 running
    "$flowrun" attach $no $mode > att 2>&1 &
    att=$!
    case $mode in *quiet*) ;; *) until_true 20 holds att "rank 1" ;; esac
    touch go
    wait $own
    same "mode '$mode': the owner" $? 1
    wait $att
    same "mode '$mode': attach has its code" $? 1
    alike "mode '$mode': attach shows what the owner does" own att
    "$flowrun" attach $no $mode > late 2>&1
    same "mode '$mode': attach to what is over has its code" $? 1
    alike "mode '$mode': attach to what is over" own late
done
"$flowrun" attach 1 > late
has "output without a newline" late "gang@n2 | no newline"
has "results" late "last@n1 gave b=4"
check "in the order of their declaration" grep -A 1 -q "last@n1 gave b=4" late
same "a reader that leaves" "$("$flowrun" attach 1 | head -n 1 | grep -c 'run 1 (')" 1

# The owner dies; somebody else goes on. Each attach shows all of it.
rm -f go
start p.yaml
pid=$!
no=$((no + 1))
until_true 20 running
rm -f att
"$flowrun" attach --verbose > att 2>&1 &
att=$!
until_true 20 holds att "gang@n2 | rank 1"
kill -9 $pid
wait $pid 2> /dev/null
wait $att
same "the owner died" $? 4
has "attach says so" att "no flowrun looks after run $no; 'flowrun resume $no' goes on with it"
"$flowrun" attach $no > att 2>&1
same "nobody drives it" $? 4
has "what happened is shown" att "gang@n2 | rank 1"
has "and that nobody drives it" att "no flowrun looks after run $no"
start resume $no
pid=$!
until_true 20 holds out "run $no"
rm -f att
"$flowrun" attach --verbose > att 2>&1 &
att=$!
until_true 20 holds att "gang@n2 | rank 1"

# Ctrl-C leaves the following alone.
"$flowrun" attach > left 2>&1 &
leaves=$!
until_true 20 holds left "gang@n2 | rank 1"
kill -INT $leaves
wait $leaves
same "left" $? 4
has "says what goes on" left "left (Ctrl-C): run $no goes on; 'flowrun attach $no' shows it again"
kill -0 $pid && ok || bad "the owner is gone"
touch go
wait $pid
wait $att
same "attach ends with the run" $? 1
same "a line comes once" "$(grep -c 'gang@n2 | rank 1' att)" 1
same "an end, too" "$(grep -c 'gang@n2 succeeded' att)" 1
has "the rest" att "run $no failed: bad@n1: exit code 3"

# A changed file numbers its tasks anew; the story is still theirs.
sed -e 's/exit 3/true/' -e '/^tasks:/a\  zero: {on: n2, run: "echo zero"}' -e '/^  never/d' p.yaml > q.yaml
"$flowrun" retry $no --file q.yaml > again 2>&1
same "with a changed file" $? 0
"$flowrun" attach $no --verbose > late 2>&1
same "attach has its code" $? 0
for t in first@n1 flaky@n1 gang@n2 last@n1 zero@n2; do has "$t" late "$t succeeded"; done
has "its first round" late "run $no failed: bad@n1: exit code 3"
has "its second round" late "bad@n1 succeeded"
hasnt "what is no more" late "never@n1"
same "zero ran in the second round alone" "$(sed -n "/run $no failed/,\$p" late | grep -c 'zero@n2 starting')" 1
same "each output with its task" "$(grep -c 'first@n1 | two' late)" 1

# A full log: what the owner shows of it, and no more. A long one: all of it.
cat > r.yaml <<'END'
name: r
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  full: {log: {max: 64KiB}, run: "seq 20000; until test -e $W/full; do sleep 0.02; done; echo end"}
  long: {run: "seq 2000000; echo end"}
END
no=$((no + 1))
rm -f own
"$flowrun" r.yaml > own 2>&1 &
own=$!
until_true 20 holds own "its log is full"
rm -f att
"$flowrun" attach > att 2>&1 &
att=$!
until_true 20 holds att "full@n1: its log is full"
hasnt "the tail comes at the end" att "full@n1 | 20000"
touch full
wait $own
wait $att
same "a run with much output" $? 0
"$flowrun" attach $no > late 2>&1
for f in att late; do
    alike "much output: $f" own $f
    same "$f: all of it" "$(grep -c 'long@n1 |' $f)" 2000001
done
until_true 5 none_marked
finish
