#!/bin/bash
# Allocations of Slurm in an inventory, before any is asked for: what validate, nodes and graph say of
# them. Nothing here needs Slurm.
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir shared bin

# inventory LINE…: a file with these lines under its allocations.
inventory()
{
    printf 'slurm:\n  work: %s\n  allocations:\n' "${folder:-$work/shared/flowrun}"
    printf '    %s\n' "$@"
}

cat > p.yaml <<'END_OF_PIPELINE'
nodes: inv.yaml
tasks:
  tokens: {run: hostname}
  fit: {needs: [tokens], on: train, gang: true, run: hostname}
  one: {needs: [fit], on: [train2, prep], run: hostname}
END_OF_PIPELINE
inventory 'train: {nodes: 4, partition: gpu, time: 12h, gpus: "a100:8"}' \
    'prep: {time: 90s, labels: [big]}' > inv.yaml
"$flowrun" validate p.yaml > out 2>&1
same "validate" $? 0
cat > want <<'END_OF_WANT'
p.yaml: 3 tasks on 5 nodes, nothing wrong
allocation train: 4 nodes for 12h00m, train1 to train4
allocation prep: 1 node for 1m30s, prep1
END_OF_WANT
check "what it prints" cmp out want
"$flowrun" graph --show-nodes p.yaml > out
cat > want <<'END_OF_WANT'
p: 3 tasks, 7 instances, longest chain 3
* tokens [train1]
  * fit gang [train1 train2 train3 train4] <- tokens
    * one [train2 prep1] <- fit
END_OF_WANT
check "the graph names places" cmp out want
"$flowrun" nodes inv.yaml > out
same "nodes" $? 0
has "a place" out "train4       slurm  -                        gpus 8   slots 8   labels train"
has "and of the other" out "prep1        slurm  -                        gpus 0   slots 8   labels prep,big"
for name in scontrol sinfo; do
    printf '#!/bin/sh\necho "slurm: Unable to contact slurm controller" >&2\nexit 1\n' > bin/$name
    chmod +x bin/$name
done
{ printf 'nodes: [{name: n1}]\n'; sed "s|^slurm:|&\n  path: $work/bin|" inv.yaml; } > both.yaml
"$flowrun" nodes --check both.yaml > out
same "nodes --check asks no place, and Slurm, which does not answer" $? 6
has "says so" out "both.yaml:3:3: scontrol show config: slurm: Unable to contact slurm controller"
has "the node answers" out "n1           local  127.0.0.1                gpus 0   slots 8    ok"
has "the place is not asked" out "labels train  not asked: its host comes with an allocation"
"$flowrun" validate p.yaml -p x=1 > out 2>&1
same "a param that is not there" $? 2

# wrong NAME MESSAGE LINE…: that inventory is refused so, at its file.
wrong()
{
    local name=$1 want=$2
    shift 2
    inventory "$@" > inv.yaml
    "$flowrun" validate p.yaml > out 2>&1
    same "$name: exit code" $? 2
    has "$name" out "$work/inv.yaml:$want"
}

wrong "no time" "4:12: an allocation needs the key 'time'; expected time: 12h, how long it may last" \
    'train: {nodes: 2}'
wrong "no unit" "4:19: time is '90'; expected a unit: 90m or 90s (to Slurm 90 would be minutes)" \
    'train: {time: 90}'
wrong "flowrun's own" "4:33: option '--requeue' is flowrun's own to set; expected chain: N, how often it is followed by another" \
    'train: {time: 1h, options: [--requeue]}'
wrong "two of a name" "5:5: allocation 'a1' has the name of a place of allocation 'a', which has a1 to a11" \
    'a: {time: 1h, nodes: 11}' 'a1: {time: 1h}'
folder=$work/nowhere/x wrong "a parent that is not there" \
    "2:9: work of slurm: $work/nowhere/x: there is no folder $work/nowhere to make it in" 'train: {time: 1h, nodes: 2}' 'prep: {time: 1h}'
folder=$work/p.yaml wrong "a file" \
    "2:9: work of slurm: $work/p.yaml: no folder; expected a folder that compute nodes share" 'train: {time: 1h, nodes: 2}' 'prep: {time: 1h}'
folder="$work/shared
  path: $work/none" wrong "Slurm's commands" \
    "3:9: path of slurm: $work/none: No such file or directory; expected the folder of Slurm's commands" 'train: {time: 1h, nodes: 2}' 'prep: {time: 1h}'
inventory 'a: {time: 1h, nodes: 2}' 'b: {time: 1h}' > inv.yaml
printf 'nodes: inv.yaml\ntasks:\n  t: {gang: true, on: all, run: hostname}\n' > p.yaml
"$flowrun" validate p.yaml > out 2>&1
same "a gang of two allocations" $? 2
has "says which" out "p.yaml:3:23: task 't' is a gang, which has one allocation; a1 and b1 are of two; expected on: a, or on: b"

# Without a file of its own, and with a folder that is made later.
printf 'nodes: {slurm: {work: %s/new, path: %s/bin, allocations: {t: {time: 1h}}}}\ntasks: {a: {run: x}}\n' \
    "$work" "$work" > p.yaml
"$flowrun" validate p.yaml > out 2>&1
same "inline" $? 0
has "its allocation" out "allocation t: 1 node for 1h00m, t1"
check "validate makes nothing" test ! -e "$work/new"
finish
