#!/bin/bash
# The home lies behind symbolic links: the last folder is one, a folder above it is one, or both.
# Runs, their logs, requests of another process and a resume work; a link inside is still refused.
. "$(dirname "$0")/lib.sh"
begin "$1"

mkdir -p disk/state disk/homes
ln -s disk/state link        # the home itself
ln -s disk/homes up          # a folder above it
ln -s ../../disk disk/homes/back # both, and through a relative link

cat > p.yaml <<'END_OF_FILE'
nodes: [{name: n1, executor: local}, {name: n2, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  a: {on: all, gang: true, run: "echo one >> a; echo v=1 >> $FLOWRUN_OUTPUT; until test -e $W/go; do sleep 0.05; done", outputs: [v]}
  b: {needs: [a], run: "echo two"}
END_OF_FILE

for home in link up/new up/back/state2/deep; do
    export FLOWRUN_HOME=$work/$home
    rm -f go
    start p.yaml
    pid=$!
    until_true 20 holds out "a@n2 running"
    "$flowrun" status > status 2>&1
    same "$home: status" $? 0
    has "$home: it is shown" status "running"
    kill -9 "$pid"
    wait "$pid" 2> /dev/null
    start resume
    pid=$!
    touch go
    wait "$pid"
    same "$home: resume" $? 0
    "$flowrun" logs 1 b > logs 2>&1
    same "$home: logs" $? 0
    has "$home: its output" logs "two"
    start p.yaml
    pid=$!
    wait "$pid"
    same "$home: a second run" $? 0
done
check "the state is where the link leads" test -f disk/state/state.db
check "and for the folder above" test -f disk/homes/new/state.db

# A link inside the home is nobody's but a stranger's.
export FLOWRUN_HOME=$work/link
mv disk/state/spool aside
ln -s "$work/aside" disk/state/spool
"$flowrun" p.yaml > out 2>&1
same "a link inside: exit code" $? 7
has "a link inside is refused" out "$work/disk/state/spool is a symbolic link, which flowrun has not made: remove it"
same "nothing is left running" "$(left)" ""
finish
