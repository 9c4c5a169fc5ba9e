#!/bin/bash
# The configuration of a home, and what is kept of its runs.
. "$(dirname "$0")/lib.sh"
begin "$1"

"$flowrun" config > out 2>&1
same "no configuration: exit code" $? 0
has "no configuration: no limit" out "keep.runs                no limit"
mkdir -p home
printf 'keep: {runs: 2, day: 3}\nlimits: {max_queued: none}\n' > home/config.yaml
"$flowrun" config > out 2>&1
same "a wrong configuration: exit code" $? 2
has "names the key and its place" out "$work/home/config.yaml:1:17: keep has no key 'day'; did you mean 'days'?"
has "names the value, too" out "$work/home/config.yaml:2:22: max_queued is 'none'; expected a whole number"
printf 'zone: Europe/Berlin\nkeep: {runs: 2, bytes: 1GiB}\n' > other.yaml
"$flowrun" config other.yaml --json > out 2>&1
same "another file: exit code" $? 0
same "another file" "$(python3 -c 'import json; d = json.load(open("out")); print(d["zone"], d["keep"])')" \
    "Europe/Berlin {'runs': 2, 'days': 0, 'failed_days': 0, 'bytes': 1073741824}"
"$flowrun" config nothing.yaml > out 2>&1
same "no such file: exit code" $? 2
has "no such file" out "nothing.yaml"
"$flowrun" schema config > out
check "its schema is the one in the repository" cmp -s out "$repo/schema/config.schema.json"
"$flowrun" schema kofnig > out 2>&1
same "no such schema: exit code" $? 2
rm home/config.yaml

sql() { python3 -c 'import sqlite3, sys; print(*[r[0] for r in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])])' home/state.db "$1"; }
numbers() { "$flowrun" runs --json | python3 -c 'import json, sys; print(*[json.loads(l)["no"] for l in sys.stdin])'; }
folders() { find home/runs -mindepth 1 -maxdepth 1 -type d | wc -l; }
pipeline() { # NAME COMMAND
    printf 'name: %s\nnodes: [{name: n1, executor: local}]\ntasks: {a: {run: "%s", files: {f: %s.txt}}}\n' "$1" "$2" "$1" > "$1.yaml"
    echo "file of $1" > "$1.txt"
}

pipeline a 'echo one; test ! -e '"$work"'/fails'
pipeline b 'echo two'
pipeline slow 'read line < '"$work"'/pipe'
for i in 1 2 3 4; do "$flowrun" a.yaml > /dev/null 2>&1; done
"$flowrun" b.yaml > /dev/null 2>&1
touch fails
"$flowrun" a.yaml > /dev/null 2>&1
rm fails
same "six runs" "$(numbers) $(folders)" "6 5 4 3 2 1 6"

"$flowrun" rm 2 > out 2>&1
same "rm: exit code" $? 0
has "rm names it" out "run 2 ("
same "one is gone, its folder, too" "$(numbers) $(folders)" "6 5 4 3 1 5"
"$flowrun" status 2 > out 2>&1
same "nothing shows it" $? 2
"$flowrun" logs 2 >> out 2>&1
has "and that is said" out "there is no run '2'"
same "no row is left" "$(sql "SELECT count(DISTINCT run) FROM event")" 5
"$flowrun" pin 1 > out 2>&1
same "pin: exit code" $? 0
"$flowrun" rm 4 1 > out 2>&1
same "a pinned run is not removed: exit code" $? 2
has "says how" out "run 1 is pinned: 'flowrun unpin 1' lets it go"
same "nor is another with it" "$(numbers)" "6 5 4 3 1"
has "status shows the pin" <("$flowrun" status 1) ", pinned"
mkfifo pipe
"$flowrun" slow.yaml > slow.out 2>&1 &
slow=$!
running() { [ "$(sql "SELECT count(*) FROM run WHERE state = 'running'")" = 1 ]; }
until_true 20 running
"$flowrun" rm 7 > out 2>&1
same "a run that goes on is not removed: exit code" $? 2
has "says how to end it" out "run 7 is not over: 'flowrun cancel 7' ends it"

"$flowrun" gc > out 2>&1
same "gc without limits: exit code" $? 0
has "removes no run" out "the configuration keeps all runs"
echo x > home/blobs/$(printf '0%.0s' $(seq 64))
mkdir home/runs/$(printf '0%.0s' $(seq 32))
printf 'keep: {runs: 1}\n' > home/config.yaml
"$flowrun" gc --dry-run > out 2>&1
same "a dry run: exit code" $? 0
has "names what would go" out "run 3 ("
has "and counts" out "1 run and 2 files of no run would be removed"
same "but removes nothing" "$(numbers) $(ls home/blobs | wc -l)" "7 6 5 4 3 1 7"
"$flowrun" gc --json > out 2>&1
same "gc: exit code" $? 0
same "as the dry run said" "$(python3 -c '
import json
lines = [json.loads(l) for l in open("out")]
print(lines[0]["no"], lines[0]["pipeline"], lines[0]["bytes"] > 0, lines[1]["runs"], lines[1]["files"], lines[1]["removed"])')" \
    "3 a True 1 2 True"
same "pinned, the newest of each outcome, and what goes on stay" "$(numbers)" "7 6 5 4 1"
same "blobs that runs need, too" "$(ls home/blobs | wc -l)" 6
"$flowrun" unpin 1
"$flowrun" gc > out 2>&1
same "unpinned" "$(numbers)" "7 6 5 4"
echo > pipe
wait $slow
same "the run beside all this" $? 0
"$flowrun" rm 7 6 5 4 5 > out 2>&1
same "all: exit code" $? 0
same "nothing is left but the home itself" "$(numbers)$(ls home/blobs home/runs home/spool home/begun | grep -v :)" ""
"$flowrun" b.yaml > out 2>&1
has "no number comes twice" out "run 8 ("

# Killed between the commit that marks the run and the rest.
"$flowrun" a.yaml > out 2>&1
python3 -c '
import sqlite3
db = sqlite3.connect("home/state.db")
db.execute("UPDATE run SET state = \"removed\" WHERE no = 8")
db.commit()'
same "what was begun is not shown" "$(numbers)" "9"
"$flowrun" a.yaml > out 2>&1
same "the next flowrun ends it" "$(sql "SELECT no FROM run ORDER BY no") $(folders)" "9 10 2"

finish
