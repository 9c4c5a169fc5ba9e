#!/bin/bash
# A store that cannot be written: read-only, and locked by another process. A run that would begin
# says so and leaves nothing, one that is under way waits and goes on, and status is always told.
. "$(dirname "$0")/lib.sh"
begin "$1"

# Two tasks, the first of which waits for the file $1.
pipeline() {
    printf 'name: p\nnodes: [{name: n1, executor: local}]\nenv: {W: "${{ env.W }}"}\ntasks:\n' > p.yaml
    printf '  a: {run: "echo $FLOWRUN_ATTEMPT >> $W/ran; echo x; until test -e $W/%s; do sleep 0.1; done"}\n' "$1" >> p.yaml
    echo '  b: {needs: [a], run: "echo $FLOWRUN_ATTEMPT >> $W/ran"}' >> p.yaml
}

cat > lock.py <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
open("locked", "w").close()
sys.stdin.readline()
db.execute("ROLLBACK")
END
mkfifo hold

# Takes the store until release.
lock() {
    python3 lock.py home/state.db < hold &
    locker=$!
    exec 5> hold
    until_true 20 test -e locked
}
release() {
    exec 5>&-
    wait "$locker"
    rm locked
}

# says WHAT CODE TEXT ARGUMENT…: flowrun ends with that code, and has said the text.
says() {
    local what=$1 code=$2 text=$3
    shift 3
    "$flowrun" "$@" > out 2>&1
    same "$what: exit code" $? "$code"
    has "$what" out "$text"
}

runs() { "$flowrun" runs 2>&1 | sed 1d | wc -l; }

touch first
pipeline first
"$flowrun" p.yaml --quiet > out 2>&1
same "a run" $? 0

lock
says "locked, a run begins" 5 "$work/home/state.db: writing: database is locked" p.yaml
says "locked, status" 0 "succeeded" status
says "locked, a run that is over is cancelled" 0 "there is nothing to stop" cancel 1
says "locked, a run that is over runs again" 5 "database is locked" retry 1 --from a
release
same "nothing is stored of it" "$(runs)" 1
same "nothing of it ran" "$(lines ran)" 2

pipeline second
start p.yaml
pid=$!
until_true 20 holds out "a@n1 | x"
lock
touch second
until_true 30 holds out "the state cannot be written, so nothing is started"
has "it says why" out "database is locked"
same "nothing is started meanwhile" "$(lines ran)" 3
"$flowrun" status > status 2>&1
has "status of the run that waits" status "running"
release
wait "$pid"
same "the run that waited: exit code" $? 0
has "it goes on" out "the state can be written again"
same "each ran once" "$(sort ran | uniq | wc -l) $(lines ran)" "4 4"

# flowrun is killed while the store is locked; resume takes over when it is not
pipeline third
start p.yaml
pid=$!
until_true 20 holds out "a@n1 | x"
lock
kill -9 "$pid"
wait "$pid" 2> /dev/null
says "locked, resume" 5 "database is locked" resume
release
touch third
"$flowrun" resume > out 2>&1
same "resume: exit code" $? 0
same "each ran once, also then" "$(sort ran | uniq | wc -l) $(lines ran)" "6 6"

# read-only: a disk that the kernel took away; whoever writes says so, whoever reads is told
if mkdir small && mount -t tmpfs -o size=5m tmpfs small 2> /dev/null; then
    trap 'umount -l "$work/small"; cleanup' EXIT
    export FLOWRUN_HOME=$work/small/home
    "$flowrun" p.yaml --quiet > out 2>&1
    same "a run before" $? 0
    until_true 20 mount -o remount,ro "$work/small" # the node ends a moment behind its run
    says "read-only, a run begins" 7 "flowrun: opening $work/small/home/host.lock" p.yaml
    has "read-only, and why" out "Read-only file system"
    says "read-only, a run that is over is resumed" 0 "run 1 is over (succeeded)" resume 1
    says "read-only, it runs again" 7 "Read-only file system" retry 1 --from a
    says "read-only, status" 0 "succeeded" status
    "$flowrun" logs a > out 2>&1
    same "read-only, logs" "$(cat out)" "a@n1 | x"
    mount -o remount,rw "$work/small"
    same "nothing was stored of it" "$(runs)" 1
    "$flowrun" p.yaml --quiet > out 2>&1
    same "a run when it can be written again" $? 0
else
    echo "left out: read-only (nothing can be mounted here)"
fi
same "nothing is left running" "$(left)" ""
finish
