#!/bin/bash
# Time of a no-op task: flowrun against `xargs -P2 -n1 true` over the same N, interleaved, medians.
# usage: engine.sh BUILD [N …]
set -u
build=${1:-build}
shift || true
flowrun=$PWD/$build/engine/cli/flowrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FLOWRUN_HOME=$work/home

now_ms() { echo $(($(date +%s%N) / 1000000)); }
median() { sort -n | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }

pipeline() {
    echo "name: noop"
    echo "max_parallel: 2"
    echo "nodes: [{name: here, executor: local, slots: 2}]"
    echo "tasks:"
    for i in $(seq "$1"); do echo "  t$i: {argv: [\"true\"]}"; done
}

pipeline 1 > "$work/1.yaml"
"$flowrun" "$work/1.yaml" > "$work/log" 2>&1 || { cat "$work/log"; exit 0; }

printf '%8s %14s %14s %8s\n' tasks 'xargs ms/task' 'flowrun ms/task' ratio
for n in "${@:-100 1000}"; do
    for one in $n; do
        pipeline "$one" > "$work/$one.yaml"
        : > "$work/x"
        : > "$work/f"
        for _ in 1 2 3 4 5; do
            t=$(now_ms); seq "$one" | xargs -P2 -n1 true; echo $(($(now_ms) - t)) >> "$work/x"
            t=$(now_ms)
            "$flowrun" "$work/$one.yaml" > "$work/log" 2>&1 || { tail -3 "$work/log"; exit 0; }
            echo $(($(now_ms) - t)) >> "$work/f"
        done
        x=$(median < "$work/x")
        f=$(median < "$work/f")
        awk -v n="$one" -v x="$x" -v f="$f" \
            'BEGIN {printf "%8d %14.2f %14.2f %8.2f\n", n, x / n, f / n, f / x}'
    done
done
