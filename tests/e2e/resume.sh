#!/bin/bash
# flowrun is killed in the middle: tasks go on, a resume finds them, shows what it missed, and nothing
# runs twice; a second resume is refused meanwhile.
. "$(dirname "$0")/lib.sh"
begin "$1"
{
    echo "name: slow"
    echo "nodes: nodes.yaml"
    cat <<'END'
tasks:
  a: {run: "echo a >> $W/ran"}
  b:
    needs: [a]
    on: all
    gang: true
    run: |
      echo "b$NODE_RANK" >> $W/ran
      echo "before $NODE_RANK"
      until test -e $W/killed; do sleep 0.05; done
      echo "between $NODE_RANK"
      until test -e $W/free; do sleep 0.05; done
      echo "after $NODE_RANK"
    shell: bash
  c: {needs: [b], files: {note: note.txt}, run: "echo c >> $W/ran; cat note"}
env: {W: "${{ env.W }}"}
END
} > slow.yaml

local3 > nodes.yaml
echo "as it was at submit" > note.txt
start slow.yaml
pid=$!
until_true 20 holds out "b@n3 | before 2"
until_true 20 holds out "b@n1 | before 0"
until_true 20 holds out "b@n2 | before 1"
kill -9 "$pid"
wait "$pid" 2>/dev/null
touch killed
echo changed > note.txt
echo "tasks: {}" > slow.yaml
echo "nodes: []" > nodes.yaml
"$flowrun" status > status
has "nobody looks after it" status "of slow: left"
printf 'name: slow\nnodes: nodes.yaml\ntasks: {a: {run: "true"}}\n' > less.yaml
"$flowrun" resume 1 --file less.yaml > out 2>&1
same "a file without a task that runs is refused" $? 2
has "it says what to do" out "still runs, and the changed pipeline does not have it: 'flowrun resume 1' goes on with the run's own copy, 'flowrun cancel 1' stops the run"
hasnt "and does not say that it goes on" out "going on"
start resume
pid=$!
until_true 20 holds out "b@n2 | between 1"
"$flowrun" logs -f 1 b > follow 2>&1 &
follower=$!
until_true 20 holds follow "[2] b@n3 | between 2"
"$flowrun" resume > second 2>&1
same "a second resume is refused" $? 5
has "and says why" second "run 1 is driven by another flowrun; 'flowrun attach 1' follows it"
touch free
wait "$pid"
same "the resumed run's exit code" $? 0
wait "$follower"
same "logs -f ends with the run" $? 0
same "and has shown all of it" "$(lines follow)" 9
has "the edited pipeline is named" out "$work/slow.yaml was changed since the run began: the run's own copy is used"
has "and how to go on with it" out "'flowrun resume 1 --file $work/slow.yaml' goes on with the changed file, 'flowrun $work/slow.yaml' starts anew"
has "the edited inventory is named" out "$work/nodes.yaml was changed since the run began"
has "output that was missed" out "b@n1 | between 0"
hasnt "output that was shown before" out "before 0"
has "files are those of the submit" out "c@n1 | as it was at submit"
same "each ran once" "$(sort ran | tr '\n' ' ')" "a b0 b1 b2 c "
"$flowrun" logs 1 b@n3 | sed 's/.*| //' > log
same "the copy of the log is whole" "$(tr '\n' '+' < log)" "before 2+between 2+after 2+"
"$flowrun" resume > out 2>&1
same "a run that is over is not resumed" $? 2
has "and says what is possible" out "flowrun retry 1"
same "nothing is left running" "$(left)" ""

# A task ends in time while nobody looks, and the run is taken up behind its limit: the clock goes on
# until then, as the run's begin was moved.
cat > limit.yaml <<'END'
name: limit
timeout: 1h
tasks:
  a: {run: "until test -e $W/go; do read -t 0.05 x <> $W/pipe || :; done", shell: bash}
env: {W: "${{ env.W }}"}
on_failure: [{run: "touch $W/failed"}]
END
clock() { date +%s%3N; }
is_past() { [ "$(clock)" -gt "$1" ]; }
find_tasks() { tasks=$(marked_tasks) && [ -n "$tasks" ]; }
mkfifo pipe
start limit.yaml
pid=$!
until_true 20 holds out "a@local running"
kill -9 "$pid"
wait "$pid" 2>/dev/null
until_true 20 find_tasks
touch go
# Their keeper reaps them once it has noted when they ended; until then they are zombies.
are_reaped() { for p in $tasks; do [ ! -e "/proc/$p" ] || return 1; done; }
until_true 20 are_reaped
ended=$(clock)
python3 - "$FLOWRUN_HOME/state.db" $((ended + 500 - 3600000)) <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("UPDATE run SET started_wall = ? WHERE no = 2", (int(sys.argv[2]),))
db.commit()
END
until_true 20 is_past $((ended + 1000))
"$flowrun" resume > out 2>&1
same "it ended within the run's limit" $? 0
"$flowrun" status 2 --json > status
same "at the time that its node says" "$(python3 -c '
import json, sys
run = json.load(open("status"))
print(run["state"], run["tasks"][0]["ended_wall"] <= int(sys.argv[1]) and run["ended_wall"] <= int(sys.argv[1]))
' "$ended")" "succeeded True"
check "no hook of a failure ran" test ! -e failed

# flowrun stands still, as while its machine sleeps: the report of the end lies there unread. It is no
# reason to say that the run is late, where flowrun stood still before it was.
sed 's/^timeout:.*/&\nlate: 5s/' limit.yaml > late.yaml
rm go
start late.yaml
pid=$!
until_true 20 holds out "a@local running"
kill -STOP "$pid"
stood=$(clock)
until_true 20 find_tasks
touch go
until_true 20 are_reaped
ended=$(clock)
until_true 20 is_past $((ended + 7000))
kill -CONT "$pid"
wait "$pid"
same "goes on where it stood" $? 0
"$flowrun" status --json > status
same "it ended when it did, not when that was read" "$(python3 -c '
import json, sys
run, ended, stood = json.load(open("status")), int(sys.argv[1]), int(sys.argv[2])
said = "is not over after" in open("out").read()
print(run["state"], max(run["tasks"][0]["ended_wall"], run["ended_wall"]) < ended + 7000,
      stood < run["started_wall"] + 5000 and said)
' "$ended" "$stood")" "succeeded True False"
finish
