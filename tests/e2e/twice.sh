#!/bin/bash
# Two at once: two resumes of one run, a cancel while it resumes, a retry while it runs, two control
# machines with the same inventory.
. "$(dirname "$0")/lib.sh"
begin "$1"

{
    echo "name: held"
    local3
    cat <<'END'
env: {W: "${{ env.W }}"}
defaults: {shell: bash}
tasks:
  a: {on: all, run: "echo $FLOWRUN_ATTEMPT >> $W/ran; until test -e $W/free; do sleep 0.05; done"}
  b: {on: n1, needs: [a], run: "echo $FLOWRUN_ATTEMPT >> $W/ran"}
END
} > held.yaml

begun() { [ "$(lines ran)" -ge "$1" ]; }
once() { same "$1: none ran twice" "$(sort ran | uniq -d)" ""; }

# ---- two resumes: one goes on with it, the other says who has it
start held.yaml
pid=$!
until_true 20 begun 3
kill -9 $pid
wait $pid 2>/dev/null
"$flowrun" resume > first 2>&1 &
one=$!
"$flowrun" resume > second 2>&1 &
two=$!
until_true 20 test -s first
until_true 20 test -s second
touch free
wait $one
r1=$?
wait $two
r2=$?
same "one of two resumes goes on" "$(printf '%s\n' $r1 $r2 | sort -n | head -1)" 0
check "the other follows it, or is told that it goes on" test $((r1 + r2)) = 0 -o $((r1 + r2)) = 5
same "each ran once" "$(lines ran)" 4
once "two resumes"

# ---- a cancel while it resumes: it is stopped, whoever got there first
rm -f ran free
start held.yaml
pid=$!
until_true 20 begun 3
kill -9 $pid
wait $pid 2>/dev/null
"$flowrun" resume > resumed 2>&1 &
one=$!
"$flowrun" cancel > cancelled 2>&1
same "a cancel beside a resume" $? 0
wait $one
until_true 20 eval '"$flowrun" status | grep -q cancelled'
same "nothing is left running" "$(left)" ""
once "a cancel while resuming"

# ---- a retry while it runs is refused and changes nothing
rm -f ran free
start held.yaml
pid=$!
until_true 20 begun 3
"$flowrun" retry > refused 2>&1
same "a retry of a run that goes on" $? 5
has "and says why" refused "is still going on; cancel it first, or wait for its end"
touch free
wait $pid
same "which ends well" $? 0
same "with one attempt each" "$(lines ran)" 4

# ---- two control machines on one inventory
rm -f ran free
start held.yaml
one=$!
FLOWRUN_HOME=$work/other "$flowrun" held.yaml > other.out 2>&1 &
two=$!
until_true 20 begun 6
touch free
wait $one
same "the first control machine" $? 0
wait $two
same "the second" $? 0
same "all of both ran" "$(lines ran)" 8
once "two control machines"

# ---- a copy of the home, whose run the other one goes on with: refused by the nodes
rm -rf ran free nodes "$FLOWRUN_HOME" other
mkdir -m 700 nodes "$FLOWRUN_HOME"
ln -s ../nodes "$FLOWRUN_HOME/nodes" # of nodes elsewhere nothing is copied
start held.yaml
pid=$!
until_true 20 begun 3
kill -9 $pid
wait $pid 2>/dev/null
cp -a "$FLOWRUN_HOME" other
rm -f first second
"$flowrun" resume > first 2>&1 &
one=$!
for n in n1 n2 n3; do until_true 20 holds first "$n: connected"; done
FLOWRUN_HOME=$work/other "$flowrun" resume > second 2>&1 &
two=$!
for n in n1 n2 n3; do
    until_true 20 holds second "$n: cannot be used: the node ends the connection: another flowrun has this node"
done
has "it says what to do" second "'flowrun resume' takes over once the other one is stopped"
touch free
wait $one
same "the first goes on to the end" $? 0
same "with one attempt each" "$(lines ran)" 4
kill -9 $two
wait $two 2>/dev/null
once "a copy of the home"

# ---- and one that takes the run over: the first hears of it
rm -rf ran free nodes "$FLOWRUN_HOME" other
mkdir -m 700 nodes "$FLOWRUN_HOME"
ln -s ../nodes "$FLOWRUN_HOME/nodes"
start held.yaml
pid=$!
until_true 20 begun 3
cp -a "$FLOWRUN_HOME" other
FLOWRUN_HOME=$work/other "$flowrun" resume > second 2>&1 &
two=$!
for n in n1 n2 n3; do
    until_true 20 holds out "$n: cannot be used: the node ends the connection: another flowrun has taken over"
done
touch free
wait $two
same "the second goes on to the end" $? 0
same "with one attempt each" "$(lines ran)" 4
kill -9 $pid
wait $pid 2>/dev/null
once "a run that is taken over"

same "nothing is left running" "$(left)" ""
finish
