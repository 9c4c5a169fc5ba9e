#!/bin/bash
# Odd bytes in parameters, outputs, names and logs: they reach the task as they are, or are refused,
# and no terminal sees a control byte.
. "$(dirname "$0")/lib.sh"
begin "$1"

# No terminal may see these: C0 but newline and tab, DEL, C1 in UTF-8, and bytes that are no UTF-8.
clean() {
    same "$1 has no control bytes" "$(LC_ALL=C grep -caP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$2")" 0
    check "$1 is UTF-8" iconv -f UTF-8 -t UTF-8 -o /dev/null "$2"
}

cat > p.yaml <<'YAML'
name: odd
nodes: [{name: n1, executor: local}]
params: {v: {default: ""}}
env: {W: "${{ env.W }}"}
tasks:
  give:
    env: {V: "${{ params.v }}"}
    outputs: [v]
    run: |
      printf %s "$V" > $W/given
      printf '%s\n' "$V"
      { echo 'v<<_END_OF_V_'; printf '%s\n' "$V"; echo _END_OF_V_; } > "$FLOWRUN_OUTPUT"
  take:
    needs: [give]
    env: {V: "${{ tasks.give.outputs.v }}"}
    argv: [sh, -c, 'printf %s "$V" > $W/taken; printf %s "$1" > $W/arg', sh, "${{ tasks.give.outputs.v }}"]
YAML
# Each value goes through a parameter, the environment, an output, and an argument.
n=0
while IFS= read -r line; do
    n=$((n + 1))
    v=$(printf "$line.")
    v=${v%.}
    rm -f given taken arg
    "$flowrun" p.yaml -p "v=$v" > "out$n" 2>&1
    same "value $n: exit code" $? 0
    for f in given taken arg; do
        if [ "$(od -c < "$f")" = "$(printf %s "$v" | od -c)" ]; then ok; else bad "value $n in $f: $(od -c < "$f")"; fi
    done
    clean "value $n" "out$n"
    "$flowrun" status > status 2>&1
    clean "status of value $n" status
done <<'END'
it's \042quoted\042 \\ and `date` $(touch touched) ${HOME} $((1+1)) ; rm -rf x | cat & < > * ? ~
two\nlines\n\nand = more
\033[31mred\033[0m\033]0;title\007\010\177\302\233m
\303\251\360\237\230\200 <b>&amp;</b> %%s %%n ${{ params.v }} }} {{
END
same "nothing was run" "$(ls touched 2>/dev/null)" ""

# What cannot be carried is refused, by name.
refused() {
    "$flowrun" "${@:3}" > out 2>&1
    same "$1: exit code" $? "${code:-2}"
    has "$1" out "$2"
    clean "$1" out
}
refused "a parameter that is no UTF-8" "UTF-8" p.yaml -p "v=$(printf 'a\377b')"
printf 'name: x\ntasks: {t: {run: "a\\0b"}}\n' > q.yaml
refused "a NUL" "q.yaml:2:" q.yaml
printf 'name: "x\\e[31m"\ntasks: {t: {run: x}}\n' > q.yaml
refused "an escape in a name" "q.yaml:1:" q.yaml
printf 'tasks: {"t\\e[31m": {run: x}}\n' > q.yaml
refused "an escape in a task's name" "q.yaml:1:" q.yaml
printf 'nodes: [{name: n, address: "a\\e[31m"}]\ntasks: {t: {run: x}}\n' > q.yaml
refused "an escape in an address" "q.yaml:1:" q.yaml
refused "an escape on the command line" "statu" "$(printf 'statu\033[31m')"
refused "an escape in a file's name" "no" run "$(printf 'no\033[31m.yaml')"
refused "an escape in a run" "run" status "$(printf '\033[31m')"
for bad in 'k=a\377b' 'k=a\000b' 'other=1' '\033[31m=1'; do
    printf "tasks: {t: {outputs: [k], run: 'printf \"%s\" > \$FLOWRUN_OUTPUT'}}\n" "${bad//\\/\\}\\n" > q.yaml
    code=1 refused "output $bad" "t@" q.yaml
done

# All bytes in a log, and everything that shows it.
odd=$(printf 'd\033[31m')
mkdir "$odd"
cat > "$odd/all.yaml" <<'YAML'
name: all
tasks:
  all:
    run: |
      for i in 0 1 2 3; do for j in 0 1 2 3 4 5 6 7; do for k in 0 1 2 3 4 5 6 7; do printf "\\$i$j$k"; done; done; done
      echo
      printf '\033[2J\033]0;x\007bar 1\rbar 2\n\302\233 c1\n'
      exit 7
YAML
"$flowrun" "$odd/all.yaml" > out 2>&1
same "a task that fails" $? 1
"$flowrun" "$odd/all.yaml" --json > json 2>&1
for words in "status" "status --json" "logs" "logs --times" "runs" "runs --json"; do
    "$flowrun" $words > "$words" 2>&1
    clean "$words" "$words"
done
clean "run" out
clean "run --json" json
for f in json "status --json" "runs --json"; do
    check "$f is JSON" python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$f"
done

# Every command, where the folder, the words (W) and the values hold such bytes: ESC, a newline, the
# override of direction U+202E, a C1, and what is no UTF-8.
odd=$(printf 'f\033[31m\nx\342\200\256y\302\233')
word=$(printf 'w\033[31m\n\342\200\256\302\233\377')
mkdir "$odd"
cat > "$odd/p.yaml" <<'YAML'
name: odd
nodes: nodes.yaml
params: {v: {default: "a\e[31m\u009b\nb\u202e"}}
tasks:
  a: {env: {V: "${{ params.v }}"}, outputs: [k], run: "{ echo 'k<<_E_'; printf '%s\\n' \"$V\"; echo _E_; } > $FLOWRUN_OUTPUT; echo \"$V\"; exit 3"}
  b: {needs: [a], run: "echo b"}
  c: {env: {V: "${{ params.v }}"}, argv: ["${{ params.v }}"]}
YAML
echo 'nodes: [{name: n1, executor: local}]' > "$odd/nodes.yaml"
cp "$odd/p.yaml" "$odd/$(printf 'q\033[31m.yaml')"
Q=$(printf 'q\033[31m.yaml')
while read -r line; do
    set --
    for w in $line; do
        w=${w//W/$word}
        set -- "$@" "${w//Q/$Q}"
    done
    (cd "$odd" && exec timeout 140 "$flowrun" "$@") > out 2>&1 < /dev/null
    check "flowrun $line ends" test $? -lt 124
    clean "flowrun $line" out
    case $line in *--json*) ;; *) same "flowrun $line keeps its direction" "$(grep -c $'\u202e' out)" 0 ;; esac
done <<'END'
p.yaml
p.yaml --json
Q
run Q --quiet
p.yaml -p v=W
p.yaml -p W=1
p.yaml --W
W
run W
status
status --json
status W
runs
runs --json
runs W
runs -n W
logs
logs --times
logs a
logs W
logs 1 W
retry
retry W
retry 1 W
resume
resume W
resume --abandon W
cancel
cancel W
validate p.yaml
validate Q
validate W
graph p.yaml
graph -f dot p.yaml
graph -f svg p.yaml
graph -f W p.yaml
graph W
nodes p.yaml
nodes --check p.yaml
nodes nodes.yaml
nodes W
schema
schema W
version
version W
help
help run
help W
END

# What is shipped is listed and hashed in slices: other tasks go on meanwhile, and it comes whole.
mkdir -p ship/sub ship/many/more
(cd ship/many && seq 150 | split -l 1 -a 4 && cp xa* more)
seq 2000000 > ship/large
truncate -s 21M ship/holes
echo small > ship/sub/small
cat > ship.yaml <<'YAML'
nodes: [{name: a, executor: local}]
tasks:
  one: {files: {in: ship}, run: "cat in/large in/holes in/sub/small in/many/x* in/many/more/* | sha256sum"}
  two: {files: {in: ship/large, also: ship/holes}, run: "cat in also | sha256sum"}
  three: {run: "true"}
YAML
"$flowrun" ship.yaml > out 2>&1
same "large files" $? 0
has "a folder comes whole" out "one@a | $(cat ship/large ship/holes ship/sub/small ship/many/x* ship/many/more/* | sha256sum)"
has "and files" out "two@a | $(cat ship/large ship/holes | sha256sum)"

# Symlinks that a task planted are not followed: neither on the way into a node's store, nor as its
# outputs, nor to a file that is moved to another node.
mkdir outside
echo "a bird in a mine" > outside/canary
echo "shipped" > given.txt
cat > links.yaml <<'YAML'
nodes: [{name: a, executor: local}, {name: b, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  store: {on: a, files: {f: given.txt}, run: "cat f > $W/placed"}
  outs: {on: a, outputs: [k], run: "rm $FLOWRUN_OUTPUT; printf 'k=x\\n' > $W/k; ln -s $W/k $FLOWRUN_OUTPUT"}
  plant: {on: a, run: "mkdir -p $FLOWRUN_WORK/p; ln -sf $W/outside/canary $FLOWRUN_WORK/p/adapter_config.json"}
  move: {on: b, needs: [plant], uses: gather-adapters, with: {node: a, from: p}}
  folder: {on: b, needs: [plant2], uses: gather-adapters, with: {node: a, from: r, files: [x/canary]}}
  whole: {on: b, needs: [plant2], uses: gather-adapters, with: {node: a, from: r/x, files: [canary]}}
  plant2: {on: a, run: "mkdir -p $FLOWRUN_WORK/r; ln -sfn $W/outside $FLOWRUN_WORK/r/x"}
  big: {on: a, run: "mkdir -p $FLOWRUN_WORK/q; truncate -s 1M $FLOWRUN_WORK/q/f"}
  take: {on: b, needs: [big], uses: gather-adapters, with: {node: a, from: q, files: [f], max_size: 100KiB}}
YAML
"$flowrun" links.yaml > out 2>&1
same "links" $? 1
has "outputs behind a link" out "outs@a failed"
has "a file behind a link" out "move@b failed: node a: "
has "a file behind a linked folder" out "folder@b failed: node a: "
has "a folder that is a link" out "whole@b failed: node a: "
same "nothing of it is on the other node" "$(grep -rl "a bird in a mine" "$FLOWRUN_HOME/nodes/b")" ""
has "a file too large" out "take@b failed: node a: work/q/f is larger than the 102400 bytes that max_size allows"
same "nothing of it stays" "$(ls "$FLOWRUN_HOME/spool")" ""
check "the file was placed" test -s placed
rm placed
for d in "$FLOWRUN_HOME"/nodes/a/store/*/; do rm -rf "$d"; ln -s "$work/outside" "${d%/}"; done
"$flowrun" links.yaml > out 2>&1
has "a link in the store" out "links are not followed"
same "nothing was written behind it" "$(ls outside)" canary
same "nor read" "$(grep -rl "a bird in a mine" "$FLOWRUN_HOME" --include='*.log' --include='*.json' --include=state.db)" ""
mv "$FLOWRUN_HOME/nodes/a/log" "$FLOWRUN_HOME/nodes/a/logs" && ln -s "$work/outside" "$FLOWRUN_HOME/nodes/a/log"
start links.yaml # a node that was never up is waited for, two minutes
pid=$!
until_true 30 holds out "a: unreachable"
has "a link in place of a folder of the node" out "nodes/a/log is a symbolic link, which flowrun has not made: remove it"
kill -INT "$pid"
wait "$pid"
same "it is not waited for after a cancel" $? 3
same "nothing was written behind it, too" "$(ls outside)" canary
rm "$FLOWRUN_HOME/nodes/a/log" && mv "$FLOWRUN_HOME/nodes/a/logs" "$FLOWRUN_HOME/nodes/a/log"

# A limit on the size of files, which ends a program unless it asks for an error instead.
echo 'tasks: {a: {run: "yes | head -c 3000000"}}' > limit.yaml
(ulimit -f 1000; exec "$flowrun" limit.yaml) > out 2>&1
rc=$?
check "no signal ends flowrun" test $rc -lt 128
check "nor the task's supervisor" test "$(grep -c "its supervisor is gone" out)" = 0
same "files are 0600, folders 0700" "$(find "$FLOWRUN_HOME" -path "*/work/*" -o ! -type l -perm /077 -print)" ""
finish
