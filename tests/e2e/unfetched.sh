#!/bin/bash
# A host is killed between the commit of its run's end and the last output of it, which is then on its
# node alone: logs says so; the next host fetches it, whatever that one is there for; once a host has given
# up, resume fetches it. usage: unfetched.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
export FLOWRUN_LIBEXEC=$build/tasks
# 20 MB that the host cannot read while it is stopped: their end comes before them when it goes on.
cat > p.yaml <<'END'
name: p
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  t: {run: "touch $W/begun; until test -e $W/write; do sleep 0.02; done; seq 2600000; touch $W/wrote", on: n1}
END
cat > waits.yaml <<'END'
name: waits
env: {W: "${{ env.W }}"}
tasks: {t: {run: "until test -e $W/go; do sleep 0.05; done"}}
END
sql() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1] + "/state.db", isolation_level=None).execute(sys.argv[2]): print(*row)' "$FLOWRUN_HOME" "$1"; }
state() { sql "SELECT min(done), max(host) FROM attempt a JOIN run r ON r.id = a.run WHERE r.no = $no"; }
# Kills the process as soon as the store has the end of the run.
kill_at_end() { # PID NUMBER
    python3 - "$FLOWRUN_HOME" "$@" <<'END'
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/state.db", isolation_level=None)
while db.execute("SELECT state FROM run WHERE no = ?", (sys.argv[3],)).fetchone() != ("over",):
    pass
os.kill(int(sys.argv[2]), 9)
END
}
stopped() { grep -q '^State:.*T' "/proc/$1/status"; }
ended() { ! pgrep -f "$W/write" > /dev/null; }
# A run whose host is killed at that point, or a moment too late; its number is no.
lose_once() {
    rm -f begun write wrote
    nice "$flowrun" p.yaml > lost 2>&1 &
    pid=$!
    until_true 20 test -e begun
    no=$("$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/')
    kill -STOP $pid
    until_true 20 stopped $pid
    touch write
    until_true 60 test -e wrote
    until_true 20 ended
    kill_at_end $pid $no &
    kill -CONT $pid
    wait $!
    wait $pid
}
lose() {
    for _ in 1 2 3 4 5; do
        lose_once 2> /dev/null
        test "$(state)" != "0 $(sql "SELECT epoch FROM home")" || break
    done
    same "run $no is over" "$(sql "SELECT outcome FROM run WHERE no = $no")" succeeded
    "$flowrun" logs $no > now 2> says
    same "logs of what is here" $? 0
    check "which is not all" test "$(lines now)" -lt 2600000
    has "it says so" says "not all output of run $no is here, some is still on its nodes; 'flowrun resume $no' fetches it"
}
is_whole() { "$flowrun" logs $no > now 2> says && test "$(lines now)" = 2600000 && ! test -s says; }

# ---- the next host has a run of its own
lose
"$flowrun" waits.yaml > own 2>&1 &
own=$!
until_true 30 is_whole
check "in its order" cmp -s <(sed 's/^t | //; s/^t@n1 | //' now) <(seq 2600000)
touch go
wait $own
same "the other run" $? 0
same "nothing is left to fetch" "$(state)" "1 0"
hasnt "it shows its own output alone" own "t@n1 |"
"$flowrun" resume $no > out 2>&1
same "nothing is to be resumed: it ends as the run did" $? 0
has "as it is over" out "run $no is over (succeeded): there is nothing to resume"

# ---- one gave up: no other tries by itself, resume does
lose
sql "UPDATE run SET host = 0 WHERE no = $no"
"$flowrun" waits.yaml > own 2>&1
same "the other run again" $? 0
same "nobody fetched" "$(state)" "0 0"
"$flowrun" resume $no > out 2>&1
same "resume fetches" $? 0
check "all of it" is_whole
has "and shows what came" out "t@n1 | 2600000"
same "nothing is left to fetch" "$(state)" "1 0"

# ---- a host that stays, and one that is asked to fetch
lose
"$flowrun" serve > serve 2>&1 &
serve=$!
until_true 30 is_whole
kill $serve
wait $serve
lose
sql "UPDATE run SET host = 0 WHERE no = $no"
rm -f serve
"$flowrun" serve > serve 2>&1 &
serve=$!
until_true 20 holds serve "is the host"
"$flowrun" resume $no > out 2>&1
same "over a host" $? 0
has "which shows what came" out "t@n1 | 2600000"
check "all of it" is_whole
kill $serve
wait $serve
same "nothing is left running" "$(left)" ""
finish
