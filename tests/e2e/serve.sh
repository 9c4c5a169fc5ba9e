#!/bin/bash
# A host that stays: runs go on without followers, over its SIGTERM and its death; one a home.
# usage: serve.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"

serve() {
    "$flowrun" serve > served.$1 2>&1 &
    host=$!
    until_true 20 test -S "$FLOWRUN_HOME/host.sock"
}
state() { "$flowrun" status "$1" | head -1 | sed 's/.*: //'; }
is() { "$flowrun" status "$1" | head -1 | grep -q ": $2"; }

cat > p.yaml <<'END'
name: p
env: {W: "${{ env.W }}", FROM: "${{ env.FROM }}"}
secrets: {s: {env: PLANTED}}
tasks:
  first: {run: "echo first >> $W/ran; until test -e $W/go; do sleep 0.05; done", env: {S: "${{ secrets.s }}"}}
  then: {needs: [first], run: "echo then $FROM $MINE $S >> $W/ran; echo path $PATH", env: {S: "${{ secrets.s }}"}}
END
serve 1
has "it says what it is" served.1 "this is the host of $FLOWRUN_HOME"
"$flowrun" serve > second 2>&1
same "a second one" $? 5
has "it is told who is" second "another flowrun (pid $host) is the host of"

# ---- a follower that dies: the run goes on, with the follower's shell
mkdir bin
FROM=shell PLANTED=tiger PATH=$work/bin:$PATH "$flowrun" p.yaml > out 2>&1 &
pid=$!
until_true 20 test -s ran
kill -9 $pid
wait $pid 2> /dev/null
touch go
until_true 30 is 1 succeeded
same "both tasks ran, with that shell's variables" "$(paste -sd ' ' ran)" "first then shell tiger"
"$flowrun" logs 1 then > log
has "and its PATH" log "path $work/bin:"
check "the secret is nowhere in the home" eval '! grep -rqa tiger "$FLOWRUN_HOME"'

# ---- SIGTERM: tasks go on, the next host goes on with the run
rm -f go ran
FROM=two PLANTED=tiger "$flowrun" p.yaml > out 2>&1 &
pid=$!
until_true 20 test -s ran
kill -TERM $host
wait $host
same "SIGTERM" $? 0
touch go
wait $pid # it takes its run over
same "its follower goes on" $? 0
has "and shows the end" out "run 2 succeeded"

# ---- kill -9 without followers: the next one goes on
rm -f go ran
serve 2
printf 'name: q\nenv: {W: "${{ env.W }}"}\ntasks:\n  first: {run: "echo first >> $W/ran; until test -e $W/go; do sleep 0.05; done"}\n  then: {needs: [first], run: "echo then >> $W/ran"}\n' > q.yaml
"$flowrun" q.yaml > out 2>&1 &
pid=$!
until_true 20 test -s ran
kill -9 $pid
kill -9 $host
wait $pid $host 2> /dev/null
touch go
serve 3
until_true 30 is 3 succeeded
same "each ran once" "$(paste -sd ' ' ran)" "first then"

# ---- what its user left is not woken
rm -f go ran
kill -TERM $host
wait $host
"$flowrun" q.yaml > out 2>&1 &
pid=$!
until_true 20 test -s ran
kill -TERM $pid
wait $pid
same "left" $? 4
serve 4
touch go
"$flowrun" runs > runs
has "it stays left" runs "left"
"$flowrun" resume 4 > out 2>&1
same "until it is resumed" $? 0

# ---- a queued run that nobody follows: it starts in its turn
rm -f go ran
sed 's/^name: q/name: one\nmax_active_runs: 1/' q.yaml > one.yaml
"$flowrun" one.yaml > first 2>&1 &
first=$!
until_true 20 test -s ran
"$flowrun" one.yaml > second 2>&1 &
second=$!
until_true 20 is 6 queued
kill -9 $second
"$flowrun" one.yaml > third 2>&1 &
third=$!
until_true 20 is 7 queued
kill -TERM $third
wait $third $second 2> /dev/null
kill -TERM $host
wait $host
touch go
wait $first # it was the host meanwhile, of its own run alone
same "the one that was followed" $? 0
check "they wait" is 6 queued
serve 5
until_true 30 is 7 succeeded
check "also the one whose shell was killed" is 6 succeeded
kill -TERM $host
wait $host
same "nothing is left running" "$(left)" ""
finish
