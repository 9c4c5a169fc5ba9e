#!/bin/bash
# Secrets of variables live in the memory of the host alone. When it is killed, the next one has those of
# its own shell and asks those of whoever follows: a start that lacks one waits and says for what, goes on
# once a shell gives it (a follower, attach, resume), and fails when nobody does in time.
# What waits holds no slot: the others of its run and those of other runs go on in the node's only one.
# usage: secret_wait.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir home
cat > p.yaml <<'END'
name: p
nodes: [{name: n1, executor: local, slots: 1}]
params: {who: {default: x}}
env: {W: "${{ env.W }}", WHO: "${{ params.who }}"}
secrets: {token: {env: TOKEN}}
tasks:
  first: {run: "touch $W/first.$WHO; until test -e $W/go.$WHO; do sleep 0.05; done"}
  second:
    needs: [first]
    env: {T: "${{ secrets.token }}"}
    run: "test \"$T\" = \"s3cr3t-$WHO\" && echo right $WHO"
  third: {needs: [first], run: "touch $W/third.$WHO"}
END
printf 'name: other\nenv: {W: "${{ env.W }}"}\ntasks: {t: {run: "until test -e $W/end; do sleep 0.05; done"}}\n' > other.yaml
no() { "$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/'; }
waits="waits for secret 'token': no shell that follows the run has the variable TOKEN; 'flowrun resume"
begun() { # WHO: a run in the first task; its flowrun is pid, its number run
    TOKEN=s3cr3t-$1 "$flowrun" p.yaml -p who="$1" > "out.$1" 2>&1 &
    pid=$!
    until_true 20 test -e "first.$1"
    run=$(no)
}
killed() {
    kill -9 "$1"
    wait "$1" 2> /dev/null
}
waiting() { "$flowrun" status "$1" | grep -F "second@n1" | grep -F "  waiting  " | grep -qF "$waits"; }

# ---- a host that lacks the variable takes over; a follower that has it gives it
begun a
host=$pid
TOKEN=s3cr3t-a "$flowrun" attach "$run" > attached 2>&1 &
attach=$!
killed "$host"
"$flowrun" resume "$run" > resumed 2>&1 &
host=$!
until_true 20 eval '"$flowrun" status $run | grep -q ": running"'
touch go.a
wait $host
same "the run, given the secret by attach" $? 0
wait $attach
same "what attach shows" $? 0
has "its task had it" resumed "second@n1 | right a"

# ---- nobody has it: the start waits and says so; a resume from a shell that has it goes on
begun b
killed "$pid"
rm -f resumed
"$flowrun" resume "$run" > resumed 2>&1 &
host=$!
touch go.b
until_true 20 waiting "$run"
until_true 20 holds resumed "second@n1 waiting: $waits $run' where it is set goes on, until "
"$flowrun" status "$run" --json > status
check "as JSON, too" python3 -c '
import json
rows = {r["task"]: r for r in json.load(open("status"))["tasks"]}
assert rows["second"]["state"] == "waiting" and rows["second"]["attempts"] == 0 and "TOKEN" in rows["second"]["reason"], rows'
until_true 20 test -e third.b
printf 'name: beside\nnodes: [{name: n1, executor: local, slots: 1}]\ntasks: {t: {run: "echo beside"}}\n' > beside.yaml
timeout 140 "$flowrun" beside.yaml > beside 2>&1
same "another run in the slot that it does not hold" $? 0
check "it still waits" waiting "$run"
"$flowrun" resume "$run" > lacks 2>&1 &
lacks=$!
until_true 20 holds lacks "second@n1"
TOKEN=s3cr3t-b "$flowrun" resume "$run" > gives 2>&1
same "resumed where it is set" $? 0
has "and goes on" gives "second@n1 | right b"
wait $host
same "the one that waited" $? 0
has "which says that it goes on" resumed "second@n1 | right b"
wait $lacks
same "another follower without it" $? 0

# ---- the host of others: its own run ends elsewhere, a follower takes over with its own variable
"$flowrun" other.yaml > other 2>&1 &
host=$!
until_true 20 test -S home/host.sock
begun c
killed "$host"
touch go.c
wait "$pid"
same "the follower is the next host, and has it" $? 0
has "its task had it" out.c "second@n1 | right c"
touch end

# ---- serve takes a run up without any shell: it waits there; a cancel ends it
"$flowrun" serve > serve 2>&1 &
serve=$!
until_true 20 test -S home/host.sock
begun d
killed "$serve"
killed "$pid"
"$flowrun" serve > serve 2>&1 &
serve=$!
touch go.d
until_true 20 waiting "$run"
"$flowrun" cancel "$run" > out 2>&1
same "cancelled while it waits" $? 0
has "nothing was started" out "cancelled"

# ---- a variable that is env, too: the newest shell's value is the secret's, that of env stays
cat > both.yaml <<'END'
name: both
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}", PLAIN: "${{ env.TOKEN }}"}
secrets: {token: {env: TOKEN}}
tasks:
  first: {run: "touch $W/first.both; until test -e $W/go.both; do sleep 0.05; done"}
  second: {needs: [first], env: {T: "${{ secrets.token }}"}, run: "test $T = later && test $PLAIN = sooner"}
END
TOKEN=sooner "$flowrun" both.yaml > out.both 2>&1 &
pid=$!
until_true 20 test -e first.both
run=$(no)
rm -f gives
TOKEN=later "$flowrun" resume "$run" > gives 2>&1 &
gives=$!
until_true 20 holds gives "run $run ("
until_true 20 eval '"$flowrun" status $run | grep -q "first@n1 *running"'
rm -f attached
TOKEN=later timeout 140 "$flowrun" attach "$run" > attached 2>&1 &
attach=$!
until_true 20 holds attached "run $run ("
touch go.both
wait $pid
same "the secret of the shell that came later" $? 0
wait $gives
wait $attach

# ---- the limit
kill $serve
wait $serve
printf 'limits: {secret_wait: 1s}\n' > home/config.yaml
begun e
killed "$pid"
touch go.e
"$flowrun" resume "$run" > out 2>&1
same "nobody gives it in time" $? 1
has "with the limit" out "secret 'token': the variable TOKEN is not set in a shell that follows the run, and was not given within 1.0s (limits.secret_wait)"

# ---- no secret is in the home, nor one on a command line
for who in a b c d e; do
    same "s3cr3t-$who is nowhere in the home" "$(grep -rlF "s3cr3t-$who" home)" ""
done
same "nothing is left running" "$(left)" ""
finish
