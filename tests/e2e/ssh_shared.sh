#!/bin/bash
# 20 runs of 20 shells over SSH: one connection a node, counted by ss;
# kill -9 of their host: one of the followers takes all of it over, each task ran once.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
n1=$(sed -n 's/.*name: node1, address: \([0-9.]*\).*/\1/p' c/nodes.yaml)
links() { ss -Htn state established "dst $n1:22" | wc -l; }

{
    echo "name: many"
    sed 's/known_hosts}/known_hosts, slots: 64}/; s#known_hosts: \([^,}]*\)}#known_hosts: \1, slots: 64}#' c/nodes.yaml
    echo 'tasks: {t: {on: node1, run: "echo $FLOWRUN_RUN >> /var/ran; until test -e /var/go; do sleep 0.1; done; echo over"}}'
} > many.yaml
"$flowrun" validate many.yaml > /dev/null || bad "the pipeline"
pids=()
for i in $(seq 20); do
    "$flowrun" many.yaml --quiet > out.$i 2>&1 &
    pids+=($!)
done
all() { test "$(on 1 'wc -l < /var/ran 2> /dev/null || echo 0')" = 20; }
until_true 90 all
same "20 runs, connections to their node" "$(links)" 1

host=$(sed -n 's/^pid //p' "$FLOWRUN_HOME/host.lock")
kill -9 "$host"
moved() { p=$(sed -n 's/^pid //p' "$FLOWRUN_HOME/host.lock"); test "$p" != "$host" && kill -0 "$p" 2> /dev/null && test "$(links)" = 1; }
until_true 30 moved
on 1 'touch /var/go'
codes=
for p in "${pids[@]}"; do
    wait "$p"
    codes="$codes $?"
done
same "all but the killed one went on" "$(echo $codes | tr ' ' '\n' | sort | uniq -c | paste -sd ' ' | tr -s ' ')" " 19 0 1 137"
same "each task ran once" "$(on 1 'sort /var/ran | uniq | wc -l')" 20
same "and none twice" "$(on 1 'wc -l < /var/ran')" 20
finish
