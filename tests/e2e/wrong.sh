#!/bin/bash
# Wrong inputs: each ends with the right exit code and one clear line, and leaves nothing running.
. "$(dirname "$0")/lib.sh"
begin "$1"

# A pipeline around a task's lines; wrong CODE TEXT then says what must come of it.
pipeline() { printf 'name: p\nnodes: [{name: n1, executor: local}]\n%b\n' "$1" > p.yaml; }

# wrong WHAT CODE TEXT ARGS…
wrong() {
    local what=$1 code=$2 text=$3 got
    shift 3
    "$flowrun" "$@" > out 2>&1 < /dev/null
    got=$?
    same "$what: exit code" "$got" "$code"
    has "$what" out "$text"
}

# file WHAT TEXT BODY: a pipeline file that is refused, with its position in front.
file() {
    pipeline "$3"
    wrong "$1" 2 "$2" p.yaml
}

wrong "no such file" 2 "nothing.yaml" nothing.yaml
wrong "no such command" 2 "did you mean 'status'" statsu
wrong "an option before the command" 2 "options stand behind the command: 'flowrun status -v …'" -v status
wrong "no such option" 2 "did you mean '--json'" status --jsn
wrong "an option without its value" 2 "needs a value" runs --limit
wrong "a limit that is no number" 2 "not 'many'" runs -n many
wrong "too many words" 2 "what is 'b'" status a b
wrong "too few words" 2 "run needs FILE" run
wrong "no runs yet" 2 "there are no runs" status
file "broken YAML" "p.yaml:4:" 'tasks: {a: {run: x'
file "a key twice" "p.yaml:5:3: key 'a' stands here a second time" 'tasks:\n  a: {run: x}\n  a: {run: y}'
file "an unknown key" "did you mean 'needs'" 'tasks:\n  a: {run: x, neds: [b]}'
file "an unknown need" "p.yaml:4:" 'tasks:\n  a: {run: x, needs: [zz]}'
file "a cycle" "wait for each other" 'tasks:\n  a: {run: x, needs: [b]}\n  b: {run: x, needs: [a]}'
file "an unknown kind" "did you mean 'cleanup'" 'tasks:\n  a: {uses: clenup}'
file "an unknown with key" "p.yaml:4:" 'tasks:\n  a: {uses: cleanup, with: {prot: 1}}'
file "a with value of another type" "p.yaml:4:" 'tasks:\n  a: {uses: cleanup, with: {port: many}}'
file "nothing to do" "p.yaml:4:" 'tasks:\n  a: {needs: []}'
file "two things to do" "p.yaml:4:" 'tasks:\n  a: {run: x, argv: [y]}'
file "a bad duration" "p.yaml:4:" 'tasks:\n  a: {run: x, timeout: soon}'
file "an expression in a script" "env" 'tasks:\n  a: {run: "echo ${{ run.id }}"}'
file "an unknown parameter" "p.yaml:4:" 'tasks:\n  a: {argv: [echo, "${{ params.x }}"]}'
file "an output that nobody declared" "p.yaml:5:" 'tasks:\n  a: {run: x}\n  b: {needs: [a], argv: [echo, "${{ tasks.a.outputs.k }}"]}'
file "an output of a task that is not needed" "p.yaml:5:" 'tasks:\n  a: {run: x, outputs: [k]}\n  b: {argv: [echo, "${{ tasks.a.outputs.k }}"]}'
file "a text with a colon" "expected quotes around a text with ': ' in it" 'tasks:\n  a:\n    run: echo: hi'
file "an empty argv" "p.yaml:4:13: argv is an empty list; expected a list of at least one text" 'tasks:\n  a: {argv: []}'
file "a number for a map" "retry is '3'; expected a map of its keys, like {times: 3}" 'tasks:\n  a: {run: x, retry: 3}'
file "a key of another tool" "a task has no key 'depends_on'; expected needs: [TASK]" 'tasks:\n  a: {run: x}\n  b: {run: x, depends_on: [a]}'
file "a merge key with a number" "p.yaml:5:7: << takes a map, *NAME of one, or a list" 'tasks:\n  a: &a {run: x}\n  b: {<<: [*a, 3]}'
file "no such template" "p.yaml:4:16: there is no template 'u'; expected a name under templates:" 'tasks:\n  a: {extends: u, run: x}\ntemplates: {t: {timeout: 1m}}'
file "an end twice" "p.yaml:5:50: 'failed' stands in states twice" 'tasks:\n  a: {run: x}\n  b: {run: x, needs: [{task: a, states: [failed, failed]}]}'
file "nothing where a text stands" "p.yaml:4:24: timeout is nothing; expected a text" 'tasks:\n  a: {run: x, timeout: }'
file "an end that is none" "no task ends as 'done'; expected succeeded, failed" 'tasks:\n  a: {run: x}\n  b: {run: x, needs: [{task: a, states: [done]}]}'
file "no time at all" "timeout is '0s'; expected never or a duration like 10s, above zero" 'tasks:\n  a: {run: x, timeout: 0s}'
file "a name of 65 characters" "at most 64" "tasks:\n  $(printf 'x%.0s' $(seq 65)): {run: x}"
file "a schedule" "p.yaml:3:21: cron: hour 24 is not within 0-23; midnight is 0" 'schedule: {cron: "0 24 * * *"}\ntasks:\n  a: {run: x}'
file "a file that is not there" "p.yaml:4:" 'tasks:\n  a: {run: x, files: {f: nothing.txt}}'
pipeline 'params: {n: {type: int, default: 1}}\ntasks:\n  a: {argv: [echo, "${{ params.n }}"]}'
wrong "a parameter of another type" 2 "n" p.yaml -p n=many
wrong "a parameter that is not there" 2 "m" p.yaml -p m=1
wrong "a parameter without value" 2 "n" p.yaml -p n
printf 'secrets:\n  t: {env: NOT_SET}\n  f: {file: no.secret}\n  c: {command: "touch ran"}\nnodes:\n  - {name: n1, address: 192.0.2.1, key: no.key, known_hosts: no.hosts}\ntasks:\n  make: {on: control, run: "echo > made"}\n  a: {needs: [make], run: "true", files: {f: made}}\n  b: {uses: train, with: {model: no.model, dataset: d, dataset_dir: "node:/data"}}\n  c: {on: control, run: "true", files: {f: no.txt, g: p.yaml}}\n' > p.yaml
for words in validate run; do
    wrong "$words: what is not here" 2 "6 mistakes" $words p.yaml
    has "$words: a variable" out "p.yaml:2:3: secret 't': the variable NOT_SET is not set"
    has "$words: a secret's file" out "p.yaml:3:3: secret 'f': "
    has "$words: a key" out "p.yaml:6:5: key of node 'n1': $work/no.key: No such file"
    has "$words: known hosts" out "p.yaml:6:5: known_hosts of node 'n1': $work/no.hosts: No such file"
    has "$words: a file in with" out "p.yaml:10:34: $work/no.model: No such file or directory; expected a file or folder"
    has "$words: a file of a task" out "p.yaml:11:44: $work/no.txt: No such file"
    same "$words: in the file's order" "$(sed -n 's/^p.yaml:\([0-9]*\):.*/\1/p' out | tr '\n' ' ')" "2 3 6 6 10 11 "
done
same "no command of a secret ran" "$(ls ran 2> /dev/null)" ""
pipeline 'secrets: {s: {env: NOT_SET}}\ntasks:\n  a: {run: "true", env: {S: "${{ secrets.s }}"}}'
wrong "a secret that is not set" 2 "p.yaml:3:11: secret 's': the variable NOT_SET is not set" p.yaml
printf 'name: p\nnodes: no.yaml\ntasks: {a: {run: x}}\n' > p.yaml
wrong "an inventory that is not there" 2 "p.yaml:2:8: nodes: cannot open $work/no.yaml" validate p.yaml
same "nothing was stored of all this" "$("$flowrun" runs | wc -l)" 1
same "no folder of a run either" "$(ls "$FLOWRUN_HOME/runs" 2> /dev/null)" ""

pipeline 'tasks:\n  a: {argv: [/no/such/program]}'
wrong "a program that is not there" 1 "/no/such/program" p.yaml
pipeline 'tasks:\n  a: {run: "echo other=1 >> $FLOWRUN_OUTPUT", outputs: [k]}'
wrong "an output that was not declared" 1 "other" p.yaml
"$flowrun" validate p.yaml > out
same "an output that validate sees is not declared" $? 0
has "and says" out "p.yaml:4:12: note: the script of 'a' writes the output 'other', which the task does not declare; expected outputs: [other]"
pipeline 'tasks:\n  a: {uses: cleanup, on: head, with: {port: 99999999}, retry: {times: 3, delay: 10ms}}'
wrong "a built-in task that refuses its input is not retried" 1 "a@n1 failed" p.yaml --verbose
same "one attempt" "$(grep -c 'a@n1 starting' out)" 1
check "the table says why" grep -Eq "^a +n1 +failed +1 +[0-9.]+m?s  exit code 64: (cleanup: )?input 'port' is 99999999; expected 1 to 65535" out
printf 'name: p\nnodes: [{name: far, address: 127.0.0.1, port: 1, user: nobody, executor: ssh}]\ntasks: {a: {run: x}}\n' > ssh.yaml
"$flowrun" nodes --check ssh.yaml > out 2>&1
same "a node that is not there: exit code" $? 6
has "a node that is not there" out "cannot be used"

pipeline 'tasks:\n  a: {run: "true"}'
wrong "an unknown run" 2 "there is no run '99'" status 99
wrong "a node of a run that is over is abandoned" 2 "no run can be resumed: all are over" resume --abandon nx
FLOWRUN_HOME=/proc/none wrong "a home that cannot be made" 7 "/proc/none" p.yaml
mkdir other
cp -r "$FLOWRUN_HOME/state.db" other/
FLOWRUN_HOME=$work/other "$flowrun" runs > out
python3 -c 'import sqlite3; sqlite3.connect("other/state.db").execute("PRAGMA user_version = 99")'
FLOWRUN_HOME=$work/other wrong "a home of a newer flowrun" 7 "use a newer one" runs
echo "this is no database, only text that is long enough to be read as a header" > other/state.db
rm -f other/state.db-*
FLOWRUN_HOME=$work/other wrong "a state that is no database" 7 "state.db" runs
mkdir empty
cp "$flowrun" empty/flowrun
flowrun=$work/empty/flowrun wrong "no flownode" 2 "there is no flownode" p.yaml
same "nothing is left running" "$(left)" ""

# a full disk: the run waits, says so, and goes on when there is room
if mkdir small && mount -t tmpfs -o size=600k tmpfs small 2> /dev/null; then
    trap 'umount -l "$work/small"; cleanup' EXIT
    export FLOWRUN_HOME=$work/small/home
    pipeline 'env: {W: "${{ env.W }}"}\ntasks:\n  a: {run: "echo x; until test -e $W/full; do sleep 0.1; done"}\n  b: {needs: [a], run: "echo b"}'
    start p.yaml
    pid=$!
    until_true 20 holds out "a@n1 | x"
    head -c 1m /dev/zero > small/filler 2> /dev/null
    touch full
    until_true 30 holds out "the state cannot be written"
    rm small/filler
    wait "$pid"
    same "a full disk: exit code" $? 0
    has "it goes on" out "the state can be written again"
fi
finish
