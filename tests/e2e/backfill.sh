#!/bin/bash
# backfill: runs for past instants of a schedule, one behind the other; what there is already; a dry run;
# pause, resume, cancel; a host that is killed. usage: backfill.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
sql() { python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("PRAGMA busy_timeout = 5000"); rows = ["|".join(map(str, r)) for r in d.execute(sys.argv[2])]; d.commit(); print(" ".join(rows), end="\n" if rows else "")' home/state.db "$1"; }
serve() {
    "$flowrun" serve pipes > serve.out 2>&1 &
    serve=$!
    until_true 20 test -S home/host.sock
}
stop() {
    kill "$serve"
    wait "$serve"
}
mkdir pipes home
cat > pipes/p.yaml <<'END'
name: p
params: {n: {type: int, default: 1}}
schedule: {cron: "0 2 * * *", zone: UTC, overlap: queue, params: {n: 2}}
env: {W: "${{ env.W }}", AT: "${{ schedule.date }}", N: "${{ params.n }}", O: "${{ schedule.origin }} ${{ schedule.previous_success }}"}
tasks:
  a: {run: 'echo "in $AT $N $O" >> $W/ran; until test -e $W/go || test -e $W/go.$AT; do sleep 0.02; done; echo "out $AT" >> $W/ran; test ! -e $W/fails.$AT'}
END
days() { sql "SELECT strftime('%m-%d', at_ms / 1000, 'unixepoch') || ' ' || outcome FROM run WHERE backfill = $1 ORDER BY no"; }
state() { sql "SELECT state FROM backfill WHERE id = $1"; }
is() { [ "$(state "$1")" = "$2" ]; }

# ---- what is wrong
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 > out 2>&1
same "no end" $? 2
has "asks for it" out "backfill needs --to"
"$flowrun" backfill pipes/p.yaml --from 2026-03-05 --to 2026-03-01 > out 2>&1
has "an empty time" out "there is no time from 2026-03-05 to 2026-03-01 that is past"
"$flowrun" backfill pipes/p.yaml --from 1990-01-01 --to 2026-01-01 > out 2>&1
has "too many" out "a backfill makes at most 10000"
"$flowrun" backfill pipes/p.yaml --from 2026-03-01T03:00 --to 2026-03-01T04:00 > out 2>&1
has "no instant" out "schedule default never fires from"
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 --to soon > out 2>&1
same "no time" $? 2
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 --to 2026-03-05 --existing some > out 2>&1
has "a word" out "--existing is one of skip, failed, all, not 'some'"
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 --to 2026-03-05 -p m=1 > out 2>&1
has "a parameter" out "the pipeline has no such param"
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 --to 2026-03-05 > out 2>&1
same "a schedule that nobody serves" $? 2
has "what to do" out "'flowrun serve' with the folder of the file makes it known"
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 --to 2026-03-05 --dry-run > out 2>&1
same "a dry run" $? 0
same "lists each instant" "$(grep -c "02:00 UTC .*a run" out)" 4
has "and says how many" out "4 instants: 4 runs would be made, 0 are left as they are"

# ---- one behind the other, though the schedule is paused; it is killed meanwhile
serve
known() { [ "$(sql "SELECT count(*) FROM schedule WHERE state = '$1'")" = 1 ]; }
until_true 20 known active
"$flowrun" schedules pause p/default > out 2>&1
until_true 20 known paused
touch fails.2026-03-02
"$flowrun" backfill pipes/p.yaml --from 2026-03-01 --to 2026-03-05 -p n=7 > out 2>&1
same "backfill" $? 0
has "says what it makes" out "backfill 1 of p/default: 4 instants, 4 runs, 1 at a time; 0 are left as they are"
until_true 20 holds ran "in 2026-03-01 7 backfill"
kill -9 "$serve"
wait "$serve" 2> /dev/null
serve
touch go.2026-03-01
until_true 20 holds ran "in 2026-03-02"
same "one at a time" "$(sql "SELECT count(*) FROM run WHERE state <> 'over'")" 1
"$flowrun" backfills > out
has "how far it is" out "2 of 4"
touch go
until_true 20 is 1 over
same "its runs" "$(days 1)" "03-01 succeeded 03-02 failed 03-03 succeeded 03-04 succeeded"
same "in their order" "$(grep -v "^in" ran | sed 's/out //' | paste -sd ' ')" "2026-03-01 2026-03-02 2026-03-03 2026-03-04"
has "with what succeeded before" ran "in 2026-03-03 7 backfill 2026-03-01T02:00:00Z"
same "each instant has its row" "$(sql "SELECT strftime('%m-%d', at_ms / 1000, 'unixepoch'), decision, run, outcome FROM fire ORDER BY at_ms")" \
    "03-01|ran|1|succeeded 03-02|ran|2|failed 03-03|ran|3|succeeded 03-04|ran|4|succeeded"
same "priority" "$(sql "SELECT DISTINCT priority FROM run")" "-10"

# ---- what there is already: a cell each
"$flowrun" rm 3 > out 2>&1
cell() { # EXISTING DRY ROWS
    "$flowrun" backfill pipes/p.yaml --from 2026-02-28 --to 2026-03-05 --existing "$1" --dry-run --json |
        python3 -c 'import json, sys; print("".join("r" if d["makes_run"] else "-" for d in map(json.loads, sys.stdin) if "at_ms" in d))' > dry
    same "--existing $1: a dry run" "$(cat dry)" "$2"
    "$flowrun" backfill pipes/p.yaml --from 2026-02-28 --to 2026-03-05 --existing "$1" --order newest > out 2>&1
    local id
    id=$(sql "SELECT max(id) FROM backfill")
    until_true 20 is "$id" over
    same "--existing $1" "$(days "$id")" "$3"
}
cell failed "--r--" "03-02 failed"
rm fails.2026-03-02
cell skip "r-r--" "03-02 succeeded 02-28 succeeded"
cell all "rrrrr" "03-04 succeeded 03-03 succeeded 03-02 succeeded 03-01 succeeded 02-28 succeeded"
cell skip "-----" ""
cell failed "-----" ""

# ---- several at a time; paused, resumed, cancelled
rm go*
: > ran
"$flowrun" backfill pipes/p.yaml --from 2026-04-01 --to 2026-04-11 --max-active 3 > out 2>&1
id=$(sql "SELECT max(id) FROM backfill")
until_true 20 holds ran "in 2026-04-03"
same "three at a time" "$(sql "SELECT count(*) FROM run WHERE state <> 'over'")" 3
"$flowrun" backfills pause "$id" > out 2>&1
same "pause" $? 0
touch go.2026-04-01 go.2026-04-02 go.2026-04-03
none() { [ "$(sql "SELECT count(*) FROM run WHERE state <> 'over'")" = 0 ]; }
until_true 20 none
same "it makes no more" "$(state "$id") $(days "$id" | wc -w)" "paused 6"
"$flowrun" backfills pause "$id" > out 2>&1
has "once" out "backfill $id is paused already"
printf 'limits: {max_active_runs: 1}\n' > home/config.yaml
kill -HUP "$serve"
until_true 20 holds serve.out "the configuration was read again"
"$flowrun" backfills resume "$id" > out 2>&1
until_true 20 holds ran "in 2026-04-04"
waiting() { [ "$(sql "SELECT count(*) FROM run WHERE state = 'queued'")" = 2 ]; }
until_true 20 waiting
"$flowrun" backfills cancel "$id" > out 2>&1
same "cancel" $? 0
until_true 20 eval '[ "$(sql "SELECT count(*) FROM run WHERE state = '"'queued'"'")" = 0 ]'
touch go
until_true 20 none
same "what was queued never starts" "$(days "$id" | tr ' ' '\n' | paste -sd ' ')" \
    "04-01 succeeded 04-02 succeeded 04-03 succeeded 04-04 succeeded 04-05 cancelled 04-06 cancelled"
same "nor does it make another" "$(state "$id")" cancelled
"$flowrun" backfills resume "$id" > out 2>&1
has "it stays so" out "backfill $id is cancelled already"
rm home/config.yaml

# ---- a file that cannot be loaded meanwhile
rm go
"$flowrun" backfill pipes/p.yaml --from 2026-05-01 --to 2026-05-04 > out 2>&1
id=$(sql "SELECT max(id) FROM backfill")
until_true 20 holds ran "in 2026-05-01"
cp pipes/p.yaml p.good
sed -i 's/^tasks:/takss:/' pipes/p.yaml
touch go
until_true 20 is "$id" paused
"$flowrun" backfills > out
has "it is paused, and says why" out "p.yaml:"
cp p.good pipes/p.yaml
"$flowrun" backfills resume "$id" > out 2>&1
until_true 20 is "$id" over
same "and goes on" "$(days "$id")" "05-01 succeeded 05-02 succeeded 05-03 succeeded"
stop

# ---- asked for without a host: the next one makes the runs
"$flowrun" backfill pipes/p.yaml --from 2026-06-01 --to 2026-06-03 > out 2>&1
has "says so" out "it begins with the next 'flowrun serve' of its folder"
serve
id=$(sql "SELECT max(id) FROM backfill")
until_true 20 is "$id" over
same "it did" "$(days "$id")" "06-01 succeeded 06-02 succeeded"

# ---- the host is killed again and again: each instant has one run, each run ran once
: > ran
"$flowrun" backfill pipes/p.yaml --from 2026-07-01 --to 2026-07-21 --max-active 2 > out 2>&1
id=$(sql "SELECT max(id) FROM backfill")
for n in 1 2 4 5 7 9 12 15; do
    until_true 20 eval '[ "$(sql "SELECT made FROM backfill WHERE id = '$id'")" -ge '$n' ]'
    kill -9 "$serve"
    wait "$serve" 2> /dev/null
    serve
done
until_true 30 is "$id" over
until_true 20 none
same "runs" "$(sql "SELECT count(*), count(DISTINCT at_ms), sum(outcome = 'succeeded') FROM run WHERE backfill = $id")" "20|20|20"
same "tasks" "$(grep -c ^out ran) $(sort -u ran | grep -c ^out)" "20 20"
stop
finish
