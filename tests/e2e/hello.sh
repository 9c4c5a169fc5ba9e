#!/bin/bash
# The smallest pipeline on three local nodes: its output, its table, its logs, its JSON.
. "$(dirname "$0")/lib.sh"
begin "$1"
cp -r "$repo/examples" .

"$flowrun" examples/hello.yaml -p who=everybody > out 2>&1
same "exit code" $? 0
has "output of a member" out "greet@n3 | Hello, everybody, from n3"
has "output through an expression" out "finish@n1 | run hello greeted everybody on 3 nodes"
has "the end" out "run 1 succeeded"
check "closing table" grep -Eq '^greet +n2 +succeeded +1 +[0-9.]+m?s' out
hasnt "hook of another outcome" out "complain@control running"

"$flowrun" logs 1 greet > logs
same "lines of the gang" "$(lines logs)" 3
has "rank and node in front" logs "[2] greet@n3 | Hello, everybody, from n3"
"$flowrun" logs greet@n1 > logs
same "lines of one member" "$(lines logs)" 1
"$flowrun" logs 1 nothing > out 2>&1
same "unknown task" $? 2
has "unknown task is named" out "run 1 has no task 'nothing'"
"$flowrun" logs 99 > out 2>&1
same "unknown run" $? 2
has "unknown run is named" out "there is no run 99; 'flowrun runs' lists all"

"$flowrun" examples/hello.yaml --json > json 2>&1
same "exit code with --json" $? 0
check "every line is JSON" python3 -c '
import json, sys
events = [json.loads(line) for line in open("json")]
states = [(e["task"], e["node"]) for e in events if e["event"] == "state" and e["state"] == "succeeded"]
assert sorted(states) == [("finish", "n1"), ("greet", "n1"), ("greet", "n2"), ("greet", "n3"), ("pick", "n1")], states
assert events[0]["event"] == "begin" and events[-1]["event"] == "run" and events[-1]["outcome"] == "succeeded"
'
pids=
for i in 1 2 3; do
    "$flowrun" examples/hello.yaml > "many.$i" 2>&1 &
    pids="$pids $!"
done
for p in $pids; do
    wait "$p"
    same "runs beside each other" $? 0
done
same "none disturbs another" "$(cat many.* | grep -c 'unreachable\|cannot')" 0
"$flowrun" runs > out
same "five runs and a heading" "$(lines out)" 6
for words in "status 1" runs "runs --json" "logs 1" "graph examples/hello.yaml" "validate examples/hello.yaml" "examples/hello.yaml --json"; do
    "$flowrun" $words > /dev/full 2> err
    same "a full output: $words" $? 7
    has "is said: $words" err "the output could not be written"
done
mkfifo pipe
exec 8<> pipe 9> pipe 8<&-
"$flowrun" logs -f 1 >&9 2> err
same "a reader that left is no error" $? 0
exec 9>&-
same "and nothing is said of it" "$(cat err)" ""
"$flowrun" status 1 > out
has "status" out "of hello: succeeded"
has "status shows outputs" out "pick@n1 gave "
"$flowrun" graph examples/hello.yaml > out
has "graph as text" out "greet"
"$flowrun" graph -f dot examples/hello.yaml > out
has "graph as dot" out "digraph"
"$flowrun" graph -f svg examples/hello.yaml > out
check "graph as svg" python3 -c 'import sys, xml.dom.minidom as m
boxes = [t.firstChild.data for t in m.parse("out").getElementsByTagName("text")]
assert any(b.startswith("greet") for b in boxes), boxes'
for word in run resume retry status runs logs cancel validate graph nodes schema version; do
    "$flowrun" help "$word" > out
    same "help $word" $? 0
    has "help $word" out "flowrun $word"
done
"$flowrun" help causes > out
for cause in $(python3 -c 'import json, sys
retry = json.load(open(sys.argv[1]))["$defs"]["retry"]["properties"]["on"]
print(*retry["anyOf"][0]["anyOf"][0]["enum"])' "$repo/schema/pipeline.schema.json"); do
    check "help causes: $cause" grep -q "^  $cause " out
done
has "the case in which a command runs twice" out "list the causes without lost"
has "which causes that leaves" out "on: [exit, signal, timeout, start_failed, node_lost, unreachable, time_limit, preempted]}"
"$flowrun" help exit-codes > out
check "the table of README" bash -c 'sed -n "s/^  \([0-9]\)  \(.*\)/| \1 | \2 |/p" out | while read -r l; do grep -qxF -- "$l" "$0" || exit 1; done' "$repo/README.md"
"$flowrun" validate examples/hello.yaml > out
has "validate" out "3 tasks on 3 nodes, nothing wrong"
"$flowrun" nodes --check examples/clusters/local-3.yaml > out
same "nodes --check" $? 0
check "three nodes answer" test "$(grep -c ' ok' out)" = 3
if command -v script > /dev/null; then
    cat > t.yaml <<'END'
name: t
nodes: [{name: n1, executor: local}]
env: {OUT: "${{ env.PWD }}/out"}
tasks:
  t:
    timeout: 60s
    run: |
      until grep -aEq 't +running +0/1' "$OUT"; do sleep 0.05; done
      printf '\033]0;evil\007\n'
END
    TERM=xterm script -qec "stty cols 40 rows 10; '$flowrun' t.yaml" /dev/null > out < /dev/null
    same "on a terminal" $? 0
    has "escapes are made visible" out '\x1b]0;evil\x07'
    check "no line of it is wider than the terminal" awk '/[01]\/1/ { gsub(/\r|\033\[[0-9;?]*[A-Za-z]/, ""); if (length > 40) exit 1 }' out
fi

# Whatever the umask: nobody else reads what is kept, or comes by a socket; the work folder is the
# task's own.
mkdir ship
echo x > ship/f
cat > loose.yaml <<'END'
nodes: [{name: n1, executor: local}]
env: {OUT: "${{ env.PWD }}/loose", HOME_OF_RUN: "${{ env.FLOWRUN_HOME }}"}
tasks:
  t:
    files: {in: ship}
    outputs: [k]
    run: |
      echo k=1 > "$FLOWRUN_OUTPUT"
      umask > $OUT.umask
      find "$HOME_OF_RUN" -perm /077 ! -path '*/work/*' > $OUT
END
chmod 777 ship ship/f
(umask 0; FLOWRUN_HOME=$work/loose.home "$flowrun" loose.yaml) > out 2>&1
same "umask 0" $? 0
same "umask 0 in the task" "$(cat loose.umask)" 0000
same "nothing is open to others while it runs" "$(cat loose)" ""
same "nor afterwards" "$(find loose.home -perm /077 ! -path '*/work/*')" ""
same "nothing is left running" "$(left)" ""
finish
