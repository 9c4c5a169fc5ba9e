#!/bin/bash
# A newer flowrun with what an older one left: a database of the first schema, attempts whose
# supervisors are of another build of flownode. They go on and are found; each ran once. A database
# of a newer schema is refused and left as it was. usage: older.sh BUILD [BUILD OF AN OLDER COMMIT]
older=${2:+$(realpath "$2")}
repo=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/lib.sh"
begin "$1"

sql() {
    python3 - "$FLOWRUN_HOME/state.db" "$1" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
rows = None
for statement in open(sys.argv[2]).read().split(";\n") if sys.argv[2].endswith(".sql") else [sys.argv[2]]:
    rows = db.execute(statement).fetchall()
print(*(r[0] for r in rows))
END
}
version() { sql "PRAGMA user_version"; }

# The same program under another build id, unless there is an older one.
if [ -z "$older" ]; then
    older=$work/older
    mkdir -p "$older/engine/cli" "$older/tasks"
    cp "$flowrun" "$older/engine/cli/"
    python3 - "$build/tasks/flownode" "$older/tasks/flownode" <<'END'
import os, sys
p = bytearray(open(sys.argv[1], "rb").read())
at = p.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16  # the note of the build id, elf(5)
p[at] ^= 0xff
open(sys.argv[2], "wb").write(p)
os.chmod(sys.argv[2], 0o755)
END
fi
check "the older flownode is another" test "$(sha256sum < "$older/tasks/flownode")" != "$(sha256sum < "$build/tasks/flownode")"

{
    echo "name: older"
    local3
    cat <<'END'
env: {W: "${{ env.W }}"}
defaults: {retry: {times: 2, delay: 10ms}}
tasks:
  first: {on: n1, run: "echo first >> $W/ran; echo v=kept >> $FLOWRUN_OUTPUT", outputs: [v]}
  flaky: {on: n2, run: "echo flaky$FLOWRUN_ATTEMPT_NO >> $W/ran; test $FLOWRUN_ATTEMPT_NO != 1"}
  gang:
    needs: [first, flaky]
    on: all
    gang: true
    run: "echo gang$NODE_RANK >> $W/ran; until test -e $W/free; do sleep 0.05; done; echo free $NODE_RANK"
    sidecars: [{run: "exec sleep 600"}]
  ends: {needs: [first], on: n3, run: "echo ends >> $W/ran; until test -e $W/dead; do sleep 0.05; done; echo unseen"}
  stops: {needs: [first], on: n1, timeout: 1h, run: "echo stops >> $W/ran; exec sleep 600"}
  last: {needs: [gang, ends], env: {IN: "${{ tasks.first.outputs.v }}"}, run: "echo last $IN >> $W/ran"}
END
} > older.yaml
FLOWRUN_LIBEXEC=$older/tasks "$older/engine/cli/flowrun" older.yaml > out.older 2>&1 &
pid=$!
until_true 30 eval 'test "$(lines ran)" = 8' # first, flaky twice, gang on three, ends, stops
shown() { "$older/engine/cli/flowrun" status | grep -q "^$1  *running"; }
for t in ends@n3 stops@n1 gang@n1 gang@n2 gang@n3; do until_true 30 shown $t; done
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch dead # this one's end is only in the node's journal

[ "$(version)" = 1 ] || check "the database is as the first schema had it" sql "$repo/tests/e2e/older.sql"
same "the first schema" "$(version)" 1

# A flowrun of before there were hosts held a lock of its run.
python3 - "$FLOWRUN_HOME/runs/$(sql "SELECT lower(hex(id)) FROM run").lock" <<'END' &
import fcntl, os, struct, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
open("locked", "w").close()
while os.getppid() > 1 and not os.path.exists("unlock"):
    time.sleep(0.02)
END
old=$!
until_true 20 test -e locked
"$flowrun" resume > refused 2>&1
same "a run that an older flowrun drives" $? 5
has "it says so" refused "is still used by an older flowrun, which drives run"
has "and what to do" refused "wait for its end, or stop it"
same "the schema stays" "$(version)" 1
touch unlock
wait $old
start resume
pid=$!
until_true 30 holds out "ends@n3 | unseen"
same "the newest schema" "$(version)" "$(grep -c '^-- @version' "$repo/schema/state.sql")"
touch free
until_true 30 holds out "last@n1 succeeded"
"$flowrun" cancel > cancel 2>&1
same "a task of the older one is stopped" $? 0
wait "$pid"
has "and that is proven" cancel "1 task stopped, no process of them is left"
for t in gang@n1 gang@n2 gang@n3 ends@n3 last@n1; do has "$t" out "$t succeeded"; done
has "the gang's last words" out "gang@n3 | free 2"
same "each ran once" "$(sort ran | tr '\n' ' ')" "ends first flaky1 flaky2 gang0 gang1 gang2 last kept stops "
same "one attempt each" "$(sql "SELECT count(*) FROM attempt WHERE no > 1")" 1
same "none is lost" "$(sql "SELECT count(*) FROM instance WHERE cause = 'lost'")" 0
same "the database is whole" "$(sql "PRAGMA integrity_check")" ok
same "the story is whole" "$(sql "SELECT count(*) FROM event WHERE kind = 'running' AND idx >= 0")" 9
"$flowrun" status --json > status.json
check "and can be shown" grep -q '"kept"' status.json
until_true 30 eval 'test -z "$(marked)"'

sql "PRAGMA user_version = 99" > /dev/null
before=$(sha256sum < "$FLOWRUN_HOME/state.db")
for c in resume status cancel "logs 1"; do
    "$flowrun" $c > refused 2>&1
    same "$c of a newer database" $? 7
    has "$c says why" refused "state.db has schema 99; this flowrun knows up to"
done
same "a refused database is as it was" "$(sha256sum < "$FLOWRUN_HOME/state.db")" "$before"
finish
