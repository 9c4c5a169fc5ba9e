#!/bin/bash
# What a home costs that holds many ended runs: `flowrun runs`, a run of one task, and what removes them.
# The runs are one real run, copied row by row and folder by folder. Prints one line a measurement and
# never fails. About a minute on two cores.
#
# usage: home.sh BUILD [RUNS] [ROUNDS]    (100000, 15)
set -u
build=$(cd "${1:-build}" && pwd)
runs=${2:-100000} rounds=${3:-15}
flowrun=$build/engine/cli/flowrun
work=$(mktemp -d "${TMPDIR:-/tmp}/fr-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 0
export NO_COLOR=1

median() { sort -n | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }
timed() { # COMMAND…: prints milliseconds
    local t=${EPOCHREALTIME/[.,]/}
    "$@" > log 2>&1 || { echo "failed: $*" >&2; tail -3 log >&2; }
    t=$((${EPOCHREALTIME/[.,]/} - t))
    printf '%d.%02d\n' $((t / 1000)) $((t % 1000 / 10))
}
row() { printf '%-52s %s\n' "$1" "$2"; }
each() { # NAME COMMAND…: in the empty home and in the full one, by turns
    local name=$1 i
    shift
    rm -f a b
    for i in $(seq "$rounds"); do
        FLOWRUN_HOME=$work/empty timed "$@" >> a
        FLOWRUN_HOME=$work/full timed "$@" >> b
    done
    row "$name" "$(median < b) ms, in an empty home $(median < a) ms"
}

printf 'nodes: [{name: here, executor: local}]\ntasks: {a: {argv: ["true"]}, b: {argv: ["true"]}, c: {argv: ["true"]}}\n' > three.yaml
printf 'nodes: [{name: here, executor: local}]\ntasks: {a: {argv: ["true"]}}\n' > one.yaml
for home in empty full; do FLOWRUN_HOME=$work/$home "$flowrun" three.yaml > log || exit 0; done

python3 - "$runs" <<'END'
import os, sqlite3, sys
db = sqlite3.connect("full/state.db", isolation_level=None)
db.execute("PRAGMA synchronous = OFF")
db.execute("BEGIN")
ids = {i: os.urandom(16) for i in range(2, int(sys.argv[1]) + 1)}
def own(i):
    return {"id": ids[i], "no": i, "name": "p%d" % (i % 50), "spec_hash": "%064x" % (i % 1000)}
for table in ("run", "instance", "attempt", "event", "node"):
    columns = [c[1] for c in db.execute("PRAGMA table_info(%s)" % table)]
    rows = [dict(zip(columns, r)) for r in db.execute("SELECT * FROM %s" % table).fetchall()]
    put = "INSERT INTO %s VALUES(%s)" % (table, ", ".join("?" * len(columns)))
    for i in ids:
        for r in rows:
            r.update(own(i) if table == "run" else {"run": ids[i]})
            db.execute(put, [r[c] for c in columns])
db.execute("COMMIT")
for i in ids.values():
    folder = "full/runs/" + i.hex()
    os.mkdir(folder)
    open(folder + ".lock", "w").close()
    for f in ("a", "b"):
        open(folder + "/" + f, "w").close()
for i in range(1000):
    open("full/blobs/%064x" % i, "w").close()
END
sync
row "runs, events, size of the store" "$(python3 -c '
import sqlite3
db = sqlite3.connect("full/state.db")
print(db.execute("SELECT count(*) FROM run").fetchone()[0], db.execute("SELECT count(*) FROM event").fetchone()[0])'), $(du -h full/state.db | cut -f1)"
each "flowrun runs" "$flowrun" runs
each "flowrun status" "$flowrun" status 1
id=$(FLOWRUN_HOME=$work/full "$flowrun" status 1 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"][:12])')
each "flowrun status, by the beginning of an id" sh -c "$flowrun status $id; true"
each "flowrun FILE, one task" "$flowrun" one.yaml
each "flowrun cancel, without a run to cancel" sh -c "$flowrun cancel; true"
export FLOWRUN_HOME=$work/full
printf 'keep: {days: 30}\n' > full/config.yaml
row "flowrun gc, nothing to remove" "$(timed "$flowrun" gc) ms"
row "flowrun rm, one run" "$(timed "$flowrun" rm 2) ms"
printf 'keep: {runs: 1980}\n' > full/config.yaml
row "flowrun gc, $("$flowrun" gc --dry-run | wc -l) runs" "$(timed "$flowrun" gc) ms"
