#!/bin/bash
# Training over SSH while flowrun is killed: it goes on, a resume finds it, shows what was missed, and
# nothing runs twice. A second resume is refused meanwhile: a task behind the training holds the run.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
undisturbed

{
    cat train.yaml
    echo '  hold: {needs: [train], on: node1, run: "until test -e /var/go; do sleep 0.05; done"}'
} > held.yaml
start held.yaml -p output_dir=killed
pid=$!
until_true 60 holds out "{'loss': "
kill -9 "$pid"
wait "$pid" 2> /dev/null
cp out first
seen=$(grep -c "{'loss': " first)
"$flowrun" status > status
has "nobody looks after it" status "of training: left"
until_true 60 past killed $((seen < 10 ? seen + 2 : 12))
start resume
pid=$!
until_true 30 holds out "node1: connected"
"$flowrun" resume > second 2>&1
same "the second resume" $? 5
has "it says why" second "driven by another flowrun"
on 1 'touch /var/go'
wait "$pid"
same "resumed" $? 0
has "the end" out "run 2 succeeded"
same "each line of the log was shown once" "$(cat first out | grep -c "{'loss': ")" 12
"$flowrun" logs 2 train@node1 | grep -c "{'loss': " > count
same "the copy of the log is whole" "$(cat count)" 12
losses killed > killed.log
check "losses" diff whole.log killed.log
same "adapter" "$(adapter killed)" "$(adapter whole)"
for i in 1 2 3; do
    same "node$i started it once" "$(starts $i)" 2
    same "nothing is left on node$i" "$(trainers $i)$(sidecars $i)" ""
done
same "attempts" "$("$flowrun" status 2 | awk '/^train@node/ && $2 != "gave" {print $3}' | tr '\n' ' ')" "1 1 1 "
finish
