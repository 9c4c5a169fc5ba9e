#!/bin/bash
# What the engine costs, beside `xargs -n1 true` over the same N where that makes sense: interleaved
# runs, medians. Prints one line a measurement and never fails. About 3 minutes on two cores.
#
# usage: engine.sh BUILD [-n "N …"] [-r ROUNDS] [-s "N …"] [-c NODES]
#   -n  tasks of the local runs (300 1000), up to 100000; PSS and a kill are measured with the last,
#       and a chain of at most 5000
#   -r  rounds of each (3)
#   -s  tasks over SSH on three nodes, "" for none (300 3000); needs root, see tests/e2e/cluster.sh
#   -c  nodes to connect all at once (0: not measured)
set -u
build=$(cd "${1:-build}" && pwd)
shift || true
counts="300 1000" rounds=3 ssh_counts="300 3000" crowd=0
while getopts n:r:s:c: o; do
    case $o in
        n) counts=$OPTARG ;;
        r) rounds=$OPTARG ;;
        s) ssh_counts=$OPTARG ;;
        c) crowd=$OPTARG ;;
        *) exit 2 ;;
    esac
done
repo=$(cd "$(dirname "$0")/../.." && pwd)
flowrun=$build/engine/cli/flowrun
cluster=$repo/tests/e2e/cluster.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/fr-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 0
export FLOWRUN_HOME=$work/home NO_COLOR=1

. "$repo/tests/bench/measure.sh"
written() { awk '/^write_bytes/ {print $2}' "/proc/$$/io"; }
chain() {
    echo "name: chain"
    local_node 1
    echo "tasks:"
    echo "  t1: {argv: [\"true\"]}"
    seq 2 "$1" | awk '{printf "  t%d: {needs: [t%d], argv: [\"true\"]}\n", $1, $1 - 1}'
}

compare() { # NAME FILE N P
    local x f w0
    rm -f x f w
    for _ in $(seq "$rounds"); do
        timed x bash -c "seq $3 | xargs -P$4 -n1 true"
        w0=$(written)
        timed f "$flowrun" "$2"
        echo $(($(written) - w0)) >> w
    done
    x=$(median < x) f=$(median < f)
    row "$1" "$(per "$f" "$x" 2) x xargs -P$4 ($(per "$f" "$(($3 * 1000))" 3) against $(per "$x" "$(($3 * 1000))" 3) ms a task), $(per "$(median < w)" "$(($3 * 1024))" 1) KB written a task"
}

one_task() {
    rm -f f
    for _ in $(seq $((rounds * 5))); do timed f "$flowrun" one.yaml; done
    row "one task, start to end" "$(per "$(median < f)" 1000 1) ms"
}

pss() { # N FILE: the largest of many looks
    local pid most=0 kb
    "$flowrun" "$2" > log 2>&1 &
    pid=$!
    while kill -0 $pid 2> /dev/null; do
        kb=$(pss_kb $pid)
        [ "${kb:-0}" -gt "$most" ] && most=$kb
        moment 0.02
    done
    row "memory of flowrun (PSS), $1 tasks" "$(per "$most" 1024 1) MB"
}

after_kill() { # N FILE
    local pid t
    "$flowrun" "$2" > log 2>&1 &
    pid=$!
    while kill -0 $pid 2> /dev/null && [ "$(grep -c succeeded log)" -lt $(($1 / 3)) ]; do moment 0.02; done
    kill -9 $pid
    wait $pid 2> /dev/null
    t=$(now_us)
    "$flowrun" status > log 2>&1
    row "right state after kill -9, $1 tasks" "$(per $(($(now_us) - t)) 1000 0) ms (flowrun status)"
    t=$(now_us)
    "$flowrun" resume > log 2>&1 || tail -3 log
    row "  resume of it, to the end" "$(per $(($(now_us) - t)) 1000 0) ms, $(grep -c succeeded log) lines of success"
}

over_ssh() { # N
    local f
    rm -f f
    wide "$1" 16 ssh > ssh.yaml
    for _ in $(seq "$rounds"); do timed f "$flowrun" ssh.yaml; done
    f=$(median < f)
    row "$1 no-op tasks over SSH, 3 nodes, 16 at once" "$(per "$f" 1000000 2) s, $(per $(($1 * 1000000)) "$f" 0) tasks/s, $("$flowrun" status | grep -c ' succeeded ') succeeded"
}

stop_remote() {
    local pid t
    { echo "name: stop"; cat c/nodes.yaml; echo 'tasks: {s: {on: node1, grace: 1s, run: "trap : TERM; echo up; while :; do sleep 1 || :; done"}}'; } > stop.yaml
    "$flowrun" stop.yaml > log 2>&1 &
    pid=$!
    while kill -0 $pid 2> /dev/null && ! "$flowrun" logs 2> /dev/null | grep -q up; do moment 0.05; done
    t=$(now_us)
    "$flowrun" cancel > log2 2>&1
    wait $pid
    row "stop of a remote task that ignores SIGTERM" "$(per $(($(now_us) - t)) 1000 0) ms, of which 1000 are its grace"
}

dead_link() {
    local pid t
    { echo "name: cut"; cat c/nodes.yaml; echo 'tasks: {s: {on: node2, argv: [sleep, "25"]}}'; } > cut.yaml
    "$flowrun" cut.yaml -v > log 2>&1 &
    pid=$!
    while kill -0 $pid 2> /dev/null && ! grep -q "s@node2 running" log; do moment 0.05; done
    "$cluster" cut c 2
    t=$(now_us)
    while kill -0 $pid 2> /dev/null && ! grep -q unreachable log; do moment 0.05; done
    row "dead link noticed" "$(per $(($(now_us) - t)) 1000 0) ms"
    "$cluster" join c 2
    wait $pid && row "  the task went on" "yes" || row "  the task went on" "no: $(tail -1 log)"
}

# NODES names that lie on three machines, each with a folder of its own.
many_nodes() {
    local pid t kb=0 base ticks
    { echo "name: crowd"; echo "max_parallel: $crowd"; echo "nodes:"
      grep -v '^nodes' c/nodes.yaml | grep 'name: node' > lines
      for i in $(seq "$crowd"); do
          sed -n "$((i % 3 + 1))p" lines | sed "s/name: node[0-9]*/name: m$i/; s/}\$/, work: \/var\/m$i}/"
      done
      echo 'tasks: {t: {on: all, argv: ["true"]}, last: {needs: [t], on: head, argv: [sleep, "15"]}}'; } > crowd.yaml
    t=$(now_us)
    "$flowrun" crowd.yaml -v > log 2>&1 &
    pid=$!
    base=0
    while kill -0 $pid 2> /dev/null && ! grep -q 'last.*running' log; do
        kb=$(pss_kb $pid)
        [ "$base" = 0 ] && base=${kb:-0}
        moment 0.2
    done
    row "$crowd nodes: connect all, one task each" "$(per $(($(now_us) - t)) 1000000 1) s, $(per $((${kb:-0} - base)) "$crowd" 0) KB a node"
    moment 2
    ticks=$(awk '{print $14 + $15}' "/proc/$pid/stat" 2> /dev/null)
    moment 10
    ticks=$(($(awk '{print $14 + $15}' "/proc/$pid/stat" 2> /dev/null) - ${ticks:-0}))
    row "  CPU of flowrun while one long task runs" "$(per $((ticks * 10)) "$(getconf CLK_TCK)" 2) %"
    wait $pid || tail -3 log
}

about "$rounds"
wide 1 2 > one.yaml
"$flowrun" one.yaml > log 2>&1 || { cat log; exit 0; }
for n in $counts; do
    for p in 2 16; do
        wide "$n" $p > wide.yaml
        compare "$n no-op tasks, wide at $p" wide.yaml "$n" 2
    done
done
last=${counts##* }
links=$((last < 5000 ? last : 5000))
chain "$links" > chain.yaml
compare "chain of $links" chain.yaml "$links" 1
one_task
wide "$last" 2 > wide.yaml
pss "$last" wide.yaml
after_kill "$last" wide.yaml
[ -n "$ssh_counts$crowd" ] || exit 0
export CLUSTER_HIDE=$build:$work
"$cluster" up c 3 > log 2>&1 || { row "over SSH" "not measured: $(tail -1 log)"; exit 0; }
trap '"$cluster" down "$work/c"; rm -rf "$work"' EXIT
wide 3 3 ssh > ship.yaml
"$flowrun" ship.yaml > log 2>&1 || { cat log; exit 0; }
for n in $ssh_counts; do over_ssh "$n"; done
stop_remote
dead_link
[ "$crowd" -gt 0 ] && many_nodes
exit 0
