#!/bin/bash
# Expressions as a user meets them: what when: skips, what && and || give, what is refused.
. "$(dirname "$0")/lib.sh"
begin "$1"

# ran WHAT NAMES ARGS…: the pipeline succeeds, and exactly these tasks were not skipped.
ran() {
    local what=$1 want=$2
    shift 2
    "$flowrun" v.yaml --json "$@" > json 2> err
    same "$what: exit code" $? 0
    same "$what" "$(python3 -c '
import json
states = [json.loads(line) for line in open("json")]
print(" ".join(sorted(e["task"] for e in states if e["event"] == "state" and e["state"] == "succeeded")))')" "$want"
}

cat > v.yaml <<'END'
params:
  env: {default: test}
  dry: {type: bool, default: true}
nodes: [{name: n1, executor: local}]
tasks:
  braces: {run: "true", when: "${{ params.env == 'prod' }}"}
  bare: {run: "true", when: params.env == 'prod'}
  wet: {run: "true", when: "!params.dry"}
  wet_braces: {run: "true", when: "${{ !params.dry }}"}
  first: {run: "true", when: "true || params.dry && false"}
  late: {run: "true", when: "node.name == 'n1' || attempt == 1 && node.index == 7"}
  never: {run: "true", when: "(node.name == 'n1' || attempt == 1) && node.index == 7"}
  which:
    outputs: [size]
    env: {SIZE: "${{ params.env == 'prod' && 'large' || node.name == 'n2' && 'medium' || 'small' }}"}
    run: echo "size=$SIZE" >> "$FLOWRUN_OUTPUT"
  large: {run: "true", needs: [which], when: tasks.which.outputs.size == 'large'}
  small: {run: "true", needs: [which], when: "${{ tasks.which.outputs.size == 'small' && 'yes' }}"}
END
ran "a test run" "first late small which"
ran "a run for prod" "bare braces first large late which" -p env=prod
ran "not dry, in another word" "first late small wet wet_braces which" -p dry=no

# around WHEN LINE: refused, with the line to write; that line is accepted.
around() {
    printf 'params: {env: {default: test}, dry: {type: bool, default: true}}\ntasks:\n  a:\n    run: "true"\n    when: "%s"\n' "$1" > w.yaml
    "$flowrun" w.yaml > out 2>&1
    same "refused: $1" $? 2
    has "and where: $1" out "w.yaml:5:11: when has text around \${{ }}; expected one expression: $2"
    sed -i "s|^    when: .*|    ${2//&/\\&}|" w.yaml
    "$flowrun" validate w.yaml > out 2>&1
    same "what it says to write: $2" $? 0
}
around "\${{ params.env }} == 'prod'" "when: \${{ params.env == 'prod' }}"
around "!\${{ params.dry }}" "when: \${{ !params.dry }}"
around "'\${{ params.env }}' == 'prod' && !\${{ params.dry }}" "when: \${{ params.env == 'prod' && !params.dry }}"
# What built-in tasks did: sentences for people, JSON for programs.
cat > built.yaml <<'END'
nodes: [{name: n1, executor: local}]
tasks:
  make: {run: 'mkdir "$FLOWRUN_WORK/src" "$FLOWRUN_WORK-2" && echo x > "$FLOWRUN_WORK/src/f"'}
  tidy: {uses: cleanup, needs: [make]}
  put: {uses: publish, needs: [tidy], with: {from: src, to: "published/${{ 'here' }}"}}
END
"$flowrun" built.yaml > out 2>&1
same "built-in tasks" $? 0
home=$FLOWRUN_HOME/nodes/n1
hasnt "no JSON for people" out '{"'
hasnt "nor in the table" out _result
has "a task that had nothing to do says so" out "tidy@n1 | cleanup: nothing to do"
has "paths are those of the work folder" out "publish: switch published/here/latest from nothing to "
check "but outputs are whole" grep -q "put@n1 gave path=$home/work/published/here/" out
"$flowrun" logs > logs
hasnt "no JSON in the log" logs '{"'
"$flowrun" status > status
hasnt "nor in status" status _result
has "which has the others" status "put@n1 gave version="
"$flowrun" status --json > json
check "it is in status --json" python3 -c '
import json, sys
tasks = {t["task"] + "@" + t["node"]: t["outputs"] for t in json.load(open("json"))["tasks"]}
put = tasks["put@n1"]["_result"]
assert put["task"] == "publish" and put["ok"] is True, put
assert put["outputs"]["path"] == tasks["put@n1"]["path"], put
assert any(sys.argv[1] + "/work/published/here/latest" in t for v in put.values() if isinstance(v, list) for t in v), put
assert tasks["tidy@n1"]["_result"]["ok"] is True
' "$home"
same "nothing of what was refused was run" "$("$flowrun" runs | wc -l)" 5

# Variables of files: as they were at submit, below those of env:.
printf '\357\273\277# of all tasks\nA=1\r\n  B=two words = "quoted"\n\n\tC=\n' > all.env
printf 'B=own\nD=$A ${{ x }}\n' > own.env
cat > files.yaml <<'END'
env_file: all.env
env: {C: "3"}
tasks:
  a: {env_file: [own.env], env: {E: "5"}, run: 'echo "a $A|$B|$C|$D|$E"'}
  b: {run: 'echo "b $A|$B|$C|$D|$E"'}
END
"$flowrun" files.yaml > out 2>&1
same "files of variables" $? 0
has "the task's own" out 'a@local | a 1|own|3|$A ${{ x }}|5'
has "the pipeline's" out 'b@local | b 1|two words = "quoted"|3||'
rm all.env own.env
"$flowrun" retry --from a > out 2>&1
same "the run has what they held" $? 0
has "… again" out 'a@local | a 1|own|3|$A ${{ x }}|5'
"$flowrun" validate files.yaml > out 2>&1
same "one that is gone" $? 2
has "is named" out "files.yaml:1:11: env_file: cannot open $work/all.env: No such file or directory"
printf 'export A=1\nA\nok=1\nFLOWRUN_X=1\n' > all.env
: > own.env
"$flowrun" validate files.yaml > out 2>&1
same "lines that are none" $? 2
has "export" out "files.yaml:1:11: $work/all.env:1: 'export A' cannot be the name of a variable; expected NAME=VALUE"
has "no value" out "files.yaml:1:11: $work/all.env:2: 'A' has no value"
has "a name of ours" out "files.yaml:1:11: $work/all.env:4: 'FLOWRUN_X' cannot be the name of a variable"
hasnt "the good line" out ":3:"

# What is too long for one variable or argument is named: before the run where it is known, else there.
long=$(head -c 140000 /dev/zero | tr '\0' x)
printf 'tasks: {t: {env: {LONG: %s}, run: "true"}, u: {argv: [echo, %s]}}\n' "$long" "$long" > long.yaml
"$flowrun" validate long.yaml > out 2>&1
same "too long" $? 2
has "a variable" out "env LONG has 140000 bytes; the kernel takes less than 131072 in one variable: ship it with"
has "an argument" out "an argument has 140000 bytes; the kernel takes less than 131072 in one argument: ship it with"
cat > long.yaml <<'END'
params: {x: {default: "", type: string}}
secrets: {x: {command: "head -c 50000 /dev/zero | tr '\\0' y"}}
tasks: {t: {env: {LONG: "${{ secrets.x }}${{ secrets.x }}${{ secrets.x }}"}, run: "true"}}
END
"$flowrun" long.yaml > out 2>&1
same "one that is known there" $? 1
has "is named" out "the variable LONG has 150000 bytes; the kernel takes at most 131072 in one, a file holds more"
hasnt "and not shown" out yyy

# ---- an expression that has no value when its task is to start ----
cat > none.yaml <<'END'
nodes: [{name: n1, executor: local}]
defaults: {retry: {times: 2, delay: 10ms, on: [start_failed, exit]}}
rerun: {times: 2, after: 1s, on: [start_failed, exit]}
tasks:
  gives: {run: 'echo k=abc >> "$FLOWRUN_OUTPUT"', outputs: [k]}
  skips: {run: "true", when: "false", outputs: [k]}
  order: {needs: [gives], when: tasks.gives.outputs.k > 3, run: "true"}
  pair: {needs: [gives], on: all, gang: true, when: tasks.gives.outputs.k > 3, run: "true"}
  absent: {needs: [skips], when: tasks.skips.outputs.k, run: "true"}
  env: {needs: [skips], env: {K: "${{ tasks.skips.outputs.k }}"}, run: "true"}
  file: {needs: [gives], files: {f: "${{ tasks.gives.outputs.k < 3 }}"}, run: "true"}
  argv: {needs: [gives], argv: [echo, "${{ tasks.gives.outputs.k < 3 }}"]}
  with: {needs: [gives], uses: publish, with: {from: "${{ tasks.gives.outputs.k < 3 }}", to: x}}
END
"$flowrun" none.yaml > out 2>&1
same "the run fails; no node is to blame" $? 1
hasnt "nothing is tried again" out retrying
hasnt "nor is the run" out "runs again from"
"$flowrun" status --json > json
order="'abc' and '3' have no order; expected numbers"
gone="\${{ tasks.skips.outputs.k }}: skips@n1 (skipped) gave no output 'k'"
for row in "order|when: $order" "pair|when: $order" "absent|when: $gone" "env|$gone" "file|$order" "argv|$order" "with|$order"; do
    check "the reason of ${row%%|*} is the expression's" python3 -c '
import json, sys
name, _, why = sys.argv[1].partition("|")
t = next(t for t in json.load(open("json"))["tasks"] if t["task"] == name)
assert t["state"] == "failed" and t["cause"] == "expression" and t["reason"].endswith(why), t
assert t["attempts"] == (0 if why.startswith("when") else 1), t
' "$row"
done
printf 'tasks: {a: {run: x, retry: {times: 1, on: [expression]}}}\n' > on.yaml
"$flowrun" on.yaml > out 2>&1
same "it is no cause to try again" $? 2
has "which says so" out "is no cause to try again"
finish
