#!/bin/bash
# When a task starts: run_if:, states: of a need and skip_with:, through a run, a kill, a retry, and what shows them.
. "$(dirname "$0")/lib.sh"
begin "$1"
cat > rescue.yaml <<'END'
name: rescue
env: {W: "${{ env.W }}"}
tasks:
  big: {run: "echo big >> $W/ran; test -e $W/room"}
  small: {needs: [big], run_if: failure, run: "echo small >> $W/ran"}
  publish: {needs: [big, small], run_if: any, run: "echo publish >> $W/ran"}
  praise: {needs: [{task: big, states: succeeded}, publish], run_if: always, run: "echo praise >> $W/ran"}
  after: {needs: [small], skip_with: [small], run: "echo after >> $W/ran"}
  never: {needs: [publish], run_if: failure, run: "echo never >> $W/ran"}
  bell: {needs: [never], skip_with: [never], run: "echo bell >> $W/ran"}
  dry: {when: "1 == 2", run: "echo dry >> $W/ran"}
  tidy: {needs: [praise, bell, after], run_if: always, run: "until test -e $W/go; do sleep 0.05; done; echo tidy >> $W/ran"}
END
"$flowrun" validate rescue.yaml > out 2>&1
same "it is valid" $? 0
"$flowrun" graph rescue.yaml > out
has "the graph names the condition" out "* small <- big; run_if: failure"
has "and the states of a need" out "<- big (succeeded), publish; run_if: always"
has "and what it is skipped with" out "after <- small (skip_with)"
"$flowrun" graph --format dot rescue.yaml > out
has "dot: the condition" out 'run_if: any'
has "dot: the states" out '[label="succeeded"]'

ran_four() { [ "$(lines ran)" = 4 ]; }
start rescue.yaml
pid=$!
until_true 20 ran_four
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch go
"$flowrun" resume > out 2>&1
same "a failure that is handled fails the run all the same" $? 1
same "what ran" "$(sort ran | tr '\n' ' ')" "after big publish small tidy "
"$flowrun" status > status
check "the failed need is no skip" grep -q '^praise@local .* upstream_failed' status
check "the handler's own handler is skipped" grep -q '^never@local .* skipped' status
"$flowrun" status --json > json
has "why it failed" json "needs big, which ended as failed"
has "why it was skipped by run_if" json "nothing that it needs failed (run_if: failure)"
has "why it was skipped with another one" json "needs never, which ended as skipped (skip_with)"

touch room
: > ran
"$flowrun" retry > out 2>&1
same "the retry succeeds" $? 0
same "and decides anew" "$(sort ran | tr '\n' ' ')" "big praise publish tidy "
has "the handler says why not" out "small@local skipped: nothing that it needs failed (run_if: failure)"
has "what is skipped with it, too" out "after@local skipped: needs small, which ended as skipped (skip_with)"

# best_effort: the failure is handled, and the run succeeds.
sed 's/^  big: {/  big: {best_effort: true, /' rescue.yaml > mild.yaml
rm room
"$flowrun" mild.yaml > out 2>&1
same "a best_effort task that is handled fails nothing" $? 0
has "a state that it asked for" out "praise@local skipped: needs big, which ended as failed (states: succeeded)"
hasnt "nothing failed above" out upstream_failed

# Over rows: each handles the failure of its own.
cat > rows.yaml <<'END'
name: rows
tasks:
  fit: {matrix: {i: [1, 2, 3]}, run: 'test "$FLOWRUN_ITEM" != i=2'}
  mend: {matrix: {i: [1, 2, 3]}, needs: {task: fit, item: same}, run_if: failure, run: echo "mend $FLOWRUN_ITEM"}
  best: {needs: [fit], run_if: any, run: "echo some are left"}
END
"$flowrun" rows.yaml > out 2>&1
same "a row failed" $? 1
has "its own handler runs" out "mend i=2"
has "those of the others do not" out "mend[i=1] skipped: nothing that it needs failed (run_if: failure)"
has "any: of rows one is enough" out "some are left"

# What is wrong in them.
cat > wrong.yaml <<'END'
name: wrong
tasks:
  a: {run: "true"}
  b: {needs: [{task: a, states: [done]}], run_if: all_done, skip_with: [c], run: "true"}
  c: {run_if: failure, run: "true"}
END
"$flowrun" validate wrong.yaml > out 2>&1
same "it is refused" $? 2
has "a state that is none" out "wrong.yaml:4:34: no task ends as 'done'; expected succeeded, failed"
has "a condition that is none" out "wrong.yaml:4:51: run_if is 'all_done'; expected success, failure, any or always"
has "skip_with of no need" out "wrong.yaml:4:73: skip_with: 'b' does not need 'c'; expected one that it needs: a"
has "a condition about nothing" out "wrong.yaml:5:15: run_if: failure is about what 'c' needs, and there is nothing"
finish
