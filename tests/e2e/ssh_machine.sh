#!/bin/bash
# One machine that inventories call by different names, and reach by different ports, has one home and
# one capacity: with a slot each, tasks of two shells never overlap; the smaller number of slots counts
# and is said. Homes that an older flowrun named by the node's name stay in use. usage: ssh_machine.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 1 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
trap '"$cluster" down "$work/c"; cleanup' EXIT
on() { "$cluster" exec "$work/c" 1 sh -c "$1"; }
at=$(sed -n 's/.*address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)
on "sed 's/^Port 22/Port 2222/' /etc/fr-node/sshd_config > /etc/fr-node/other && /usr/sbin/sshd -f /etc/fr-node/other"
sed "s/^$at /[$at]:2222 /" c/known_hosts > known && cat known >> c/known_hosts
# pipeline NAME NODE SLOTS MORE: tasks on the machine under that name.
pipeline() {
    cat > "$1.yaml" <<END
name: $1
nodes: [{name: $2, address: $at, user: root, key: $work/c/id, known_hosts: $work/c/known_hosts, slots: $3$4}]
tasks:
  a: {run: "echo $1 in >> /var/order; sleep 0.2; echo $1 out >> /var/order"}
  b: {run: "echo $1 in >> /var/order; sleep 0.2; echo $1 out >> /var/order"}
  c: {run: "echo $1 in >> /var/order; until test -e /var/go; do sleep 0.05; done; echo $1 out >> /var/order"}
END
}
pipeline left first 1 ""
pipeline right second 1 ", port: 2222"
pipeline wide third 4 ", port: 2222"
homes() { on 'cd /root/.local/state/flowrun && ls -d *-* | paste -sd " "'; }
order() { on "awk '{print \$2}' /var/order | paste -sd ' '"; }

"$flowrun" serve > serve 2>&1 & # one host for all of it
serve=$!
until_true 20 test -S home/host.sock

# ---- two shells, two names, two ports: one slot
"$flowrun" left.yaml > left.out 2>&1 &
left=$!
"$flowrun" right.yaml > right.out 2>&1 &
right=$!
until_true 60 eval 'test "$(on "wc -l < /var/order")" -ge 5'
on 'touch /var/go'
wait $left
same "the first shell" $? 0
wait $right
same "the second" $? 0
same "no two at once" "$(order)" "in out in out in out in out in out in out"
same "one home, by the machine's own name" "$(homes | sed -E 's/^[0-9a-f]{12}-//')" node1
id=$(homes | cut -d- -f1)
same "both saw the same" "$(on "sort -u /var/order | wc -l")" 4

# ---- different numbers of slots: the smaller counts, who said more is told
on 'rm /var/order /var/go'
"$flowrun" left.yaml > left.out 2>&1 &
left=$!
until_true 60 on 'test -s /var/order'
"$flowrun" wide.yaml > wide.out 2>&1 &
wide=$!
until_true 60 holds wide.out "node third: its machine is node first of run 3, too, which has 1 slots there (here 4): the smaller number counts"
on 'touch /var/go'
wait $left
same "the one with one slot" $? 0
wait $wide
same "the one with four" $? 0
hasnt "the other is not told" left.out "the smaller number"

# ---- a home of an older flowrun, called by the node's name, with a task that lives in it
kill -TERM $serve # it would keep its connection, and what it leads to
wait $serve
on "cd /root/.local/state/flowrun && mv $id-node1 $id-first && rm -f /var/order /var/go"
"$flowrun" left.yaml > left.out 2>&1 &
left=$!
until_true 60 eval 'test "$(on "grep -c in /var/order")" -ge 3' # c waits there
same "it is used, and the machine's own name leads there" "$(on "readlink /root/.local/state/flowrun/$id-node1")" "$id-first"
kill -9 $left
wait $left 2> /dev/null
on 'touch /var/go'
"$flowrun" resume > resumed 2>&1
same "what lived there is found again" $? 0
same "each task ran once" "$(on "wc -l < /var/order")" 6
on 'rm /var/order'
"$flowrun" right.yaml > right.out 2>&1
same "another name goes there, too" $? 0
same "two names, no third home" "$(homes)" "$id-first $id-node1"

# ---- two such homes: each name keeps its own
on "cd /root/.local/state/flowrun && mkdir -m 700 $id-second"
"$flowrun" right.yaml > right.out 2>&1
same "a home of the other name" $? 0
check "is the one that is used" on "test -s /root/.local/state/flowrun/$id-second/journal"

# ---- another work folder is another home
sed 's|slots: 1,|slots: 1, work: /var/elsewhere,|' right.yaml > work.yaml
"$flowrun" work.yaml > work.out 2>&1
same "with a work folder" $? 0
check "its home is there" on "test -s /var/elsewhere/$id-node1/journal"

# ---- one that is not absolute is below the user's home there, for all who read its name
cat > below.yaml <<END
nodes: [{name: second, address: $at, user: root, key: $work/c/id, known_hosts: $work/c/known_hosts, port: 2222, work: below}]
tasks:
  a: {run: 'mkdir -p "\$FLOWRUN_WORK/out" && echo kept > "\$FLOWRUN_WORK/out/f"'}
  b: {needs: [a], run: 'cd / && cat "\$FLOWRUN_WORK/out/f" && echo "at \$FLOWRUN_WORK"'}
END
"$flowrun" below.yaml > below.out 2>&1
same "with a relative one" $? 0
has "what a task keeps is there for the next one" below.out "b@second | kept"
has "by an absolute name" below.out "b@second | at /root/below"
check "flownode has its home there, too" on "test -s /root/below/out/f && test -s /root/below/$id-node1/journal"
finish
