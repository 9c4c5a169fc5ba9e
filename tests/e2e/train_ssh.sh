#!/bin/bash
# The main job on three nodes behind real sshds that see nothing of this machine: all that they use is
# shipped. The same losses as on three local nodes.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 3 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
trap '"$cluster" down "$work/c"; cleanup' EXIT
cp -r "$repo/pipelines" "$repo/examples" .

losses() { "$flowrun" logs "$1" train | sed -n "s/.*{'loss': \([0-9.]*\),.*'epoch': \([0-9.]*\),.*/\2 \1/p" | sort -u; }
on() { "$cluster" exec "$work/c" "$1" sh -c "$2"; }

start pipelines/deepseek-lora.yaml -p max_steps=24
wait $!
same "on local nodes" $? 0
losses 1 > losses.1

# the model and the data are this machine's, and travel
example=$FLOWRUN_HOME/nodes/n1/work/example
start pipelines/deepseek-lora.yaml -p max_steps=24 --nodes c/nodes.yaml -p model="$example/model" -p dataset_dir="$example/data"
wait $!
same "over SSH" $? 0
losses 2 > losses.2
check "the same losses" cmp losses.1 losses.2
check "published on the head" test -n "$(on 1 'cat /root/.local/state/flowrun/*/work/published/latest/adapter_model.safetensors | head -c 1 | tr -d "\0"; echo there')"
same "nothing of this machine is seen there" "$(on 2 "ls $work $build" 2> /dev/null)" ""

for i in 1 2 3; do same "nothing is left on node$i" "$(on $i 'pgrep flowtrain')" ""; done
finish
