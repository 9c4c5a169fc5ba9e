#!/bin/bash
# Metrics of tasks: what a program appends to its file is kept beside its log, byte for byte, over kills of
# flowrun, retries, and files that begin anew; it goes with its run.
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v curl > /dev/null || skip "curl is not here"

for bad in '""' '$HOME/m.jsonl' '[a]'; do
    printf 'tasks: {a: {run: "true", metrics: %s}}\n' "$bad" > bad.yaml
    "$flowrun" validate bad.yaml > out 2>&1
    same "metrics: $bad is refused" $? 2
    has "metrics: $bad: what is expected" out "bad.yaml:1:35: "
done
printf 'tasks: {a: {run: "true", metric: m}}\n' > bad.yaml
"$flowrun" validate bad.yaml > out 2>&1
has "a slip is named" out "did you mean 'metrics'?"

cat > p.yaml <<'END'
name: p
env: {W: "${{ env.W }}"}
tasks:
  here:
    run: for i in 1 2 3; do echo "{\"step\":$i,\"loss\":$i.5}" >> m.jsonl; done; printf '{"step":4}' >> m.jsonl
    metrics: m.jsonl
  work: {run: 'mkdir -p $FLOWRUN_WORK/d; echo "{\"step\":7}" >> $FLOWRUN_WORK/d/m', metrics: $FLOWRUN_WORK/d/m}
  own: {run: 'echo "{\"step\":8}" > $FLOWRUN_DIR/m', metrics: $FLOWRUN_DIR/m, cwd: /tmp}
  none: {run: "true", metrics: nothing}
  other: {run: "true"}
END
"$flowrun" p.yaml > out 2>&1
same "the run" $? 0
dir=$(echo "$FLOWRUN_HOME"/runs/*/metrics)
printf '{"step":1,"loss":1.5}\n{"step":2,"loss":2.5}\n{"step":3,"loss":3.5}\n{"step":4}\n' > want
check "all rows of a short task" cmp "$dir"/here@*.1.jsonl want
same "below the work folder" "$(cat "$dir"/work@*.1.jsonl)" '{"step":7}'
same "below the attempt's folder" "$(cat "$dir"/own@*.1.jsonl)" '{"step":8}'
same "no file where there are no rows" "$(ls "$dir" | wc -l)" 3
"$flowrun" p.yaml > out 2>&1
same "a later run has what it wrote itself" "$(cat "$(ls -d "$FLOWRUN_HOME"/runs/*/metrics | grep -v "^$dir\$")"/work@*.1.jsonl)" '{"step":7}'
"$flowrun" rm 1 > out 2>&1
until_true 10 [ ! -e "$dir" ]
check "they go with their run" [ ! -e "$dir" ]

# A task that goes on while flowrun is killed, and is tried again. Rows are what it says it wrote.
cat > q.yaml <<'END'
name: q
env: {W: "${{ env.W }}"}
tasks:
  t:
    retry: {times: 1, delay: 10ms}
    metrics: $FLOWRUN_WORK/q
    run: |
      f=$FLOWRUN_WORK/q
      row() { echo "{\"step\":$1,\"loss\":0.$1}" | tee -a $f >> $W/wrote.$FLOWRUN_ATTEMPT_NO; }
      if [ $FLOWRUN_ATTEMPT_NO = 2 ]; then row 3; row 4; rm $f; row 1; sleep 1; exit 0; fi
      row 1
      touch $W/one
      while [ ! -e $W/go ]; do sleep 0.05; done
      row 2; row 3
      touch $W/two
      while [ ! -e $W/end ]; do sleep 0.05; done
      row 4
      exit 1
END
start q.yaml
pid=$!
until_true 20 [ -e one ]
copy() { ls "$FLOWRUN_HOME"/runs/*/metrics/t@*."$1".jsonl 2> /dev/null; }
there() { [ -n "$(copy 1)" ] && [ "$(wc -l < "$(copy 1)")" = "$1" ]; }
until_true 20 there 1
check "a row comes while the task runs" there 1
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch go
until_true 20 [ -e two ]
"$flowrun" resume > out2 2>&1 &
pid=$!
until_true 20 there 3
check "the rows of meanwhile" there 3
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch end
"$flowrun" resume > out 2>&1
same "resumed twice" $? 0
check "the first attempt's rows, each once" cmp "$(copy 1)" wrote.1
(sed -n 1,2p wrote.2; echo '{"flowrun":"part"}'; sed -n 3p wrote.2) > want
check "the second attempt's own, in two parts" cmp "$(copy 2)" want

# The interface: what a training leaves, over a resume that repeats steps.
cat > r.yaml <<'END'
name: r
env: {W: "${{ env.W }}"}
tasks:
  fit:
    retry: {times: 1, delay: 10ms}
    metrics: $FLOWRUN_WORK/r
    run: |
      f=$FLOWRUN_WORK/r
      rows() { seq $1 $2 | sed 's/.*/{"step":&,"total_steps":900,"loss":'$3',"throughput":100}/' >> $f; }
      if [ $FLOWRUN_ATTEMPT_NO = 1 ]; then rows 1 500 2; echo '{"step":501,"loss":NaN}' >> $f; exit 1; fi
      rows 401 800 1
END
"$flowrun" r.yaml > out 2>&1
same "the training" $? 0
"$flowrun" serve > serve.out 2>&1 &
serve=$!
api() { curl -sS --unix-socket "$FLOWRUN_HOME/host.sock" -w '\n%{http_code}\n' "http://flowrun/api/v1/runs/$1" > answer 2>&1; }
until_true 20 api 4
api '4/metrics?task=fit&keys=loss,nothing&width=100'
same "metrics" "$(tail -1 answer)" 200
head -1 answer | python3 -c '
import json, sys, time
d = json.load(sys.stdin)
print([(p["instance"].split("@")[0], p["attempt_no"], p["rows"], p["first"], p["last"], p["until"], p["full"]) for p in d["parts"]])
print(sorted(d["keys"]), d["x"], d["bucket"], d["from"], d["to"], d["bad_lines"], d["left_out"])
for s in d["series"]:
    print(s["key"], s["part"], s["lost"], min(s["x"]), max(s["x"]), sorted({str(y) for y in s["y"]}), len(s["x"]) == len(s["y"]) <= 200)
h = d["head"]
print(h["step"], h["total"], h["loss"], h["rate"], h["rate_median"], h["eta_s"], h["bad_since"], h["checkpoint"], h["checkpoint_age_s"])
print(all(p["started_wall"] <= h["wall"] for p in d["parts"]), h["wall"] <= 1000 * time.time())' > got
cat > want <<'END'
[('fit', 1, 501, 1.0, 501.0, 401.0, False), ('fit', 2, 400, 401.0, 800.0, None, False)]
['loss', 'throughput', 'total_steps'] step 32.0 1.0 800.0 0 0
loss 0 False 1.0 400.0 ['2.0'] True
loss 0 True 401.0 501.0 ['2.0', 'None'] True
loss 1 False 401.0 800.0 ['1.0'] True
800.0 900.0 1.0 100.0 100.0 None None None None
True True
END
check "what is drawn, and what was replaced" diff want got
api '4/metrics?task=other'
has "a task without metrics" answer '"parts":[]'
api '4/metrics?from=5&to=4'
has "a window of nothing" answer "'from' must not be larger than 'to'"
api '4/metrics?width=5'
has "a width that is none" answer "'width' must be 10 to 4000"
api '4/metrics?x=day'
has "an axis that is none" answer "'x' must be step, tokens, time or epoch, not 'day'"
kill "$serve"
wait "$serve" 2> /dev/null

# A training that stalls, and one whose loss is no number: rows of the run's story, told to who looks, once.
echo 'limits: {stalled: 1s}' > "$FLOWRUN_HOME/config.yaml"
cat > s.yaml <<'END'
name: s
env: {W: "${{ env.W }}"}
tasks:
  fit:
    metrics: m
    run: |
      echo '{"step":1,"loss":2}' >> m
      while [ ! -e $W/more ]; do sleep 0.05; done
      echo '{"step":2,"loss":null}' >> m
      echo '{"step":3,"loss":null}' >> m
      while [ ! -e $W/over ]; do sleep 0.05; done
END
start s.yaml
pid=$!
until_true 20 holds out "fit@local running"
"$flowrun" attach > attached 2>&1 &
attached=$!
until_true 30 holds out "fit@local: no progress for 1.0s, since step 1"
has "stalled" out "no progress for 1.0s, since step 1"
touch more
until_true 30 holds attached "its loss is not finite since step 2"
kill -9 "$pid"
wait "$pid" 2> /dev/null
wait "$attached"
touch over
"$flowrun" resume > out 2>&1
same "the next host ends it" $? 0
hasnt "and tells nothing of old rows" out "not finite"
has "the one who follows sees it, too" attached "no progress for 1.0s, since step 1"
same "once" "$(grep -c "since step 1" attached)" 1
"$flowrun" serve > serve.out 2>&1 &
serve=$!
until_true 20 api 5/events
api 5/events
head -1 answer | python3 -c '
import json, sys
for e in json.load(sys.stdin)["items"]:
    if e["kind"] in ("stalled", "progress", "not_finite") and "step 3" not in e["text"]: print(e["kind"], e["attempt_no"], e["text"])' > got
cat > want <<'END'
stalled 1 no progress for 1.0s, since step 1
progress 1 goes on, at step 2
not_finite 1 its loss is not finite since step 2
END
check "the rows" diff want got
kill "$serve"
wait "$serve" 2> /dev/null

# watch: lines where there is no terminal; curves on one.
"$flowrun" watch 4 > out
same "watch ends as its run" $? 0
has "a line of the newest step" out "fit@local: step 800 of 900, loss 1, 100 tokens/s"
LANG=C.UTF-8 TERM=xterm script -qec "stty cols 90 rows 30; '$flowrun' watch 4" typescript > tty < /dev/null
has "curves: their keys" tty "loss"
has "curves: the smallest value" tty "       1 "
check "curves: dots" grep -q $'\xe2\xa0\|\xe2\xa1\|\xe2\xa2\|\xe2\xa3' tty
check "no colours" eval '! grep -q $'"'"'\033\[3'"'"' tty'
LC_ALL=C TERM=xterm script -qec "stty cols 60 rows 30; '$flowrun' watch 4" typescript > tty < /dev/null
check "without UTF-8: stars" eval "grep -q '\*\*\*' tty && ! grep -q $'\\xe2' tty"
LANG=C.UTF-8 TERM=xterm script -qec "stty cols 40 rows 15; '$flowrun' watch 4" typescript > tty < /dev/null
has "a small one has the loss" tty " loss"
has "and the speed below it" tty " tokens/s"
has "as much of the line as fits" tty "fit@local: step 800 of 900, loss 1"
hasnt "and no part of a number" tty "loss 1,"
same "nothing is left running" "$(left)" ""
finish
