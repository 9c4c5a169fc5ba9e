#!/bin/bash
# What removing ended runs costs a run that goes on: 1,000 tasks, wide at 2, under a `flowrun serve` whose
# home keeps all runs, and under one that removes all but one of 100,000 meanwhile; and how long that takes
# when nothing else goes on. The runs are one real run, copied row by row and folder by folder. Prints one
# line a measurement and never fails.
#
# usage: retain.sh BUILD [RUNS] [ROUNDS]    (100000, 9)
set -u
build=$(cd "${1:-build}" && pwd)
runs=${2:-100000} rounds=${3:-9}
flowrun=$build/engine/cli/flowrun
work=$(mktemp -d "${TMPDIR:-/tmp}/fr-bench.XXXXXX")
trap 'kill $serve 2> /dev/null; wait $serve 2> /dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 0
export NO_COLOR=1 FLOWRUN_HOME=$work/home
serve=

median() { sort -n | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }
timed() { # COMMAND…: prints milliseconds
    local t=${EPOCHREALTIME/[.,]/}
    "$@" > log 2>&1 || { echo "failed: $*" >&2; tail -3 log >&2; }
    t=$((${EPOCHREALTIME/[.,]/} - t))
    printf '%d.%02d\n' $((t / 1000)) $((t % 1000 / 10))
}
row() { printf '%-52s %s\n' "$1" "$2"; }
left() { python3 -c '
import sqlite3
db = sqlite3.connect("home/state.db")
db.execute("PRAGMA busy_timeout = 60000")
print(db.execute("SELECT count(*) FROM run").fetchone()[0])'; }
host() {
    "$flowrun" serve > serve.log 2>&1 &
    serve=$!
    until [ -S home/host.sock ]; do sleep 0.05; done
}
stop() {
    kill $serve
    wait $serve
    serve=
}

printf 'nodes: [{name: here, executor: local}]\ntasks: {a: {argv: ["true"]}}\n' > one.yaml
python3 -c 'print("name: many\nmax_parallel: 2\nnodes: [{name: here, executor: local}]\ntasks:"); [print("  t%d: {argv: [\"true\"]}" % i) for i in range(1000)]' > many.yaml
"$flowrun" one.yaml > log || exit 0
python3 - "$runs" <<'END'
import os, sqlite3, sys
db = sqlite3.connect("home/state.db", isolation_level=None)
db.execute("PRAGMA synchronous = OFF")
db.execute("BEGIN")
ids = {i: os.urandom(16) for i in range(2, int(sys.argv[1]) + 1)}
for table in ("run", "instance", "attempt", "event", "node"):
    columns = [c[1] for c in db.execute("PRAGMA table_info(%s)" % table)]
    rows = [dict(zip(columns, r)) for r in db.execute("SELECT * FROM %s" % table).fetchall()]
    put = "INSERT INTO %s VALUES(%s)" % (table, ", ".join("?" * len(columns)))
    for i in ids:
        for r in rows:
            r.update({"id": ids[i], "no": i} if table == "run" else {"run": ids[i]})
            db.execute(put, [r[c] for c in columns])
db.execute("COMMIT")
for i in ids.values():
    folder = "home/runs/" + i.hex()
    os.mkdir(folder)
    open(folder + "/a", "w").close()
END
sync
host
timed "$flowrun" many.yaml > /dev/null
for _ in $(seq "$rounds"); do timed "$flowrun" many.yaml; done > a
stop
row "1,000 tasks, all runs are kept" "$(median < a) ms"
printf 'keep: {runs: 1}\n' > home/config.yaml
host
before=$(left)
for _ in $(seq "$rounds"); do timed "$flowrun" many.yaml; done > b
after=$(left)
row "the same while runs are removed" "$(median < b) ms, $(paste <(median < b) <(median < a) | awk '{printf "%.3f", $1 / $2}') ×; $((before + rounds - after)) runs removed meanwhile"
t=$EPOCHSECONDS
n=$after
while [ "$(left)" -gt $((n / 10)) ] && [ $((EPOCHSECONDS - t)) -lt 600 ]; do sleep 1; done
row "then, beside nothing" "$((n - $(left))) runs in $((EPOCHSECONDS - t)) s"
row "longest turn of the host" "$("$flowrun" status > /dev/null 2>&1; python3 - <<'END'
import http.client, json, socket
class C(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("home/host.sock")
c = C("localhost")
c.request("GET", "/api/v1/host")
h = json.load(c.getresponse())
print("%d ms, %s" % (h["longest_ms"], h["held_by"]))
END
)"
