#!/bin/bash
# Every attempt has a folder of its own, and its program is looked for on its own PATH: what a task
# does to its folder reaches nothing of the node, and what does not start says why.
. "$(dirname "$0")/lib.sh"
begin "$1"

# runs WHAT TASKS: a pipeline of these tasks succeeds, and so does the next run on that node.
runs() {
    printf 'name: folder\nnodes: [{name: n1, executor: local}]\n%s\n' "$2" > p.yaml
    timeout 140 "$flowrun" p.yaml > out 2>&1
    same "$1: exit code" $? 0
    timeout 140 "$flowrun" next.yaml > out2 2>&1
    same "the run after: $1" $? 0
}
printf 'name: next\nnodes: [{name: n1, executor: local}]\ntasks: {a: {run: "echo on"}, b: {needs: [a], run: "echo on"}}\n' > next.yaml
node=$FLOWRUN_HOME/nodes/n1

runs "a file called journal" 'tasks: {t: {run: "echo x > journal; echo y > lock; mkdir log s store; test -f journal"}, u: {needs: [t], run: "true"}}'
runs "rm -rf ./*" 'tasks: {t: {run: "rm -rf ./* ./.[!.]*"}, u: {needs: [t], run: "true"}}'
runs 'rm -rf "$FLOWRUN_DIR"/*' 'tasks: {t: {run: "test -n \"$FLOWRUN_DIR\" && touch x && rm -rf \"$FLOWRUN_DIR\"/*"}, u: {needs: [t], run: "true"}}'
for f in journal lock log s store work; do check "the node still has $f" test -e "$node/$f"; done

# What of a folder is not shipped: by its own list, and by the pipeline's.
mkdir -p src/.git src/.venv/bin src/data src/sub/build
touch src/.git/config src/.venv/bin/python src/data/big src/data/kept src/main.py src/main.pyc src/sub/m.pyc src/sub/m.py src/sub/build/x
mkfifo src/pipe
printf '# not for nodes\n.git/\n.venv\n*.pyc\npipe\n' > src/.flowrunignore
cat > ship.yaml <<'END'
tasks:
  some:
    files: {src: {path: src, exclude: ["/data/*", "!kept", sub/build/]}}
    run: 'find src -type f | LC_ALL=C sort | tr "\n" " "'
  more: {files: {src: src}, run: 'find src -type f | LC_ALL=C sort | tr "\n" " "'}
END
timeout 60 "$flowrun" ship.yaml > out 2>&1
same "a folder with a list of what stays here" $? 0
has "… and the pipeline's" out "some@local | src/.flowrunignore src/data/kept src/main.py src/sub/m.py"
has "… by itself" out "more@local | src/.flowrunignore src/data/big src/data/kept src/main.py src/sub/build/x src/sub/m.py"
printf 'tasks: {t: {files: {src: {exclude: [a]}, b: {path: src, excludes: [a]}}, run: "true"}}\n' > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
same "a file without a path" $? 2
has "… is named" out "wrong.yaml:1:26: a file needs the key 'path'"
has "… and a wrong key" out "a file has no key 'excludes'; did you mean 'exclude'?"

# What is shipped is what lies there when the task starts, also where the run shipped it before.
cat > change.yaml <<'END'
nodes: [{name: n1, executor: local}, {name: n2, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  one: {on: n1, run: "mkdir $W/made; echo one > $W/made/f; cp $W/made/f $W/single"}
  first: {on: n1, needs: [one], files: {d: made, f: single}, run: "cat d/f f"}
  two: {on: n1, needs: [first], run: "echo two > $W/made/f; cp $W/made/f $W/single"}
  there: {on: n1, needs: [two], files: {d: made, f: single}, run: "cat d/f f"}
  elsewhere: {on: n2, needs: [two], files: {d: made, f: single}, run: "cat d/f f"}
END
timeout 60 "$flowrun" change.yaml > out 2>&1
same "files that change in a run" $? 0
for t in first@n1:one there@n1:two elsewhere@n2:two; do
    same "… what ${t%:*} has" "$(grep -cx ".* ${t%:*} | ${t#*:}" out)" 2
done
for f in made single; do has "… that $f differs is said" out "$work/$f is not as this run shipped it first"; done

# The work folder of the inventory is one folder for all who read its name, and made when it is not there.
mkdir -p user
at() { printf 'name: work\nnodes: [{name: n1, work: "%s"}]\ntasks:\n  a: {run: "umask; mkdir -p $FLOWRUN_WORK/out; echo kept > $FLOWRUN_WORK/out/f"}\n  b: {needs: [a], env: {HOME: /elsewhere}, run: "cd /; pwd; cat $FLOWRUN_WORK/out/f; echo at $FLOWRUN_WORK"}\n  c: {needs: [b], env: {HOME: /elsewhere}, uses: publish, with: {from: out, to: pub}}\n' "$1" > work.yaml; }
while read -r name want; do
    at "$name"
    HOME=$work/user timeout 60 "$flowrun" work.yaml > out 2>&1
    same "work: $name" $? 0
    has "… is for the next task, too" out "b@n1 | kept"
    has "… and is absolute" out "b@n1 | at $want"
    check "… there" test -f "$want/out/f"
    check "… for built-in tasks as well" test -f "$want/pub/latest/f"
done <<END
wk $work/user/wk
~/a/b $work/user/a/b
~ $work/user
$work/new/deep $work/new/deep
END
same "one that was made is private" "$(stat -c %a "$work/new/deep")" 700
touch file
at "$work/file/x"
timeout 60 "$flowrun" work.yaml > out 2>&1
same "one that cannot be" $? 1
has "is named before the first task" out "the work folder $work/file/x: "

# The folder is the working folder, TMPDIR and FLOWRUN_DIR of task, hook and sidecar; no two share it.
show='pwd; echo $TMPDIR; echo $FLOWRUN_DIR'
runs "who has which folder" "env: {W: $work}
tasks:
  t:
    run: |
      { $show; } > \$W/t
      touch kept
      while [ ! -e side-was-here ]; do sleep 0.01; done
    sidecars:
      - {run: '{ $show; } > \$W/s; touch side-was-here; sleep 60'}
  u: {needs: [t], argv: [sh, -c, '{ $show; } > \$W/u']}
  v: {needs: [u], env: {TMPDIR: /var/tmp}, cwd: sub, files: {sub/x: p.yaml}, run: '{ pwd; echo \$TMPDIR; } > \$W/v'}
on_exit:
  - {on: n1, run: '{ $show; } > \$W/h'}"
for f in t s u h; do
    same "folders of $f" "$(sort -u "$f" | wc -l)" 1
    case $(head -1 "$f") in "$node"/a/*) ok ;; *) bad "$f ran in $(head -1 "$f")" ;; esac
done
same "a sidecar is in its task's folder" "$(head -1 s)" "$(head -1 t)"
same "folders of three attempts" "$(cat t u h | sort -u | wc -l)" 3
same "TMPDIR that the task sets" "$(sed -n 2p v)" /var/tmp
case $(head -1 v) in "$node"/a/*/sub) ok ;; *) bad "a relative cwd: $(head -1 v)" ;; esac
check "a folder with something in it stays for a while" test -e "$(head -1 t)/kept"
until_true 20 test ! -e "$(head -1 u)" && ok

# Programs are those of the task's PATH.
mkdir bin && printf '#!/bin/sh\necho mine\n' > bin/mine && chmod +x bin/mine
runs "a program on the task's PATH" "tasks: {t: {env: {PATH: $work/bin:/usr/bin:/bin}, argv: [mine]}}"
has "its own program ran" out "mine"
runs "needs_program and argv" 'tasks: {t: {needs_program: [flowtrain], argv: [flowtrain, help]}}'
has "flowtrain ran" out "flowtrain"

# What does not start says what was not there.
fails() { # WHAT TASK TEXT…
    printf 'name: folder\nnodes: [{name: n1, executor: local}]\ntasks: {t: %s}\n' "$2" > p.yaml
    timeout 140 "$flowrun" p.yaml > out 2>&1
    same "$1: exit code" $? 1
    for text in "${@:3}"; do has "$1" out "$text"; done
}
printf '#!/no/such/shell\n' > bin/lost && chmod +x bin/lost
printf 'x' > bin/plain
fails "no such program" "{env: {PATH: $work/bin}, argv: [no-such-program]}" \
    "cannot start no-such-program: there is no such program on PATH=$work/bin"
fails "no such path" "{argv: [/no/such/program]}" "cannot start /no/such/program" "No such file"
fails "no interpreter" "{argv: [$work/bin/lost]}" "cannot start $work/bin/lost: the interpreter of its first line is not there"
fails "not executable" "{env: {PATH: $work/bin}, argv: [plain]}" "cannot start plain" "Permission denied"
fails "no such cwd" "{cwd: /no/such/folder, run: 'true'}" "its working folder (cwd) /no/such/folder cannot be used: No such file"

# Outputs that nobody declared.
fails "forgotten outputs" "{run: 'echo k=1 >> \$FLOWRUN_OUTPUT; echo l=2 >> \$FLOWRUN_OUTPUT'}" \
    'the task declares no outputs: add the line "outputs: [k, l]" to it'
fails "one forgotten" "{outputs: [a], run: 'echo k=1 >> \$FLOWRUN_OUTPUT'}" 'output "k" is not declared: add it to the task'
finish
