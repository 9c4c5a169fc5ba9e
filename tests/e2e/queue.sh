#!/bin/bash
# Runs beyond max_active_runs wait in the queue: one behind the other, the larger priority first; one
# that nobody follows stays queued; the next host admits what the one before left; a cancel ends it; the
# limits of the home. usage: queue.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
export FLOWRUN_LIBEXEC=$build/tasks
mkdir home

pipeline() { # NAME LIMIT
    cat > "$1.yaml" <<END2
name: $1
$2
params: {who: {default: x}}
env: {W: "\${{ env.W }}", WHO: "\${{ params.who }}"}
tasks:
  t: {run: "echo \$WHO in >> \$W/order; until test -e \$W/go.\$WHO; do sleep 0.02; done; echo \$WHO out >> \$W/order"}
on_exit: [{name: hook, run: "echo \$WHO hook >> \$W/hooks"}]
on_cancel: [{name: cancelled, run: "echo \$WHO hook >> \$W/hooks"}]
END2
}
pipeline p "max_active_runs: 1"
pipeline free ""
order() { paste -sd ' ' order; }
word() { "$flowrun" runs --json | python3 -c 'import json, sys; print(*[d["state"] for d in map(json.loads, sys.stdin) if d["no"] == int(sys.argv[1])])' "$1"; }
is() { [ "$(word "$1")" = "$2" ]; }
start() { # NAME WHO [OPTION…]: pid, its output in out.WHO
    "$flowrun" "$1.yaml" -p who="$2" "${@:3}" > "out.$2" 2>&1 &
    pid=$!
}

# ---- two shells: one behind the other; a host, a follower, one more with a larger priority
start p a
a=$pid
until_true 20 is 1 running
start p b
b=$pid
until_true 20 is 2 queued
start p c --priority 5
c=$pid
until_true 20 is 3 queued
until_true 20 holds out.b "queued"
has "the follower says why it waits" out.b "run 2 is queued: max_active_runs 1 of 1: run 1 of p since "
"$flowrun" status 2 > status
has "status says it, too" status "of p: queued: max_active_runs 1 of 1: run 1 of p since "
"$flowrun" runs > runs
same "runs, too" "$(grep -c "queued .*max_active_runs 1 of 1: run 1 of p since" runs)" 2
"$flowrun" queue > queue
same "the queue, in the order in which they start" "$(sed 1d queue | awk '{print $1 ":" $2}' | paste -sd ' ')" "1:3 2:2"
has "with the reason" queue "max_active_runs 1 of 1: run 1 of p since "
check "the queue as JSON" "$flowrun" queue --json > queue.json
check "has the same" python3 -c '
import json
rows = [json.loads(l) for l in open("queue.json")]
assert [(r["place"], r["no"], r["priority"]) for r in rows] == [(1, 3, 5), (2, 2, 0)], rows
assert all(r["why_waiting"].startswith("max_active_runs 1 of 1: run 1 of p since ") and r["driven"] for r in rows), rows'
has "and that nothing was started" status "started -"
"$flowrun" queue 2 --priority 9 > queue
same "a larger priority than the first's" "$(sed 1d queue | awk '{print $1 ":" $2 ":" $4}' | paste -sd ' ')" "1:2:9 2:3:5"
"$flowrun" queue 2 --priority=-1 > queue
same "and the least" "$(sed 1d queue | awk '{print $1 ":" $2 ":" $4}' | paste -sd ' ')" "1:3:5 2:2:-1"
"$flowrun" queue 1 --priority 9 > out 2>&1
same "of a run that goes on" $? 2
has "is no priority" out "run 1 does not wait in the queue: it is running"
"$flowrun" queue 2 > out 2>&1
same "a run without a priority" $? 2
"$flowrun" queue 2 --priority high > out 2>&1
same "one that is no number" $? 2
"$flowrun" p.yaml --priority high > out 2>&1
same "a priority that is no number" $? 2
touch go.a go.b go.c
wait $a
same "the first" $? 0
wait $b
same "of its node is told once, whichever host has it" "$(grep -c "local: connected" out.b)" 1
same "the second" $? 0
wait $c
same "the third" $? 0
same "by priority" "$(order)" "a in a out c in c out b in b out"

# ---- the host is killed while a run is queued: the next one admits it
: > order
rm go.*
start free host
host=$pid
until_true 20 is 4 running
start p d
d=$pid
until_true 20 is 5 running
start p e
e=$pid
until_true 20 is 6 queued
kill -9 $host
wait $host 2> /dev/null
next_host() { [ "$(sed -n 's/^pid //p' home/host.lock)" != "$host" ]; }
until_true 20 next_host
check "still queued" is 6 queued
touch go.d go.e
wait $d
same "the active one" $? 0
wait $e
same "the queued one" $? 0
touch go.host
"$flowrun" resume 4 > out 2>&1
same "the run that was left" $? 0
same "both, in this order" "$(grep -v host order | paste -sd ' ')" "d in d out e in e out"

# ---- a run that nobody looks after is active: it keeps its slot until somebody ends it
: > order
rm go.*
start p f
f=$pid
until_true 20 is 7 running
until_true 20 holds order "f in"
start p g
g=$pid
until_true 20 is 8 queued
kill -9 $f
wait $f 2> /dev/null
until_true 20 eval '"$flowrun" status 8 | grep -q "no flowrun looks after run 7"'
"$flowrun" status 8 > status
has "why names what to do" status "no flowrun looks after run 7: 'flowrun resume 7' takes over"
touch go.f go.g
"$flowrun" resume 7 > out 2>&1
same "resumed" $? 0
wait $g
same "then the queued one" $? 0
same "one behind the other" "$(order)" "f in f out g in g out"

# ---- left and cancelled
: > order
: > hooks
rm go.*
start p h
h=$pid
until_true 20 is 9 running
start p i
i=$pid
until_true 20 is 10 queued
until_true 20 holds out.i "queued"
kill -HUP $i
wait $i
same "the queued one is left" $? 4
has "it says so" out.i "run 10 stays queued"
"$flowrun" cancel 10 > out 2>&1
same "a queued run is cancelled" $? 0
same "its end" "$(word 10)" cancelled
start p j
j=$pid
until_true 20 is 11 queued
kill -INT $j
wait $j
same "by Ctrl-C" $? 3
touch go.h
wait $h
same "the active one goes on" $? 0
same "nothing of the cancelled ones ran" "$(paste -sd ' ' order hooks)" "h in h out
h hook"
start p k
k=$pid
touch go.k
wait $k
same "the slot is free" $? 0
rm go.k
: > order
"$flowrun" retry 10 > out 2>&1 &
pid=$!
touch go.i
wait $pid
same "a cancelled one is tried again" $? 0
same "with its hooks" "$(tail -n 1 hooks)" "i hook"

# ---- limits of the home
rm go.*
printf 'limits: {max_active_runs: 1, max_queued: 1}\n' > home/config.yaml
start free l
l=$pid
until_true 20 is 13 running
start free m
m=$pid
until_true 20 is 14 queued
"$flowrun" status 14 > status
has "why" status "limits.max_active_runs 1 of 1: run 13 of free since "
"$flowrun" free.yaml > out 2>&1
same "the queue is full" $? 5
has "it says so" out "the queue of this home is full: 1 runs wait (limits.max_queued is 1 in config.yaml)"
touch go.l go.m
wait $l
wait $m
same "the queued one" $? 0
# ---- a host that stays reads them again
"$flowrun" serve > serve 2>&1 &
serve=$!
until_true 20 test -S home/host.sock
start free n
n=$pid
until_true 20 is 15 running
start free o
o=$pid
until_true 20 is 16 queued
printf 'limits: {max_active_runs: none}\n' > home/config.yaml
kill -HUP $serve
until_true 20 holds serve "the configuration stays as it was"
same "still queued" "$(word 16)" queued
printf 'limits: {max_active_runs: 2}\n' > home/config.yaml
kill -HUP $serve
until_true 20 is 16 running
touch go.n go.o
wait $n
wait $o
same "under a host that stays" $? 0
kill $serve
wait $serve

# ---- a retry waits its turn, as a new run does
rm -f go.*
: > order
start p q
q=$pid
until_true 20 holds order "q in"
last=$("$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/')
"$flowrun" retry 10 --from t > retried 2>&1 &
pid=$!
until_true 20 is 10 queued
until_true 20 holds retried "run 10 is queued: max_active_runs 1 of 1: run $last of p since "
kill -9 $q # its host: the follower that waits is the next one
wait $q 2> /dev/null
touch go.q go.i
"$flowrun" resume "$last" > out 2>&1
same "the active one" $? 0
wait $pid
same "the retry behind it" $? 0
same "one behind the other" "$(order)" "q in q out i in i out"
rm -f go.*

# ---- the queue is cleared: what runs goes on
: > order
start p r
r=$pid
until_true 20 holds order "r in"
start p s
s=$pid
start p t
t=$pid
two_wait() { [ "$("$flowrun" queue | sed 1d | wc -l)" = 2 ]; }
until_true 20 two_wait
"$flowrun" queue clear another > out
same "of a pipeline that has none there" "$? $(cat out)" "0 no run of another is queued"
"$flowrun" queue empty > out 2>&1
same "a wrong word" "$? $(cat out)" "2 flowrun: 'empty' is not known of the queue; expected clear [PIPELINE], or RUN --priority N"
"$flowrun" queue clear p > out
same "cleared" "$? $(grep -c 'is cancelled: 0 tasks stopped' out)" "0 2"
wait $s
same "the first that waited" $? 3
wait $t
same "the second" $? 3
same "none waits" "$("$flowrun" queue clear --json)" ""
touch go.r
wait $r
same "what ran goes on" "$? $(order)" "0 r in r out"
rm -f go.*

# ---- pipelines that share a pool of the home
printf 'pools: {gpu-a: 1}\n' > home/config.yaml
pipeline one "pool: gpu-a"
pipeline two "pool: gpu-a"
pipeline none "pool: gpu-b"
: > order
start free w # in no pool: it takes no place
w=$pid
until_true 20 holds order "w in"
start one u
u=$pid
until_true 20 holds order "u in"
start two v
v=$pid
until_true 20 holds out.v "is queued: pool gpu-a 1 of 1: run "
has "whose run it is" out.v " of one since "
"$flowrun" api pools > pools
has "the pool" pools '"name":"gpu-a","limit":1,"used":1,"runs":['
has "and who waits" pools '"waiting":1'
"$flowrun" none.yaml -p who=x > out 2>&1
same "of a pool that is not there" $? 2
has "it is named" out "pool 'gpu-b' of pipeline 'none' is not among pools: of this home's config.yaml"
mv home/config.yaml away.yaml
has "a pool that went meanwhile" <("$flowrun" queue) "pool gpu-a, which is not among pools: of config.yaml"
mv away.yaml home/config.yaml
touch go.u
wait $u
same "the first" $? 0
until_true 20 holds order "v in"
touch go.v
wait $v
same "the second behind it" "$? $(order)" "0 w in u in u out v in v out"
touch go.w
wait $w
same "the one beside them" $? 0
rm -f go.* home/config.yaml

# ---- a flowrun inside a task does not wait for the run that it is of
printf 'limits: {max_active_runs: 1}\n' > home/config.yaml
cat > outer.yaml <<'END2'
name: outer
env: {W: "${{ env.W }}", H: "${{ env.FLOWRUN_HOME }}", F: "${{ env.F }}"}
tasks: {nest: {run: "cd $W && touch go.z && FLOWRUN_HOME=$H $F free.yaml -p who=z"}}
END2
F=$flowrun timeout 140 "$flowrun" outer.yaml > out 2>&1
same "a nested flowrun" $? 0
has "its run was not queued" out "hook@control succeeded"
rm home/config.yaml
"$flowrun" queue > queue
same "an empty queue" "$(cat queue)" "no run is queued"

# ---- priority also decides who gets a slot, and status names who has it
: > order
cat > slots.yaml <<'END2'
name: slots
params: {who: {default: x}}
nodes: [{name: n1, executor: local, slots: 1}]
env: {W: "${{ env.W }}", WHO: "${{ params.who }}"}
tasks:
  a: {run: "echo $WHO >> $W/order; until test -e $W/go.$WHO; do sleep 0.02; done"}
  b: {run: "echo $WHO >> $W/order"}
END2
rm -f go.*
ids() { "$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/'; }
start slots low
low=$pid
until_true 20 holds order low
first=$(ids)
start slots next
next=$pid
until_true 20 is $((first + 1)) running
start slots high --priority 3
high=$pid
until_true 20 is $((first + 2)) running
waits() { "$flowrun" status $((first + 2)) | grep -F "waits for slots of n1, 1 of 1: a@n1 of run $first"; }
until_true 20 waits
touch go.low go.next go.high
wait $low
same "the first run" $? 0
wait $next
same "the second" $? 0
wait $high
same "the one with a priority" $? 0
same "it has all slots before those that came earlier" "$(sed -n 1,3p order | paste -sd ' ')" "low high high"

# ---- a gang collects slots: what waits says for whom free ones are kept, and the gang what it keeps
cat > gang.yaml <<'END2'
name: gang
params: {who: {default: x}}
nodes: [{name: n1, executor: local, slots: 2}, {name: n2, executor: local, slots: 2}]
env: {W: "${{ env.W }}"}
tasks:
  long: {on: n2, run: "touch $W/long; until test -e $W/go.long; do sleep 0.02; done"}
  train: {on: all, gang: true, slots: 2, run: "true"}
END2
cat > small.yaml <<'END2'
name: small
params: {who: {default: x}}
nodes: [{name: n1, executor: local, slots: 2}]
tasks: {t: {run: "true"}}
END2
start gang gang
gang=$pid
until_true 20 test -e long
no=$(ids)
of_gang() { "$flowrun" status $no | grep -F "train@n1" | grep -qF "waits for slots of n2, 1 of 2: long@n2 of run $no; it keeps free slots meanwhile: 2 of n1, 1 of n2"; }
until_true 20 of_gang
start small small
small=$pid
of_small() { "$flowrun" status $((no + 1)) | grep -F "t@n1" | grep -qF "waits for slots of n1, 0 of 2; free ones are kept for the gang train of run $no (2)"; }
until_true 20 of_small
touch go.long
wait $gang
same "the gang" $? 0
wait $small
same "what waited behind it" $? 0

# ---- a gang that gets ready is lent its slots though nothing else happens on the machine
cat > later.yaml <<'END2'
name: later
params: {who: {default: x}}
nodes: [{name: n1, executor: local, slots: 2}]
env: {W: "${{ env.W }}"}
tasks:
  zero: {on: n1, run: "true"}
  first: {needs: [zero], on: control, run: "touch $W/first; until test -e $W/go.first; do sleep 0.02; done"}
  train: {needs: [first], on: all, gang: true, run: "touch $W/train"}
END2
rm -f go.long long first
sed 's/on: n2/on: n1/; /train/d' gang.yaml > long.yaml
start long long
long=$pid
until_true 20 test -e long
start later later
later=$pid
until_true 20 test -e first
touch go.first
until_true 20 test -e train
touch go.long
wait $later
same "the gang behind a task elsewhere" $? 0
wait $long
same "the one that went on" $? 0

printf 'limits: {max_active: 1}\n' > home/config.yaml
"$flowrun" free.yaml > out 2>&1
same "a wrong configuration" $? 2
has "names its place" out "config.yaml:1:10: limits has no key 'max_active'"
finish
