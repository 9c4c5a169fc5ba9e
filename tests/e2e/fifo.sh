#!/bin/bash
# Paths that name a FIFO, a socket or a device: nothing waits for them, each is named where a file is
# meant. A pipeline that comes through a pipe is read by the process that has it.
. "$(dirname "$0")/lib.sh"
begin "$1"
mkfifo fifo
mkdir dir
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("dir/sock")'

# pipeline LINES…: p.yaml, with one local node unless the lines have nodes.
pipeline() {
    printf 'name: p\n' > p.yaml
    case $1 in *nodes:*) ;; *) printf 'nodes: [{name: n1, executor: local}]\n' >> p.yaml ;; esac
    printf '%b\n' "$1" >> p.yaml
}

# refused WHAT TEXT ARGS…: at once, with exit code 2.
refused() {
    local what=$1 text=$2 got
    shift 2
    timeout 140 "$flowrun" "$@" > out 2>&1 < /dev/null
    got=$?
    same "$what: exit code" "$got" 2
    has "$what" out "$text"
}

for words in validate run; do
    pipeline "nodes: $work/fifo\ntasks: {a: {run: 'true'}}"
    refused "$words: an inventory" "p.yaml:2:8: nodes: $work/fifo is a FIFO, expected a file" $words p.yaml
    pipeline "nodes: /dev/zero\ntasks: {a: {run: 'true'}}"
    refused "$words: a device" "nodes: /dev/zero is a device, expected a file" $words p.yaml
    pipeline "secrets: {s: {file: fifo}}\ntasks: {a: {run: 'true', env: {S: '\${{ secrets.s }}'}}}"
    refused "$words: a secret" "secret 's': $work/fifo is a FIFO, expected a file" $words p.yaml
    pipeline "tasks: {a: {run: 'true', files: {f: fifo}}}"
    refused "$words: a file" "p.yaml:3:37: $work/fifo is a FIFO; expected a file or folder" $words p.yaml
    pipeline "tasks: {a: {run: 'true', files: {f: link}}}"
    ln -sf fifo link
    refused "$words: a link to one" "$work/link is a FIFO; expected a file or folder" $words p.yaml
    pipeline "tasks: {a: {run: 'true', files: {f: dir/sock}}}"
    refused "$words: a socket" "$work/dir/sock is a socket; expected a file or folder" $words p.yaml
    pipeline "tasks: {a: {uses: train, with: {model: fifo, dataset: d, dataset_dir: 'node:/data'}}}"
    refused "$words: a file in with" "$work/fifo is a FIFO; expected a file or folder" $words p.yaml
    pipeline "nodes: [{name: n1, address: 192.0.2.1, key: fifo}]\ntasks: {a: {run: 'true'}}"
    refused "$words: a key" "key of node 'n1': $work/fifo is a FIFO, expected a file" $words p.yaml
done
pipeline "tasks: {a: {run: 'true'}}"
refused "a parameter" "nodes: $work/fifo is a FIFO" run --nodes fifo <(printf 'params: {nodes: {default: x}}\nnodes: ${{ params.nodes }}\ntasks: {a: {run: x}}\n')

# in a folder it is found when the task starts
pipeline "tasks: {a: {run: 'true', files: {d: dir}}}"
timeout 140 "$flowrun" p.yaml > out 2>&1
same "a socket in a folder: exit code" $? 1
has "a socket in a folder" out "$work/dir/sock is a socket, which has no content to ship"
rm dir/sock
echo content > dir/file
timeout 140 "$flowrun" p.yaml > out 2>&1
same "without it" $? 0
long=$(printf 'x%.0s' {1..211})
mkdir -p "dir/$long/$long"
touch "dir/$long/$long/$long" # HASH/ in front makes it as long as a node takes
timeout 140 "$flowrun" p.yaml > out 2>&1
same "a long path in a folder: exit code" $? 0
touch "dir/$long/$long/x$long"
timeout 140 "$flowrun" p.yaml > out 2>&1
same "a longer one: exit code" $? 1
has "a longer one" out "a path of 636 bytes; a node takes at most 635: "
rm -r "dir/$long"
pipeline "tasks: {a: {run: 'true', files: {f: 'node:$work/fifo'}}}"
timeout 140 "$flowrun" p.yaml > out 2>&1
same "a FIFO of the node: exit code" $? 1
has "a FIFO of the node" out "$work/fifo is a FIFO, expected a file"
pipeline "tasks: {m: {outputs: [p], run: 'echo p=$work/fifo >> \$FLOWRUN_OUTPUT'}, a: {needs: [m], run: 'true', files: {f: '\${{ tasks.m.outputs.p }}'}}}"
timeout 140 "$flowrun" p.yaml > out 2>&1
same "a FIFO that shows at the start: exit code" $? 1
has "a FIFO that shows at the start" out "$work/fifo is a FIFO, which has no content to ship"

# what the process itself was given it reads, once, if it drives the run
pipeline "params: {nodes: {default: x}}\nnodes: \${{ params.nodes }}\ntasks: {a: {run: 'echo here'}}"
inventory='[{name: n7, executor: local}]'
timeout 140 "$flowrun" <(cat p.yaml) -p nodes=<(echo "$inventory") > out 2>&1
same "a pipeline and an inventory by <(…)" $? 0
has "its output" out "a@n7 | here"
echo "$inventory" > nodes.yaml
timeout 140 "$flowrun" /dev/stdin --nodes nodes.yaml < <(cat p.yaml) > out 2>&1
same "a pipeline by a pipe" $? 0
timeout 140 "$flowrun" /dev/stdin --nodes nodes.yaml < p.yaml > out 2>&1
same "a pipeline by stdin" $? 0
for command in validate graph; do
    timeout 140 "$flowrun" $command /dev/stdin --nodes nodes.yaml < <(cat p.yaml) > out 2>&1
    same "$command of a pipe" $? 0
done
timeout 140 "$flowrun" nodes <(echo "$inventory") > out 2>&1
same "nodes of a pipe" $? 0
has "its node" out n7
(cat p.yaml > fifo) &
timeout 140 "$flowrun" fifo --nodes nodes.yaml > out 2>&1
same "a pipeline by a FIFO" $? 0

# another host cannot read it; one file of its folders that names a FIFO holds nothing up
mkdir served
printf 'name: bad\nnodes: %s\nschedule: {cron: "0 3 * * *"}\ntasks: {a: {run: x}}\n' "$work/fifo" > served/a.yaml
printf 'name: good\nschedule: {cron: "0 3 * * *"}\ntasks: {a: {run: x}}\n' > served/b.yaml
touch -d '1 hour ago' served/*.yaml
"$flowrun" serve served > serve.out 2>&1 &
host=$!
knows() { "$flowrun" schedules 2> /dev/null > sched.out; holds sched.out good && holds sched.out "is a FIFO"; }
until_true 20 knows
timeout 140 "$flowrun" <(cat p.yaml) --nodes nodes.yaml > out 2>&1
same "a pipe where another process drives" $? 2
has "a pipe where another process drives" out "is a pipe, which this process alone can read"
kill "$host"
wait "$host"
finish
