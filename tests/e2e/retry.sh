#!/bin/bash
# Retries by policy and by the user; hooks once a round; a gang whose member dies starts again.
. "$(dirname "$0")/lib.sh"
begin "$1"
{
    echo "name: shaky"
    local3
    cat <<'END'
env: {W: "${{ env.W }}"}
tasks:
  a: {run: "echo a >> $W/ran; printf '1 %%\\r2 %%\\r\\n'"}
  flaky:
    needs: [a]
    retry: {times: 2, delay: 10ms, on: [exit]}
    run: "echo flaky >> $W/ran; test $(grep -c flaky $W/ran) = 3"
  b: {needs: [flaky], run: "echo b >> $W/ran; test -e $W/mended || exit 7"}
  c: {needs: [b], outputs: [where], run: "echo c >> $W/ran; echo where=here > $FLOWRUN_OUTPUT"}
on_failure: [{name: oh, run: "echo on_failure >> $W/hooks"}]
on_success: [{name: ah, run: "echo on_success >> $W/hooks"}]
on_exit: [{name: bye, run: "echo on_exit >> $W/hooks"}, {uses: notify, with: {command: "exit 3"}}]
END
} > shaky.yaml

"$flowrun" shaky.yaml > out 2>&1
same "a failed run's exit code" $? 1
has "the code of the task" out "b@n1 failed: exit code 7"
has "the run names the task" out "run 1 failed: b@n1: exit code 7"
has "what waits for it" out "needs b, which ended as failed"
has "the end of a progress bar" out "a@n1 | 2 %"
"$flowrun" logs 1 a > logs
has "and in the logs" logs "a@n1 | 2 %"
same "attempts" "$(tr '\n' ' ' < ran)" "a flaky flaky flaky b "
same "hooks" "$(tr '\n' ' ' < hooks)" "on_failure on_exit "
"$flowrun" retry > out 2>&1
same "retry without a cure" $? 1
has "why a hook failed" out "on_exit.1@control failed: exit code 1: notify: the command ended with exit code 3"
same "only what failed ran again" "$(tr '\n' ' ' < ran)" "a flaky flaky flaky b b "
touch mended
"$flowrun" retry 1 > out 2>&1
same "retry" $? 0
has "what the last task gave" out "c@n1 gave where=here"
"$flowrun" status --json 1 > json
check "and in JSON" python3 -c '
import json
tasks = {t["task"]: t["outputs"] for t in json.load(open("json"))["tasks"]}
assert tasks["c"] == {"where": "here"} and tasks["a"] == {}, tasks'
hasnt "a hook of another outcome" out "oh@control skipped"
same "and what waits for it" "$(tr '\n' ' ' < ran)" "a flaky flaky flaky b b b c "
same "hooks once a round" "$(tr '\n' ' ' < hooks)" "on_failure on_exit on_failure on_exit on_success on_exit "
"$flowrun" retry 1 --from b > out 2>&1
same "retry --from" $? 0
same "that task and what waits for it" "$(tr '\n' ' ' < ran)" "a flaky flaky flaky b b b c b c "
"$flowrun" retry 1 --from nothing > out 2>&1
same "retry --from an unknown task" $? 2
timeout 140 "$flowrun" retry 1 > out 2>&1
same "retry where nothing failed: that is what was wanted" $? 0
has "it says so, and how to name a task" out "run 1 is over (succeeded): nothing of it failed, so nothing runs again; 'flowrun retry 1 --from TASK'"
hasnt "nothing was begun" out "3 nodes"
"$flowrun" logs 1 b > logs
same "attempts of b" "$("$flowrun" status 1 | awk '/^b@n1/ {print $3}')" 4

# another pipeline file: what changed is said, what succeeded stays, tasks are found by their names
rm -f ran mended
"$flowrun" shaky.yaml > out 2>&1
same "it fails again" $? 1
sed -e 's/ || exit 7//' -e 's/test -e $W\/mended/true/' -e 's/^  c: .*/  first: {run: "echo first >> $W\/ran"}\n  c: {needs: [b], run: "echo c2 >> $W\/ran"}/' shaky.yaml > other.yaml
"$flowrun" retry 2 --file other.yaml > out 2>&1
same "a changed file" $? 0
has "what differs" out "b changed"
has "what is new" out "first is new"
same "what ran" "$(tr '\n' ' ' < ran | sed 's/first //')" "a flaky flaky flaky b b c2 "
same "status of the run and all tasks" "$("$flowrun" status 2 | grep -c succeeded)" 8
"$flowrun" logs 2 > logs
same "the logs of both rounds" $? 0
has "the run is of the other file now" <("$flowrun" status 2) "$work/other.yaml, started"
echo "# another line" >> other.yaml
"$flowrun" retry 2 --from c > out 2>&1
same "a retry after an edit" $? 0
has "says whose copy it uses" out "$work/other.yaml was changed since the run began: the run's own copy is used; 'flowrun retry 2 --file"


# tasks that another file adds wait for what the retry runs again, and are no failure of the round before
cat > grows.yaml <<'END'
env: {W: "${{ env.W }}"}
tasks: {one: {run: "test -e $W/grown"}}
END
"$flowrun" grows.yaml > out 2>&1
same "it fails" $? 1
sed 's|^tasks: .*|tasks:\n  one: {run: "test -e $W/grown"}\n  two: {needs: [one], run: "true"}\n  pair: {needs: [one], on: all, gang: true, when: success(), run: "true"}|' grows.yaml > grown.yaml
touch grown
"$flowrun" retry 3 --json --file grown.yaml > out 2>&1
same "with two tasks behind it" $? 0
hasnt "they never failed" out upstream_failed
same "each ran once, after it" "$(python3 -c '
import json
for e in map(json.loads, open("out")):
    if e["event"] == "state" and e["state"] in ("ready", "succeeded"):
        print(e["task"], e["state"])' | sort -s -k1,1 | uniq | tr '\n' ' ')" "one ready one succeeded pair ready pair succeeded two ready two succeeded "
echo '  more: {run: "true"}' >> grown.yaml
"$flowrun" retry 3 --file grown.yaml > out 2>&1
same "where all succeeded, what is new runs" $? 0
has "it alone" out "more@local succeeded"
hasnt "nothing else" out "one@local succeeded"
"$flowrun" retry 3 --file grown.yaml > out 2>&1
same "where nothing is new there is nothing to run" $? 2
hasnt "and nothing goes on" out "going on"
has "it says so" out "nothing failed in this run"

rm -f ran
{
    echo "name: gang"
    local3
    cat <<'END'
env: {W: "${{ env.W }}"}
tasks:
  g:
    on: all
    gang: true
    retry: {times: 1, delay: 10ms}
    shell: bash
    run: |
      echo "$FLOWRUN_GENERATION" >> $W/ran
      echo $$ > $W/pid.$NODE_RANK
      until test -e $W/free; do sleep 0.05; done
END
} > gang.yaml
start gang.yaml
pid=$!
until_true 20 holds out "g@n1 running"
until_true 20 holds out "g@n2 running"
until_true 20 holds out "g@n3 running"
until_true 20 test -s pid.1
kill -9 "$(cat pid.1)"
until_true 20 eval 'test "$(wc -l < ran)" = 6'
touch free
wait "$pid"
same "the gang came back" $? 0
has "why" out "g@n2 retrying"
has "its peers" out "g@n1 retrying"
same "two generations of three" "$(sort ran | tr '\n' ' ')" "1 1 1 2 2 2 "
same "nothing is left" "$(left)" ""

# A supervisor is killed when its command has done its work: nobody knows that. By default it runs again;
# without lost in retry.on it does not, until the user says so.
cat > lost.yaml <<'END'
env: {W: "${{ env.W }}"}
defaults: {retry: {times: 3, delay: 10ms}}
tasks:
  again: {run: 'echo again >> $W/lost; test "$(grep -c again $W/lost)" = 2 || { kill -9 $PPID; sleep 1000; }'}
  never:
    needs: [again]
    retry: {on: [exit, signal, timeout, start_failed, node_lost]}
    run: 'echo never >> $W/lost; test "$(grep -c never $W/lost)" = 2 || { kill -9 $PPID; sleep 1000; }'
END
"$flowrun" lost.yaml > out 2>&1
same "lost without a retry: exit code" $? 1
same "by default a lost task runs again, else not" "$(tr '\n' ' ' < lost)" "again again never "
has "the table says why" out "never@local lost"
"$flowrun" retry > out 2>&1
same "retried by the user" $? 0
same "then it ran again" "$(tr '\n' ' ' < lost)" "again again never never "
finish
