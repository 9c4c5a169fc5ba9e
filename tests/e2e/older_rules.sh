#!/bin/bash
# A run that an older flowrun stored, whose file today's rules refuse or read in another way: it
# resumes, cancels and retries as it was meant. A file that is given anew follows today's rules.
. "$(dirname "$0")/lib.sh"
begin "$1"

mkdir sub data
echo from-data > data/x
printf 'nodes: [{name: n1, executor: local}, {name: n2, executor: local}]\n' > sub/nodes.yaml
cp sub/nodes.yaml nodes.yaml

# The same pipeline for both: each line that differs is given as it is today and as it was.
pipeline() { # TODAY|OLDER
    local line
    while IFS= read -r line; do
        case $line in
        NOW:*) [ "$1" = TODAY ] && printf '%s\n' "${line#NOW:}" ;;
        WAS:*) [ "$1" = OLDER ] && printf '%s\n' "${line#WAS:}" ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <<'END'
name: rules
params: {env: {default: test}, dry: {type: bool, default: "yes"}}
NOW:nodes: nodes.yaml
WAS:nodes: nodes.yaml
env: {W: "${{ env.W }}"}
tasks:
  first: {on: n1, run: "echo first >> $W/ran; until test -e $W/go; do sleep 0.05; done"}
NOW:  text: {needs: [first], when: "true", run: "echo text >> $W/ran"}
WAS:  text: {needs: [first], when: "${{ params.env }} == 'prod'", run: "echo text >> $W/ran"}
NOW:  not: {needs: [first], when: "true", run: "echo not >> $W/ran"}
WAS:  not: {needs: [first], when: "!${{ params.dry }}", run: "echo not >> $W/ran"}
NOW:  file: {needs: [first], on: n2, files: {x: ../data/x}, run: "cat x >> $W/ran"}
WAS:  file: {needs: [first], on: n2, files: {x: data/x}, run: "cat x >> $W/ran"}
NOW:  value: {needs: [first], env: {V: "true yes"}, run: "echo $V >> $W/ran"}
WAS:  value: {needs: [first], env: {V: "${{ params.env || 'b' }} ${{ params.dry }}"}, run: "echo $V >> $W/ran"}
  last: {needs: [text, not, file, value], run: "echo last >> $W/ran; test -e $W/good"}
END
}
pipeline TODAY > sub/p.yaml
pipeline OLDER > older.yaml

# Starts the pipeline, kills flowrun while its first task runs, and makes the stored run older.
leave() {
    rm -f go good ran
    start sub/p.yaml
    pid=$!
    until_true 20 holds out "first@n1 running"
    kill -9 "$pid"
    wait "$pid" 2> /dev/null
    check "the stored run is made older" \
        python3 "$repo/tests/e2e/older_rules.py" "$FLOWRUN_HOME" sub/p.yaml older.yaml "$@"
}

cp older.yaml sub/older.yaml
"$flowrun" validate sub/older.yaml > refused 2>&1
same "today's rules refuse that file" $? 2

leave
start resume
pid=$!
touch go
wait "$pid"
same "resume: the last task fails" $? 1
same "resume: each ran once, by its rules" "$(sort ran | tr '\n' ' ')" \
    "first from-data last not text true yes "
touch good
"$flowrun" retry > out 2>&1
same "retry" $? 0
same "retry: what failed alone" "$(grep -c . ran)" 7

leave
"$flowrun" cancel > cancel 2>&1
same "cancel of a run that nobody drives" $? 0
has "cancel: proven" cancel "1 task stopped, no process of them is left"
same "cancel: nothing more ran" "$(cat ran)" first

leave
start resume --file sub/p.yaml
pid=$!
touch go good
wait "$pid"
same "a file of today" $? 0
kept=$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(
    "SELECT params FROM run ORDER BY no DESC").fetchone()[0])' "$FLOWRUN_HOME/state.db")
check "its rules are stored" grep -q '"rules":2' <<< "$kept"

leave 99
for c in resume cancel; do
    "$flowrun" $c > out 2>&1
    same "$c of newer rules" $? 7
    has "$c: says so" out "was begun by a newer flowrun: its file follows rules 99, this flowrun knows up to "
done
start resume --file sub/p.yaml
pid=$!
touch go good
wait "$pid"
same "newer rules, and a file of today" $? 0
same "nothing is left running" "$(left)" ""
finish
