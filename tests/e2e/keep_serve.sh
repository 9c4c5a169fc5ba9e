#!/bin/bash
# A host that stays removes by itself what keep: of the home and keep_runs: of a pipeline do not keep,
# beside a run that goes on; and says of a run that it was removed. usage: keep_serve.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir home
sql() { python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("PRAGMA busy_timeout = 5000"); rows = ["|".join(map(str, r)) for r in d.execute(sys.argv[2])]; d.commit(); print(" ".join(rows), end="\n" if rows else "")' home/state.db "$1"; }
numbers() { sql "SELECT no FROM run WHERE name = '$1' ORDER BY no"; }
pipeline() { # NAME MORE
    printf 'name: %s\n%s\nnodes: [{name: n1, executor: local}]\ntasks: {a: {run: "echo some output; test ! -e %s/fails"}}\n' "$1" "$2" "$work" > "$1.yaml"
}
serve() {
    "$flowrun" serve > serve.out 2>&1 &
    serve=$!
    until_true 20 test -S home/host.sock
}
stop() {
    kill "$serve"
    wait "$serve"
}
are() { [ "$(numbers "$1")" = "$2" ]; }

printf 'keep_runs: {run: 3}\ntasks: {a: {run: "true"}}\n' > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
has "a wrong key" out "wrong.yaml:1:13: keep_runs has no key 'run'; did you mean 'runs'?"

pipeline home ""
pipeline own "keep_runs: {runs: 4}"
pipeline old "keep_runs: {failed_days: 3}"
for i in 1 2 3 4 5; do
    for p in home own old; do "$flowrun" $p.yaml > /dev/null 2>&1; done
done
touch fails
for p in home own old; do "$flowrun" $p.yaml > /dev/null 2>&1; done
for p in home own old; do "$flowrun" $p.yaml > /dev/null 2>&1; done
rm fails
same "runs" "$(sql "SELECT count(*) FROM run")" 21
"$flowrun" pin 1 > out
serve
until_true 20 holds serve.out "this is the host"
"$flowrun" home.yaml > out 2>&1 # several turns of it
same "without keep: only what a pipeline says" "$(numbers home)" "1 4 7 10 13 16 19 22"
until_true 20 are own "11 14 17 20"
same "nothing of the others" "$(numbers old)" "3 6 9 12 15 18 21"

# the configuration is read again: beside a run that goes on
mkfifo pipe
printf 'name: live\nnodes: [{name: n1, executor: local}]\ntasks: {a: {run: "read x < %s/pipe"}}\n' "$work" > live.yaml
"$flowrun" live.yaml > live.out 2>&1 &
live=$!
until_true 20 eval '[ "$(sql "SELECT state FROM run WHERE name = '"'live'"'")" = running ]'
sql "UPDATE run SET ended_wall = ended_wall - 4 * 86400000 WHERE name = 'old' AND no < 21"
printf 'keep: {runs: 2}\n' > home/config.yaml
kill -HUP "$serve"
until_true 20 are home "1 19 22"
until_true 20 are old "15 21"
same "pinned, the newest of each outcome, and what keeps own says" "$(numbers own) $(numbers live)" "11 14 17 20 23"
gone() { [ "$(ls home/runs | grep -vc lock)" = "$(sql "SELECT count(*) FROM run")" ]; }
until_true 20 gone
"$flowrun" status 4 > out 2>&1
same "a run that was removed" $? 2
has "is said to be" out "there is no run '4' any more: of home, it succeeded; it was removed at $(date -u +%Y)-"
removed=$((23 - $(sql "SELECT count(*) FROM run")))
same "each removal has its row" "$(sql "SELECT count(*), count(DISTINCT run) FROM audit WHERE what = 'removed'")" "$removed|$removed"
echo > pipe
wait $live
same "the run beside it" $? 0
stop

# gc says the same
"$flowrun" gc --dry-run > out
has "gc has nothing to do" out "0 runs and 0 files of no run would be removed"
"$flowrun" own.yaml > /dev/null 2>&1
"$flowrun" gc > out
has "by the pipeline's own" out "run 11 ("

# days: of a pipeline is the age of failed runs, too, unless failed_days: is said
rm home/config.yaml
touch fails
for keep in "days: 3" "days: 3, failed_days: 9" "failed_days: 3"; do
    pipeline "aged${keep//[^a-z0-9]/}" "keep_runs: {$keep}"
    "$flowrun" "aged${keep//[^a-z0-9]/}.yaml" > /dev/null 2>&1
    "$flowrun" "aged${keep//[^a-z0-9]/}.yaml" > /dev/null 2>&1
done
sql "UPDATE run SET ended_wall = ended_wall - 4 * 86400000 WHERE name LIKE 'aged%'"
"$flowrun" gc > out
same "the older one of three" "$(sql "SELECT name, count(*) FROM run WHERE name LIKE 'aged%' GROUP BY name ORDER BY name")" \
    "ageddays3|1 ageddays3faileddays9|2 agedfaileddays3|1"
finish
