#!/bin/bash
# One host a home: two shells share a node's one slot and one connection; a run that nobody follows is
# left; a flowrun inside a task hands its run to the host; another uid, another mount namespace, an older
# flowrun's lock. usage: host.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"

cat > slot.yaml <<'END'
name: slot
params: {who: {default: x}}
nodes: [{name: n1, executor: local, slots: 1}]
env: {W: "${{ env.W }}", WHO: "${{ params.who }}"}
tasks:
  a: {run: "echo $WHO in >> $W/order; sleep 0.2; echo $WHO out >> $W/order"}
  b: {run: "echo $WHO in >> $W/order; sleep 0.2; echo $WHO out >> $W/order"}
  c: {needs: [a, b], run: "echo $WHO in >> $W/order; sleep 0.1; echo $WHO out >> $W/order; echo done $WHO"}
END
pids=()
for who in 1 2 3 4; do
    "$flowrun" slot.yaml -p who=$who > out.$who 2>&1 &
    pids+=($!)
done
for i in 0 1 2 3; do
    wait ${pids[$i]}
    same "shell $((i + 1))" $? 0
    has "its output" out.$((i + 1)) "c@n1 | done $((i + 1))"
    has "how its node is reached" out.$((i + 1)) "n1: connected (local)"
done
same "each task ran once" "$(lines order)" 24
same "never two in the one slot" "$(awk '{print $2}' order | uniq -d)" ""
check "a host leaves no socket" test ! -e "$FLOWRUN_HOME/host.sock"

# ---- a task of a run that nobody drives holds its slot until it ends
cat > holds.yaml <<'END'
name: holds
nodes: [{name: n1, executor: local, slots: 1}]
env: {W: "${{ env.W }}"}
tasks: {t: {run: "echo in >> $W/slot; until test -e $W/free; do sleep 0.05; done; echo out >> $W/slot"}}
END
"$flowrun" holds.yaml > holds 2>&1 &
pid=$!
until_true 20 test -s slot
kill -9 $pid
wait $pid 2> /dev/null
printf 'name: waits\nnodes: [{name: n1, executor: local, slots: 1}]\nenv: {W: "${{ env.W }}"}\ntasks: {u: {run: "echo mine >> $W/slot"}}\n' > waits.yaml
"$flowrun" waits.yaml > waits 2>&1 &
pid=$!
until_true 20 holds waits "n1: connected"
"$flowrun" status > status
has "what waits for the slot" status "u@n1"
touch free
wait $pid
same "the one that waited" $? 0
same "one behind the other" "$(paste -sd ' ' slot)" "in out mine"
"$flowrun" resume 5 > out 2>&1
same "the run that was left" $? 0

# ---- one connection a node, whoever uses it
cat > many.yaml <<'END'
name: many
nodes: [{name: n1, executor: local, slots: 64}]
env: {W: "${{ env.W }}"}
tasks: {t: {run: "until test -e $W/go; do sleep 0.05; done"}}
END
pids=()
for i in 1 2 3 4 5 6; do
    "$flowrun" many.yaml -q > many.$i 2>&1 &
    pids+=($!)
done
running() { "$flowrun" runs | grep -c "many .*running"; }
until_true 30 eval 'test "$(running)" = 6'
busy() { for n in 7 8 9 10 11 12; do "$flowrun" status $n; done | grep -c '^t@n1 *running'; }
until_true 30 eval 'test "$(busy)" = 6'
pid=$(sed -n 's/^pid //p' "$FLOWRUN_HOME/host.lock")
same "one flownode serves six runs" "$(pgrep -c -P "$pid")" 1
check "the lock says who the host is" kill -0 "$pid"

# ---- another uid, another namespace: each gets its sentence
if [ "$(id -u)" = 0 ]; then
    unshare --mount "$flowrun" many.yaml > refused 2>&1
    same "another mount namespace" $? 7
    has "it says which" refused "sees other folders (it is in another mount namespace, as in a container)"
    has "and what to do" refused "set FLOWRUN_HOME to a home of your own"
fi
touch go
for p in "${pids[@]}"; do
    wait $p
    same "one of six" $? 0
done

# ---- a flowrun inside a task of the same home
cat > outer.yaml <<'END'
name: outer
env: {W: "${{ env.W }}", H: "${{ env.FLOWRUN_HOME }}", F: "${{ env.F }}"}
tasks: {nest: {run: "cd $W && FLOWRUN_HOME=$H $F inner.yaml"}}
END
printf 'name: inner\ntasks: {t: {run: "echo from inside"}}\n' > inner.yaml
F=$flowrun "$flowrun" outer.yaml > out 2>&1
same "a nested flowrun" $? 0
has "its task ran" out "nest@local | "
has "and was seen" out "t@local | from inside"
sed -i 's/^env:/nodes: [{name: n1, executor: local, slots: 1}]\nenv:/' outer.yaml
printf 'name: inner\nnodes: [{name: n1, executor: local, slots: 1}]\ntasks: {t: {run: "echo from inside"}}\n' > inner.yaml
F=$flowrun timeout 140 "$flowrun" outer.yaml > out 2>&1
same "a nested flowrun on the node whose one slot its task has" $? 0
has "it runs in that slot" out "t@n1 | from inside"
same "all are runs of the home" "$("$flowrun" runs | grep -cE '(inner|outer) .*succeeded')" 4

# ---- on another node a nested flowrun waits for a slot as all do
printf 'name: other\nnodes: [{name: n2, executor: local, slots: 1}]\nenv: {W: "${{ env.W }}"}\ntasks: {t: {run: "touch $W/has; until test -e $W/gives; do sleep 0.05; done"}}\n' > other.yaml
printf 'name: inner2\nnodes: [{name: n2, executor: local, slots: 1}]\nenv: {W: "${{ env.W }}"}\ntasks: {t: {run: "test -e $W/gives"}}\n' > inner.yaml
"$flowrun" other.yaml > other 2>&1 &
other=$!
until_true 20 test -e has
F=$flowrun timeout 140 "$flowrun" outer.yaml > out 2>&1 &
pid=$!
inner_waits() { "$flowrun" status "$("$flowrun" runs --json | sed -nE 's/.*"no":([0-9]+).*"pipeline":"inner2".*/\1/p')" | grep -qF "waits for slots of n2, 1 of 1"; }
until_true 20 inner_waits
touch gives
wait $pid
same "a nested flowrun on another node" $? 0
wait $other
same "the run that it waited for" $? 0

# ---- a run that is left takes its smaller number of slots along
printf 'name: wide\nnodes: [{name: n3, executor: local, slots: 3}]\nenv: {W: "${{ env.W }}"}\ntasks:\n' > wide.yaml
for t in a b c; do printf '  %s: {run: "touch $W/wide.%s; until test -e $W/gone; do sleep 0.05; done"}\n' $t $t; done >> wide.yaml
cat > slim.yaml <<'END'
name: slim
nodes: [{name: n3, executor: local, slots: 1}]
env: {W: "${{ env.W }}"}
tasks:
  s: {run: "true"}
  rest: {needs: [s], on: control, run: "touch $W/slim; until test -e $W/gone; do sleep 0.05; done"}
END
sed 's/^tasks.*/tasks: {keep: {on: control, run: "until test -e $W\/gone; do sleep 0.05; done"}}/; s/name: wide/name: keeps/' wide.yaml | sed '/wide\./d' > keeps.yaml
"$flowrun" keeps.yaml > keeps 2>&1 &
keeps=$!
until_true 20 test -S "$FLOWRUN_HOME/host.sock"
"$flowrun" slim.yaml > slim.out 2>&1 &
slim=$!
until_true 20 test -e slim
"$flowrun" wide.yaml > wide 2>&1 &
wide=$!
wides() { ls wide.* 2> /dev/null | grep -c 'wide\.[abc]$'; }
until_true 20 eval 'test "$(wides)" = 1'
kill -9 $slim # its task goes on elsewhere
wait $slim 2> /dev/null
until_true 20 eval 'test "$(wides)" = 3'
touch gone
wait $wide
same "the other one" $? 0
wait $keeps
same "the host of both" $? 0

# ---- the host is killed below a flowrun inside a task: that one says once that it waits
cat > outer.yaml <<'END'
name: outer
env: {W: "${{ env.W }}", H: "${{ env.FLOWRUN_HOME }}", F: "${{ env.F }}"}
tasks: {nest: {run: "cd $W && FLOWRUN_HOME=$H $F inner.yaml"}}
END
printf 'name: inner\nenv: {W: "${{ env.W }}"}\ntasks: {t: {run: "touch $W/inner; until test -e $W/go; do sleep 0.05; done; echo from inside"}}\n' > inner.yaml
rm -f go
F=$flowrun "$flowrun" outer.yaml > out 2>&1 &
pid=$!
until_true 20 test -e inner
kill -9 $pid
wait $pid 2> /dev/null
alone="has no host now, and a flowrun inside a task cannot be it"
until_true 20 grep -rqsF "$alone" "$FLOWRUN_HOME/nodes"
touch go
outer=$("$flowrun" runs --json | sed -nE 's/.*"no":([0-9]+).*"pipeline":"outer".*/\1/p' | head -1)
"$flowrun" resume "$outer" > out 2>&1
same "resumed with the flowrun inside" $? 0
has "which has waited" out "nest@local | "
has "and went on with its run" out "t@local | from inside"
same "said once" "$("$flowrun" logs "$outer" | grep -cF "$alone")" 1
rm go

# ---- a run that nobody follows any more
rm -f go
"$flowrun" many.yaml > first 2>&1 &
host=$!
until_true 20 test -S "$FLOWRUN_HOME/host.sock"
"$flowrun" many.yaml > second 2>&1 &
pid=$!
until_true 20 eval 'test "$(running)" = 2'
no() { "$flowrun" runs --json | head -1 | sed -E 's/.*"no":([0-9]+).*/\1/'; }
last=$(no)
until_true 20 eval '"$flowrun" status $last | grep -q "^t@n1 *running"'
kill -9 $pid
wait $pid 2> /dev/null
until_true 30 eval '"$flowrun" status $last | grep -q "left"'
"$flowrun" resume $last > third 2>&1 &
pid=$!
until_true 30 eval '"$flowrun" status $last | grep -q ": running"'
touch go
wait $pid
same "resumed over the host" $? 0
wait $host
same "the host's own" $? 0
same "nothing is left running" "$(left)" ""

# ---- Ctrl-C once in a follower while its host is stopped, then killed: who takes over stops the tasks
rm -f go
printf 'name: stops\ntasks: {t: {run: "echo begun; exec sleep 600"}}\n' > stops.yaml
rm -f first second third
"$flowrun" many.yaml > first 2>&1 &
host=$!
until_true 20 holds first "connected"
set -m # so that SIGINT is not ignored in the background
"$flowrun" stops.yaml > second 2>&1 &
pid=$!
set +m
until_true 20 holds second "t@local | begun"
last=$(no)
kill -STOP $host
until_true 10 holds second "the host of this home (pid $host) is stopped"
"$flowrun" stops.yaml > third 2>&1 & # it waits for the answer
third=$!
until_true 10 holds third "(pid $host) is stopped"
kill -CONT $host
until_true 10 holds second "the host goes on"
"$flowrun" cancel $((last + 1)) > out 2>&1
wait $third
same "the one that waited was submitted, and cancelled" $? 3
kill -STOP $host
kill -INT $pid
until_true 20 holds second "stopping all tasks of run $last"
kill -9 $host
wait $pid
same "the run is cancelled" $? 3
wait $host 2> /dev/null
"$flowrun" cancel $((last - 1)) > out 2>&1
same "the host's own, too" $? 0

# ---- a host whose run is over, and whose reader does not read, is the host no more
mkfifo pipe
exec 8<> pipe
printf 'name: loud\ntasks: {t: {run: "seq 60000"}}\n' > loud.yaml
printf 'name: quiet\ntasks: {t: {run: "true"}}\n' > quiet.yaml
"$flowrun" loud.yaml > pipe 2>&1 &
own=$!
until_true 20 eval '"$flowrun" runs --json -n 1 | grep -q "\"pipeline\":\"loud\".*\"state\":\"succeeded\""'
"$flowrun" quiet.yaml > out 2>&1
same "another one is the host" $? 0
check "while it waits for its reader" kill -0 $own
exec 8>&-
wait $own 2> /dev/null

# ---- a full disk under the home: a submit is refused, the host lives and goes on
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=6m tmpfs small 2> /dev/null; then
    trap 'umount -l "$work/small"; cleanup' EXIT
    export FLOWRUN_HOME=$work/small/home
    rm -f go
    printf 'name: one\ntasks: {t: {run: "echo hello"}}\n' > one.yaml
    "$flowrun" many.yaml > own 2>&1 &
    host=$!
    until_true 20 holds own "connected"
    cat /dev/zero > small/fill 2> /dev/null
    "$flowrun" one.yaml > out 2>&1
    same "a submit to a full disk" $? 7
    has "it says so" out "No space left on device"
    touch go
    until_true 20 holds own "the state cannot be written, so nothing is started"
    rm small/fill
    "$flowrun" one.yaml > out 2>&1
    same "a submit when there is room again" $? 0
    wait $host
    same "the host's own run" $? 0
fi
finish
