#!/bin/bash
# A task with a matrix: its rows, their keys and values; rows that are joined one by one; a gang a row; what
# runs again after a failure, a kill and a change of the file.
. "$(dirname "$0")/lib.sh"
begin "$1"
began_all() { [ "$(lines began)" = 6 ]; }
sweep() { # $1: the last value of lr
    echo "name: sweep"
    local3
    cat <<END
env: {W: "\${{ env.W }}"}
tasks:
  fit:
    matrix:
      lr: [1e-5, $1]
      rank: [8, 16]
      exclude: [{lr: $1, rank: 8}]
      include: [{lr: 1e-4, rank: 32, note: "a/b c"}, {rank: 16, note: wide}]
    env: {LR: "\${{ matrix.lr }}", NOTE: "\${{ matrix.note }}"}
    outputs: [loss]
    when: matrix.rank != 99
    run: |
      echo "lr \$LR rank \$RANK note <\$NOTE> item \$FLOWRUN_ITEM_INDEX"
      echo "\$FLOWRUN_ITEM" >> \$W/ran
      test "\$LR" != 5e-05 || test -e \$W/mended
      echo "loss=\$FLOWRUN_ITEM_INDEX.5" >> \$FLOWRUN_OUTPUT
    env_file: rank.env
  check:
    needs: [{task: fit, item: same}]
    matrix:
      lr: [1e-5, $1]
      rank: [8, 16]
      exclude: [{lr: $1, rank: 8}]
      include: [{lr: 1e-4, rank: 32, note: "a/b c"}, {rank: 16, note: wide}]
    env: {LOSS: "\${{ tasks.fit.outputs.loss }}"}
    run: echo "check \$FLOWRUN_ITEM of \$LOSS"; echo "c \$FLOWRUN_ITEM" >> \$W/ran
  last: {needs: [check], run: "echo last >> \$W/ran"}
END
}
echo "RANK=none" > rank.env
sweep 5e-5 > sweep.yaml
"$flowrun" validate sweep.yaml > out 2>&1
same "it is valid" $? 0
"$flowrun" graph sweep.yaml > out
has "the graph counts rows" out "* fit x4 by lr, rank, note"
has "and names the join" out "* check x4 by lr, rank, note <- fit item by item"

"$flowrun" sweep.yaml > out 2>&1
same "a failed row fails the run" $? 1
has "values of a row" out 'fit[lr=1e-05,rank=16,note=wide] | lr 1e-05 rank none note <wide> item 1'
has "null is the empty text" out 'fit[lr=1e-05,rank=8] | lr 1e-05 rank none note <> item 0'
has "a text that is quoted" out 'fit[lr=0.0001,rank=32,note="a/b c"] | lr 0.0001 rank none note <a/b c> item 3'
has "the row that failed" out 'run 1 failed: fit[lr=5e-05,rank=16,note=wide]: exit code 1'
has "a joined row gets the output of its own" out 'check[lr=0.0001,rank=32,note="a/b c"] | check lr=0.0001,rank=32,note="a/b c" of 3.5'
has "that of the failed one waits in vain" out 'needs fit[lr=5e-05,rank=16,note=wide], which ended as failed'
has "the table at the end" out 'check[lr=5e-05,rank=16,note=wide]      n1    upstream_failed         0'
same "joined rows do not wait for others" "$(grep -c '^c ' ran)" 3

"$flowrun" logs 1 'fit[lr=1e-05,*]' > logs
same "logs of some rows" "$(lines logs)" 2
has "by a pattern" logs 'fit[lr=1e-05,rank=8] | '
"$flowrun" logs 1 'fit[lr=0.0001,rank=32,note="a/b c"]' > logs
has "logs of a row with a key that is no name of a file" logs 'note <a/b c>'
"$flowrun" logs 1 fit > logs
same "logs of all" "$(lines logs)" 4
"$flowrun" status 1 > status
has "status" status 'fit[lr=1e-05,rank=8] '
check "a task is a row that counts its own" grep -qxE 'fit  +failed  +4  +[^ ]+  1 failed, 3 succeeded' status
check "and those that are joined" grep -qxE 'check  +upstream_failed  +3  +[^ ]+  1 upstream_failed, 3 succeeded' status
check "what a row gave" grep -qxE 'fit\[lr=1e-05,rank=8\]  +succeeded  +1  +[^ ]+  +0\.5' status
check "what a failed row gave" grep -qxE 'fit\[lr=5e-05,rank=16,note=wide\]  +failed  +1  +[^ ]+  +-  exit code 1' status
check "one without outputs" grep -qE '^check\[lr=5e-05,rank=16,note=wide\]  +upstream_failed  +0 .* needs fit\[lr=5e-05,rank=16,note=wide\]' status
same "a row stands once" "$(grep -c '^fit\[lr=1e-05,rank=8\]' status)" 1
hasnt "each row by itself" status ' gave loss='

touch mended
: > ran
"$flowrun" retry 1 > out 2>&1
same "retry" $? 0
same "the failed row, the one that is joined to it, and what waits for all" "$(cat ran)" \
    'lr=5e-05,rank=16,note=wide
c lr=5e-05,rank=16,note=wide
last'

# Another file: rows are found by their keys.
rm mended
: > ran
start sweep.yaml
wait $!
sweep 6e-5 > sweep.yaml
: > ran
"$flowrun" retry 2 --file sweep.yaml > out 2>&1
same "retry with another file" $? 0
hasnt "the row that it has no more" out 'fit[lr=5e-05,'
same "the new row alone" "$(head -n 2 ran)" 'lr=6e-05,rank=16,note=wide
c lr=6e-05,rank=16,note=wide'

# What a fan-out gave.
cat > best.yaml <<'END'
name: best
nodes: [{name: n1}, {name: n2}]
tasks:
  fit:
    matrix: {lr: [1e-5, 5e-5, 1e-4, 2e-4], note: ["a\"b"]}
    env: {LR: "${{ matrix.lr }}"}
    outputs: [loss, where]
    best_effort: true
    run: |
      echo "where=at $LR" >> $FLOWRUN_OUTPUT
      case $LR in
      5e-05) echo "loss=1" >> $FLOWRUN_OUTPUT; exit 3 ;;
      0.0001) echo "loss=12" >> $FLOWRUN_OUTPUT ;;
      *) echo "loss=9" >> $FLOWRUN_OUTPUT ;;
      esac
  each: {on: all, outputs: [loss], run: "echo loss=$FLOWRUN_NODE >> $FLOWRUN_OUTPUT"}
  pick:
    needs: [fit, each]
    when: best(tasks.fit.items, 'loss').matrix.lr == 1e-05
    env:
      ALL: "${{ tasks.fit.all.loss }}"
      EACH: "${{ tasks.each.all.loss }}"
      ITEMS: "${{ tasks.fit.items }}"
      LEAST: "${{ best(tasks.fit.items, 'loss').matrix.lr }} ${{ best(tasks.fit.items, 'loss').outputs.where }}"
      MOST: "${{ best(tasks.fit.items, '-loss').key }} ${{ best(tasks.fit.items, '-loss').state }} ${{ best(tasks.fit.items, '-loss').node }}"
    run: |
      echo "$ALL $EACH"
      printf '%s\n' "$ITEMS"
      echo "least $LEAST, most $MOST"
  none: {needs: [each], env: {B: "${{ best(tasks.each.items, 'loss') }}"}, run: "true"}
END
"$flowrun" best.yaml > out 2>&1
has "the list of an output, by item and by node" out 'pick@n1 | ["9",null,"12","9"] ["n1","n2"]'
has "items" out '{"key":"fit[lr=5e-05,note=\"a\\\"b\"]","state":"failed","node":"n1","matrix":{"lr":5e-05,"note":"a\"b"},"outputs":{}}'
has "the best of them, as numbers" out 'least 1e-05 at 1e-05, most fit[lr=0.0001,note="a\"b"] succeeded n1'
has "no number" out "none of the 2 instances of each gave a number 'loss'"

# A gang a row; flowrun is killed while both run.
{
    echo "name: gangs"
    local3
    cat <<'END'
env: {W: "${{ env.W }}"}
tasks:
  train:
    matrix: {seed: [1, 2]}
    on: all
    gang: true
    outputs: [who]
    run: |
      echo "$FLOWRUN_ITEM rank $NODE_RANK of $NNODES on $FLOWRUN_NODE at $MASTER_PORT"
      echo "$FLOWRUN_ITEM.$NODE_RANK" >> $W/began
      until test -e $W/go; do sleep 0.05; done
      echo "who=$FLOWRUN_ITEM.$NODE_RANK" >> $FLOWRUN_OUTPUT
  each:
    matrix: {seed: [1, 2]}
    on: all
    needs: [{task: train, item: same}]
    env: {OWN: "${{ tasks.train.outputs.who }}", HEAD: "${{ tasks.train.on_head.outputs.who }}", N2: "${{ tasks.train.on('n2').outputs.who }}"}
    run: echo "own $OWN head $HEAD n2 $N2"
END
} > gangs.yaml
start gangs.yaml
pid=$!
until_true 20 began_all
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch go
"$flowrun" resume > out 2>&1
same "a gang a row is found again" $? 0
same "and none began twice" "$(lines began)" 6
"$flowrun" logs 4 'train*' > logs
has "ranks count in a row" logs 'train[seed=2]@n3 | seed=2 rank 2 of 3 on n3'
has "outputs of the same row and node" out 'each[seed=2]@n3 | own seed=2.2 head seed=2.0 n2 seed=2.1'

# So many rows at once, the others wait.
cat > few.yaml <<'END'
name: few
tasks:
  fit:
    matrix: {i: [1, 2, 3, 4]}
    max_parallel: 2
    env: {W: "${{ env.W }}"}
    run: echo x >> $W/few; until test -e $W/more; do sleep 0.05; done
END
two_began() { [ "$(lines few)" = 2 ]; }
start few.yaml
pid=$!
until_true 20 two_began
"$flowrun" status > status
same "the others wait" "$(grep -c '^fit\[.* waiting' status)" 2
touch more
wait "$pid"
same "and run once there is room" $? 0
same "all of them" "$(lines few)" 4

# The first failure, its retry used up, ends the rows that run and those that wait; flowrun is killed meanwhile.
cat > fast.yaml <<'END'
name: fast
env: {W: "${{ env.W }}"}
tasks:
  fit:
    matrix: {i: [1, 2, 3, 4, 5]}
    max_parallel: 3
    fail_fast: true
    retry: {times: 1, delay: 0s}
    run: |
      echo "$FLOWRUN_ITEM" >> $W/fast.began
      test "$FLOWRUN_ITEM" != i=1 || exit 0
      test "$FLOWRUN_ITEM" != i=2 || { until test -e $W/fast.go; do sleep 0.05; done; echo x >> $W/fast.tries; exit 7; }
      until test -e $W/never; do sleep 0.05; done
  other: {run: "until test -e $W/fast.other; do sleep 0.05; done"}
  after: {needs: [fit], run: "echo after"}
END
fast_began() { [ "$(lines fast.began)" = 4 ]; }
fast_ended() { "$flowrun" status > status && grep -q '^fit\[i=5\] .* cancelled' status && grep -q '^fit\[i=3\] .* cancelled' status; }
start fast.yaml
pid=$!
until_true 20 fast_began
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch fast.go
"$flowrun" resume > out 2>&1 &
pid=$!
until_true 20 fast_ended
touch fast.other
wait "$pid"
same "the run fails" $? 1
same "after the retry" "$(lines fast.tries)" 2
has "the row that failed" out "fit[i=2] failed: exit code 7"
check "what had succeeded stays" grep -q '^fit\[i=1\] .* succeeded' status
for i in 3 4 5; do has "row $i" out "fit[i=$i] cancelled: another instance of its task failed (fail_fast)"; done
check "another task goes on" grep -q '^other .* succeeded' out
check "what needs it does not run" grep -q '^after .* upstream_failed' out
same "the fifth never began" "$(grep -c i=5 fast.began)" 0
touch never
: > fast.began
sed -i 's/exit 7/exit 0/' fast.yaml
"$flowrun" retry --file fast.yaml > out 2>&1
same "retry runs what failed and what was cancelled" $? 0
same "and nothing else" "$(sort -u fast.began | tr '\n' ' ')" "i=2 i=3 i=4 i=5 "

# No row is left: the task has succeeded, once what it needs has.
cat > none.yaml <<'END'
name: none
tasks:
  before: {run: "test -e $W/good"}
  fit: {needs: [before], matrix: {i: [1], exclude: [{i: 1}]}, run: "false"}
  after:
    needs: [fit]
    env: {ALL: "${{ tasks.fit.items }}"}
    run: 'echo "after $ALL"'
  side: {run: "echo aside"}
env: {W: "${{ env.W }}"}
END
"$flowrun" none.yaml > out 2>&1
same "what a task without rows needs fails" $? 1
has "and what waits for it does not run" out "needs fit, which ended as upstream_failed"
has "it has a line at the end" out "fit     local  upstream_failed"
# as a flowrun left it that gave a task without rows no instance
python3 - "$FLOWRUN_HOME/state.db" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
run, = db.execute("SELECT id FROM run ORDER BY no DESC LIMIT 1").fetchone()
for table in ("instance", "event", "attempt"):
    gone = db.execute("DELETE FROM %s WHERE run = ? AND idx = 1" % table, (run,)).rowcount
    assert gone > 0 or table == "attempt", table
    moved = [db.execute("UPDATE %s SET idx = ? WHERE run = ? AND idx = ?" % table, (i - 1, run, i)).rowcount for i in (2, 3)]
    assert sum(moved) > 0, table
db.commit()
END
touch good
"$flowrun" retry > out 2>&1
same "a task without rows succeeds" $? 0
has "and what waits for it runs" out "after@local | after []"
has "it has succeeded, with a line" out "fit succeeded: no row of its matrix is left"
"$flowrun" status > out
same "which status has, too, and the others their own" "$(awk '/@local|^fit/ {print $1, $2}' out | tr '\n' ' ')" "before@local succeeded fit succeeded after@local succeeded side@local succeeded "
has "with its reason" out "no row of its matrix is left"
"$flowrun" logs "$("$flowrun" runs -n 1 | awk 'NR == 2 {print $1}')" side > out
has "what had ended keeps its output" out "side@local | aside"
finish
