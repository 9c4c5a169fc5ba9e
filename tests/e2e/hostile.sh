#!/bin/bash
# Nodes that break the protocol, each in its way, beside one that does not: the good one's task is
# done, each hostile one's fails and is named, nothing of control is read or written, memory is
# bounded, and no terminal sees a control byte. usage: hostile.sh BUILD HOSTILE_NODE
. "$(dirname "$0")/lib.sh"
hostile=$(realpath "$2")
begin "$1"
mkdir libexec outside
cp "$hostile" libexec/flownode
export REAL_FLOWNODE=$build/tasks/flownode FLOWRUN_LIBEXEC=$work/libexec
echo "canary of control" > outside/canary
echo "to be shipped" > small.txt
ways="frame endless lists credit flood surge drizzle pings clocks log-clock foreign busy refs random hellos text error
 outputs bad-output tombs amnesia rivals leaps strays survivors noise garbage clock boot later early path offset"
{
    echo "name: hostile"
    echo "nodes:"
    echo "  - {name: good, executor: local}"
    for w in $ways gather; do echo "  - {name: $w, executor: local}"; done
    cat <<'YAML'
max_parallel: 64
env: {W: "${{ env.W }}"}
tasks:
  good: {run: "until test -s $W/seen; do sleep 0.05; done; echo whole > $W/good", on: good}
  t:
    run: "true"
    on: [NODES]
    files: {in.txt: small.txt}
    outputs: [k]
    log: {max: 64KiB}
  fetch: {uses: gather-adapters, on: good, with: {node: gather, from: out}}
YAML
} | sed "s/NODES/$(echo $ways | sed 's/ /, /g')/" > p.yaml

# No terminal may see these: C0 but newline and tab, DEL, C1 in UTF-8, and bytes that are no UTF-8.
clean() {
    same "$1 has no control bytes" "$(LC_ALL=C grep -caP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$2")" 0
    check "$1 is UTF-8" iconv -f UTF-8 -t UTF-8 -o /dev/null "$2"
}

(ulimit -v 300000; exec "$flowrun" p.yaml) > out 2>&1 &
pid=$!
# the good task ends when all hostile ones have spoken
until_true 60 sh -c "for w in $(echo $ways); do test -e '$FLOWRUN_HOME'/nodes/\$w/got || exit 1; done"
echo > seen
# surge and drizzle go on until flowrun has heard of its end
until_true 60 holds out "good@good succeeded"
same "two still flood" "$(grep -cE "t@(surge|drizzle) (failed|lost)" out)" 0
touch quiet
wait "$pid"
same "nodes cannot be used" $? 6
"$flowrun" status --json > status.json 2>&1
"$flowrun" status > status 2>&1
"$flowrun" logs > logs 2>&1
"$flowrun" logs --times > times 2>&1
same "the good node's task is done" "$(cat good)" whole
has "and succeeded" status "good@good"
same "once" "$(grep -c 'good@good *succeeded' status)" 1
for w in $ways; do
    check "$w failed" grep -qE "^t@$w +(failed|lost|stop_unproven)" status
done
has "the gather names its source" out "node gather: "
for f in out status status.json logs times; do clean "$f" "$f"; done
check "status is JSON" python3 -c 'import json; json.load(open("status.json"))'
hasnt "no forged line" logs forged
same "a foreign report is shown once" "$(grep -c "foreign: reports on" out)" 1
same "and an error about nothing" "$(grep -c "node=strays error for an unknown ref" out)" 1
leaps=$(echo "$FLOWRUN_HOME"/runs/*/t@leaps.1.log)
check "an index is no larger than its log, and 64 KiB" \
    test "$(stat -c %s "$leaps.idx")" -le $(($(stat -c %s "$leaps") + 65536 + 16))
check "few attempts are made of a node that starts none" test "$(python3 -c '
import sqlite3, os
db = sqlite3.connect("file:%s/state.db?mode=ro" % os.environ["FLOWRUN_HOME"], uri=True)
print(db.execute("select count(*) from attempt").fetchone()[0])')" -lt 200
same "nothing beside" "$(ls outside)" canary
same "no control file was sent" "$(grep -rl "canary of control" "$FLOWRUN_HOME")" ""
same "the spool is empty" "$(find "$FLOWRUN_HOME/spool" -type f 2>/dev/null)" ""
check "the store is sound" python3 -c '
import sqlite3, os
db = sqlite3.connect("file:%s/state.db?mode=ro" % os.environ["FLOWRUN_HOME"], uri=True)
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
for (table,) in db.execute("select name from sqlite_master where type=\"table\"").fetchall():
    for row in db.execute("select * from " + table):
        for v in row:
            if isinstance(v, str):
                assert "\x1b" not in v and "\x9b" not in v, (table, v)'
"$flowrun" nodes --check p.yaml > nodes 2>&1
clean "the table of nodes" nodes
kills="its logind ends tasks when the connection closes (KillUserProcesses=yes): set it to no, or add the user to KillExcludeUsers"
check "what a node says of its logind is said" grep -q "^error .*$kills" nodes
check "of that node alone" sh -c "! grep '^good ' nodes | grep -q logind"

# One that never answers does not hold the others up, and cancel says so.
cat > mute.yaml <<'YAML'
nodes: [{name: mute, executor: local}, {name: good2, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  m: {run: "true", on: mute}
  g: {run: "echo done > $W/g", on: good2}
YAML
start mute.yaml
pid=$!
until_true 30 grep -q "g@good2 succeeded" "$work/out"
check "the other task went on" test -s g
kill -INT "$pid"
until_true 20 holds out "stopping all tasks of run"
kill -INT "$pid"
wait "$pid"
same "left" $? 4
finish
