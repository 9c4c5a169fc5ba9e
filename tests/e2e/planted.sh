#!/bin/bash
# Somebody puts a symbolic link where the home on control has a folder or a file of its own: nothing
# is written or read through it, the message names it, and all goes on once it is removed.
. "$(dirname "$0")/lib.sh"
begin "$1"

mkdir elsewhere
echo canary > elsewhere/canary
refused="is a symbolic link, which flowrun has not made: remove it"

# Under a run: the folder of its logs, between two tasks.
cat > p.yaml <<'END_OF_FILE'
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  a: {run: "echo one; until test -e $W/go; do sleep 0.05; done"}
  b: {needs: [a], run: "echo two"}
END_OF_FILE
start p.yaml
pid=$!
until_true 20 holds out "a@n1 | one"
dir=$(echo home/runs/*.lock)
dir=$work/${dir%.lock}
mv "$dir" aside
ln -s "$work/elsewhere" "$dir"
touch go
until_true 20 holds out "b@n1: its output stays on the node until it can be written here: $dir $refused"
same "nothing is written there" "$(ls elsewhere)" canary
rm "$dir" && mv aside "$dir"
wait "$pid"
same "the run: exit code" $? 0
has "its output came later" out "b@n1 | two"

# Behind it: logs and retry of it, with the folder replaced and with a log replaced.
mv "$dir" aside
ln -s "$work/elsewhere" "$dir"
for c in "logs" "retry 1 --from b"; do
    "$flowrun" $c > out 2>&1
    same "$c: exit code" $? 7
    has "$c: refused" out "flowrun: $dir $refused"
done
rm "$dir" && mv aside "$dir"
log=$(echo "$dir"/b@n1.1.log)
mv "$log" aside
ln -s "$work/elsewhere/canary" "$log"
"$flowrun" logs > out 2>&1
same "a log: exit code" $? 7
has "a log is named" out "cannot read $log: "
hasnt "a log is not followed" out canary
rm "$log" && mv aside "$log"

# Folders of the home, the lock of a run.
for d in runs blobs spool; do
    mv "home/$d" aside
    ln -s "$work/elsewhere" "home/$d"
    "$flowrun" p.yaml > out 2>&1
    same "$d: exit code" $? 7
    has "$d: refused" out "flowrun: $work/home/$d $refused"
    rm "home/$d" && mv aside "home/$d"
done
mv "$dir.lock" aside
ln -s "$work/elsewhere/lock" "$dir.lock"
"$flowrun" retry 1 --from b > out 2>&1
same "a lock: exit code" $? 7
has "a lock is named" out "flowrun: opening $dir.lock: "
rm "$dir.lock" && mv aside "$dir.lock"

"$flowrun" retry 1 --from b > out 2>&1
same "all is as it was" $? 0
same "nothing is changed elsewhere" "$(ls elsewhere) $(cat elsewhere/canary)" "canary canary"
same "nothing is left running" "$(left)" ""
finish
