#!/bin/bash
# A task that runs once for each element of a list, which an earlier task gives: its elements become
# instances while the run goes on, in this process, for one that follows, and after kills.
. "$(dirname "$0")/lib.sh"
begin "$1"

shards() { # $1: the list
    echo "name: shards"
    local3
    cat <<END
env: {W: "\${{ env.W }}"}
tasks:
  find:
    outputs: [list]
    run: |
      echo find >> \$W/ran
      until test -e \$W/go; do sleep 0.05; done
      echo 'list=$1' >> \$FLOWRUN_OUTPUT
  each:
    needs: [find]
    foreach: "\${{ tasks.find.outputs.list }}"
    when: index != 9
    env: {ITEM: "\${{ item }}", NO: "\${{ index }}"}
    outputs: [size]
    run: |
      echo "item <\$ITEM> <\$FLOWRUN_ITEM> \$NO \$FLOWRUN_ITEM_INDEX"
      echo "each \$NO" >> \$W/ran
      until test -e \$W/on; do sleep 0.05; done
      test "\$ITEM" != bad || test -e \$W/mended
      echo "size=\$((NO * 2))" >> \$FLOWRUN_OUTPUT
  again:
    needs: [each]
    foreach: "\${{ tasks.each.items }}"
    on: all
    env: {KEY: "\${{ item.key }}", SIZE: "\${{ item.outputs.size }}"}
    run: echo "again \$KEY \$SIZE"; echo "again \$KEY \$FLOWRUN_NODE" >> \$W/ran
  last:
    needs: [each, again]
    env: {ALL: "\${{ tasks.each.all.size }}", BEST: "\${{ best(tasks.each.items, '-size').item }}"}
    run: echo "all \$ALL best \$BEST"; echo last >> \$W/ran
END
}
shards '["a.txt","b c","d"]' > shards.yaml
"$flowrun" validate shards.yaml > out 2>&1
same "it is valid" $? 0
"$flowrun" graph shards.yaml > out
has "the graph" out "* each xn by item <- find"

start shards.yaml
pid=$!
until_true 20 eval 'test "$(lines ran)" = 1'
"$flowrun" attach 1 > follows 2>&1 &
follower=$!
"$flowrun" status 1 > status
check "a task that waits for its list is a row" grep -qxE 'each +waiting +0 +-  n elements, not known yet' status
touch go
until_true 20 eval 'test "$(lines ran)" = 4'
shown() { "$flowrun" status "$1" > status && grep -qxE "$2" status; }
until_true 20 shown 1 'each  +running  +3  +[^ ]+  3 running'
check "its elements" grep -qxE 'each  +running  +3  +[^ ]+  3 running' status
check "the next one waits" grep -qxE 'again +waiting +0 +-  n elements, not known yet' status
hasnt "the row of before is gone" status 'each  +waiting'
kill -9 "$pid"
wait "$pid" 2> /dev/null
wait "$follower"
"$flowrun" status 1 > status
check "they are known after a kill" grep -qxE 'each  +running  +3  +[^ ]+  3 running' status
touch on
"$flowrun" resume 1 > resumed 2>&1
same "resume" $? 0
same "each ran once" "$(sort ran | tr '\n' ' ')" "again each[\"b c\"] n1 again each[\"b c\"] n2 again each[\"b c\"] n3 again each[a.txt] n1 \
again each[a.txt] n2 again each[a.txt] n3 again each[d] n1 again each[d] n2 again each[d] n3 each 0 each 1 each 2 find last "
has "what an element gave" resumed 'last@n1 | all ["0","2","4"] best d'
has "a list of maps" resumed 'again[2]@n3 | again each[d] 4'
has "how many they are" resumed 'again: 3 elements'
"$flowrun" logs 1 'each[*]' > logs
has "its output" logs 'each["b c"] | item <b c> <b c> 1 1'
"$flowrun" status 1 > status
check "a table of elements" grep -qxE 'each\["b c"\]  +succeeded  +1  +[^ ]+  +2' status

# A process that follows sees what the host sees, from the beginning and from the middle.
rm -f go on ran
"$flowrun" shards.yaml > out 2>&1 &
pid=$!
until_true 20 eval 'test "$(lines ran)" = 1'
"$flowrun" attach 2 > early 2>&1 &
early=$!
until_true 20 holds early "run 2"
touch go
until_true 20 eval 'test "$(lines ran)" = 4'
"$flowrun" attach 2 --json > late 2>&1 &
late=$!
until_true 20 test -s late
touch on
wait "$pid"
same "the run" $? 0
wait "$early"
same "who followed it" $? 0
wait "$late"
same "who came later" $? 0
same "both print the same" "$(told early | grep -v '^run 2')" "$(told out | grep -v '^run 2')"
has "with output" early 'each["b c"] | item <b c> <b c> 1 1'
has "as JSON" late '"again[1]@n2"'

# An element fails, and runs again alone.
shards '["ok","bad"]' > shards.yaml
rm ran
"$flowrun" shards.yaml > out 2>&1
same "a failed element fails the run" $? 1
has "by its key" out 'run 3 failed: each[bad]: exit code 1'
touch mended
: > ran
"$flowrun" retry 3 > out 2>&1
same "retry" $? 0
same "the element and what waits for all" "$(sort ran | tr '\n' ' ')" \
    "again each[bad] n1 again each[bad] n2 again each[bad] n3 again each[ok] n1 again each[ok] n2 again each[ok] n3 each 1 last "

"$flowrun" retry 3 --from find > out 2>&1
same "what gave the list does not run again in this run" $? 2
has "it says so" out "the elements of 'each' are those of a list that would be made again: --from each keeps them, a new run has new ones"
"$flowrun" retry 3 --from again > out 2>&1
same "what has the list does" $? 0
has "with the elements of before" out 'again[1]@n3 succeeded'

# Another file: elements are found by their keys, those of a list that is not awaited any more, too.
sed -e 's|"${{ tasks.find.outputs.list }}"|[new, ok]|' shards.yaml > changed.yaml
"$flowrun" retry 3 --from last --file changed.yaml > out 2>&1
same "a list of another list that has changed" $? 2
has "says so" out "the elements of 'again' are those of a list that would be made again"
sed -i -e '/^  again:/,/^    run: echo "again/d' -e 's/needs: \[each, again\]/needs: [each]/' changed.yaml
: > ran
"$flowrun" retry 3 --from last --file changed.yaml > out 2>&1
same "retry with another file" $? 0
hasnt "an element that it has no more" out 'each[bad]'
same "the new element, and what waits for all" "$(tr '\n' ' ' < ran)" "each 0 last "
has "by its key" out 'each[new] succeeded'

# Lists that are known before, no elements, and a gang an element.
cat > known.yaml <<'END'
name: known
params: {more: {default: '{"k": 1, "l": [2]}'}}
nodes: [{name: n1}, {name: n2}]
tasks:
  a: {foreach: [x, 1.50, true, null, "a/b"], run: "echo a $FLOWRUN_ITEM"}
  same: {foreach: [x, y, x], run: "echo same $FLOWRUN_ITEM"}
  long: {foreach: ["12345678901234567890123456789012345678901"], run: "echo long"}
  map: {foreach: "${{ params.more }}", env: {K: "${{ item.key }}", V: "${{ item.value }}"}, run: "echo map $K $V"}
  none: {foreach: [], run: exit 1}
  give: {outputs: [list, none], run: "echo 'list=[1,2]' >> $FLOWRUN_OUTPUT; echo none=[] >> $FLOWRUN_OUTPUT"}
  empty: {needs: [give], foreach: "${{ tasks.give.outputs.none }}", run: exit 1}
  gang:
    needs: [give]
    foreach: "${{ tasks.give.outputs.list }}"
    on: all
    gang: true
    run: echo "gang $FLOWRUN_ITEM $NODE_RANK of $NNODES"
  after: {needs: [none, empty, gang], run: echo after}
END
"$flowrun" known.yaml > out 2>&1
same "lists of all kinds" $? 0
for line in 'a[x] | a x' 'a[1.5] | a 1.5' 'a[true] | a true' 'a[null] | a' 'a["a/b"] | a a/b' 'same[0] | same x' \
    'same[2] | same x' 'long[0] | long' 'map[0] | map k 1' 'map[1] | map l [2]' 'none succeeded' 'empty succeeded' \
    'its list has no element' 'gang[1]@n2 | gang 1 1 of 2' 'gang[2]@n1 | gang 2 0 of 2' 'after@n1 succeeded'; do
    has "known" out "$line"
done

# What is no list fails the task with its reason, before anything of it starts.
wrong() { # $1: what the task gives; $2: what is said
    cat > wrong.yaml <<END
name: wrong
tasks:
  give: {outputs: [list], run: "cat list >> \$FLOWRUN_OUTPUT"}
  each: {needs: [give], foreach: "\${{ tasks.give.outputs.list }}", run: echo never}
END
    sed -i 's|run: "cat list|files: {list: list}, run: "cat list|' wrong.yaml
    printf 'list=%s\n' "$1" > list
    "$flowrun" wrong.yaml > out 2>&1
    same "$2" $? 1
    has "$2" out "foreach: $2"
    hasnt "$2" out never
}
wrong 'a,b' "it is no list of JSON, as [\"a\", \"b\"], nor a map: 'a,b'"
wrong '7' "it is no list of JSON, as [\"a\", \"b\"], nor a map: '7'"
wrong '' "it is empty, and no list: an empty one is '[]'"
wrong '[1, 2' "it is no JSON (1:5: "
wrong '{"a": 1, "a": 2}' "it is no JSON (1:12: duplicate object key near '"
wrong '["\u0000"]' "it is no JSON (1:9: "
sed -i 's/run: echo never/env: {N: "${{ item.name }}"}, run: echo never/' wrong.yaml
printf 'list=[{"x": 1}, 2]\n' > list
"$flowrun" wrong.yaml > out 2>&1
same "a member that is not there" $? 1
has "a member that is not there" out "each[0] failed"
has "a member that is not there" out "\${{ item.name }}: the element has no 'name'"
has "no map" out "the element is no map, so it has no 'name'"

# What the interface says of the graph: whether a list is known.
"$flowrun" serve > serve.log 2>&1 &
host=$!
until_true 10 eval '"$flowrun" api GET /api/v1/host > /dev/null 2>&1'
"$flowrun" api GET /api/v1/runs/1/graph > graph
has "a list that is known" graph '"foreach":"known"'
"$flowrun" api GET /api/v1/runs/5/graph > graph
has "one that never was" graph '"foreach":"awaited"'
hasnt "no matrix" graph '"matrix"'
kill "$host"
wait "$host"

# Many elements: rows come in slices, and nothing starts before the last one.
cat > many.yaml <<'END'
name: many
max_parallel: 64
nodes: [{name: n1, slots: 64}]
tasks:
  give: {outputs: [list], run: "seq -s, 0 1299 | sed 's/^/list=[/; s/$/]/' >> $FLOWRUN_OUTPUT"}
  each: {needs: [give], foreach: "${{ tasks.give.outputs.list }}", run: "true"}
  last: {needs: [each], run: echo last}
END
"$flowrun" many.yaml > out 2>&1
same "many" $? 0
has "many" out 'each[1299] succeeded'
same "each of them" "$(grep -c ' each\[[0-9]*\] succeeded' out)" 1300
finish
