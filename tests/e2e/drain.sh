#!/bin/bash
# A drained node: what runs there ends, what would start waits and says so, whoever is the host; a gang
# that needs it keeps nothing of other nodes. usage: drain.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
: > order
pipeline() { # NAME NODE
    cat > "$1.yaml" << END2
name: $1
nodes: [{name: $2, executor: local, slots: 1}]
env: {W: "\${{ env.W }}"}
tasks:
  t: {run: 'echo $1 in >> \$W/order; until test -e \$W/go.$1; do sleep 0.02; done; echo $1 out >> \$W/order', on: $2}
END2
}
start() { # NAME: pid, its output in out.NAME
    "$flowrun" "$1.yaml" > "out.$1" 2>&1 &
    pid=$!
}
order() { paste -sd ' ' order; }

pipeline one n1
pipeline other n1
"$flowrun" drain > out
same "none is" "$? $(cat out)" "0 no node is drained"
"$flowrun" drain n1 > out 2>&1
same "a node that no run has reached" $? 2
has "it says so" out "no run of this home has reached a node 'n1'"
"$flowrun" drain 'a b' > out 2>&1
same "no name" "$? $(cat out)" "2 flowrun: 'a b' cannot be the name of a node"

# ---- while a task runs there: it ends, the next one waits
start one
one=$pid
until_true 30 holds order "one in"
"$flowrun" drain n1 --note "a new disk" > out
same "drained" "$? $(cat out)" "0 n1 is drained: what runs there ends, nothing new starts"
start other
other=$pid
waits() { "$flowrun" status 2 2> /dev/null | grep -q "waits for n1, which is drained: a new disk"; }
until_true 30 waits
"$flowrun" api nodes > nodes
has "its node says so" nodes '"note":"a new disk","who":""'
touch go.one
wait $one
same "what ran there ended" "$? $(order)" "0 one in one out"

# ---- over a host that is killed, and without one
kill -9 $other
wait $other 2> /dev/null
"$flowrun" drain > out
has "it is listed" out "drained since "
has "with its note" out ": a new disk"
"$flowrun" resume 2 > out.other 2>&1 &
other=$!
until_true 30 waits
same "nothing has begun" "$(order)" "one in one out"
"$flowrun" undrain n1 > out
same "let go" "$? $(cat out)" "0 n1 takes tasks again"
until_true 30 holds order "other in"
touch go.other
wait $other
same "it goes on" "$? $(order)" "0 one in one out other in other out"
"$flowrun" undrain n1 > out 2>&1
same "twice" "$? $(cat out)" "5 flowrun: the node is not drained"

# ---- a gang that needs it keeps nothing of the others
rm go.*
: > order
"$flowrun" drain n1 > out
cat > gang.yaml << END2
nodes: [{name: n1, executor: local, slots: 1}, {name: n2, executor: local, slots: 1}]
tasks: {g: {run: 'true', gang: true, on: [n1, n2]}}
END2
pipeline third n2
start gang
gang=$pid
gang_waits() { "$flowrun" status 3 2> /dev/null | grep -q "waits for n1, which is drained"; }
until_true 30 gang_waits
touch go.third
start third
wait $pid
same "another run has its other node" "$? $(order)" "0 third in third out"
"$flowrun" undrain n1 > out
wait $gang
same "then it runs" $? 0

# ---- a gang keeps a node for the time when the other one is free, unless that one is drained
rm go.*
: > order
pipeline fourth n1
pipeline fifth n2
start fourth
fourth=$pid
until_true 30 holds order "fourth in"
start gang
gang=$pid
until_true 30 eval '"$flowrun" status 6 2> /dev/null | grep -q "waits for slots of n1"'
start fifth
fifth=$pid
until_true 30 eval '"$flowrun" status 7 2> /dev/null | grep -q "waits for slots of n2"'
"$flowrun" drain n1 > out
until_true 30 holds order "fifth in"
touch go.fifth
wait $fifth
same "the node that it kept is free" "$? $(order)" "0 fourth in fifth in fifth out"
"$flowrun" undrain n1 > out
touch go.fourth
wait $gang
same "then it runs, too" $? 0
wait $fourth

# ---- a host that has not met the node
"$flowrun" serve > served 2>&1 &
host=$!
until_true 30 test -S "$FLOWRUN_HOME/host.sock"
names() { "$flowrun" api nodes | grep -o '"name":"[^"]*","state":"seen","attempts":\[\],"seen_wall":[1-9]' | cut -d '"' -f 4 | paste -sd ' '; }
same "it knows those that runs before it reached" "$(names)" "n1 n2"
"$flowrun" drain n1 > out
same "drained" "$? $(cat out)" "0 n1 is drained: what runs there ends, nothing new starts"
"$flowrun" undrain n1 > out 2>&1
same "and let go" "$? $(cat out)" "0 n1 takes tasks again"
kill $host
wait $host

# ---- who holds the lock and does not listen has just begun, or writes one thing: it is waited for
cat > holds_lock.py << 'END'
import fcntl, os, struct, subprocess, sys
fd = os.open(os.environ["FLOWRUN_HOME"] + "/host.lock", os.O_RDWR)
fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
p = subprocess.Popen(sys.argv[1:])
looks = lambda: int(open(f"/proc/{p.pid}/status").read().split("\nvoluntary_ctxt_switches:")[1].split()[0])
while p.poll() is None and looks() < 30:
    pass
ended = p.poll() is not None
os.close(fd)
print("at once" if ended else "waited", p.wait())
END
python3 holds_lock.py "$flowrun" drain n1 > out 2>&1
same "it waits for the lock" "$(paste -sd ' ' out)" "n1 is drained: what runs there ends, nothing new starts waited 0"
python3 holds_lock.py "$flowrun" undrain n1 > out 2>&1
same "and so it is let go" "$(paste -sd ' ' out)" "n1 takes tasks again waited 0"
python3 holds_lock.py "$flowrun" api nodes > out 2>&1
has "a question, too" out "waited 6"
same "nothing is left running" "$(left)" ""
finish
