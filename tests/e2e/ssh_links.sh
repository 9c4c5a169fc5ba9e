#!/bin/bash
# A task on each of three nodes, while the links and sshds between flowrun and them fail in their ways:
# a link down for a second and for longer, a session that is frozen but not closed with a start on its
# way in it, an sshd whose sessions are killed, or that is killed whole and comes back with its only
# place for a login taken (MaxStartups 1, MaxSessions 1), every fifth packet lost. The same attempts go
# on, nothing runs twice, no line of output is lost or doubled. Then, at 1 Mbit/s that one task floods,
# another is stopped. SSH_LINKS_LONG=1: a link down for longer than serve waits for one (2 min), more of
# the lost packets, and at 1 Mbit/s a log that is still coming when its run is over.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"

# node2 is reached by an sshd of its own, which can be killed without the node.
on 2 'sed -e "s/^Port 22$/Port 2222/" -e "s/^PidFile.*/PidFile \/run\/second.pid/" /etc/fr-node/sshd_config > /etc/second
printf "MaxStartups 1\nMaxSessions 1\nLoginGraceTime 60\nLogLevel VERBOSE\n" >> /etc/second'
sshd2() { on 2 '/usr/sbin/sshd -f /etc/second -E /var/second.log'; }
sshd2
sed -i '/node2/s/user: root/port: 2222, user: root/' c/nodes.yaml
sed -n 's/^\([0-9.]*12\) /[\1]:2222 /p' c/known_hosts > more
cat more >> c/known_hosts
{
    echo "name: links"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  count:
    on: all
    shell: bash
    run: |
      echo "$FLOWRUN_ATTEMPT" >> /var/ran
      i=0
      until test -e /var/free; do i=$((i + 1)); echo "line $i"; sleep 0.05; done
  gate: {on: node1, run: "until test -e /var/gate; do sleep 0.05; done"}
  late: {on: node2, needs: [gate], run: "echo $FLOWRUN_ATTEMPT >> /var/late"}
END
} > links.yaml

again() { test "$(grep -c "node$1: connected" out)" -gt "$2"; } # connected more often than so
sessions() { on "$1" 'pgrep -f "^sshd(-session)?: root"' | tr '\n' ' '; }
count_lines() { grep -c "count@node$1 | line" out; }
grown() { test "$(count_lines "$1")" -gt "$2"; }
flows() { until_true 60 grown "$1" "$(count_lines "$1")"; }

start links.yaml
pid=$!
for i in 1 2 3; do until_true 60 holds out "count@node$i | line 3"; done
until_true 60 holds out "gate@node1 running"

# node1: down for a second. node2: frozen, not closed; a start goes into it. node3: down.
old=$(sessions 2)
on 2 "kill -STOP $old"
"$cluster" cut "$work/c" 3
"$cluster" cut "$work/c" 1
sleep 1 # how long it is down
"$cluster" join "$work/c" 1
on 1 'touch /var/gate'
until_true 60 holds out "late@node2 starting"
until_true 60 holds out "node2: unreachable"
until_true 60 holds out "node3: unreachable"
[ -z "${SSH_LINKS_LONG:-}" ] || sleep 150 # how long it is down
"$cluster" join "$work/c" 3
until_true 60 holds out "late@node2 succeeded"
on 2 "kill -CONT $old"
until_true 60 eval '! on 2 "kill -0 $old" 2> /dev/null' # it hears that there is a newer one
until_true 60 again 3 1
for i in 1 2 3; do flows $i; done
same "the start came twice and ran once" "$(on 2 'wc -l < /var/late')" 1
has "what to do about a node that is gone" out "'flowrun resume 1 --abandon node3' gives it up"

# node3: its sessions are killed. node2: first its listener, then its sessions, too.
on 3 "kill -9 $(sessions 3)"
on 2 'kill -9 $(cat /run/second.pid)'
until_true 60 again 3 2
flows 2
check "a session outlives its listener" eval '! again 2 2'
on 2 "kill -9 $(sessions 2)"
until_true 60 eval 'test "$(grep -c "node2: unreachable" out)" = 2'
addr2=$(sed -n 's/.*name: node2, address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)
stranger() { exec 7<> "/dev/tcp/$addr2/2222" && read -r -t 10 banner <&7; }
sshd2
until_true 60 stranger # has the only place for a login now
until_true 60 on 2 'grep -qi maxstartups /var/second.log' # as any OpenSSH spells it
exec 7<&- 7>&-
until_true 60 again 2 2

# every fifth packet is lost
lossy() {
    on 1 'nft add table ip fr' && for k in input output; do
        on 1 "nft 'add chain ip fr $k { type filter hook $k priority 0; }' && nft add rule ip fr $k numgen random mod 100 '<' 20 drop" || return
    done
}
if lossy 2> nft.err; then
    for k in $(seq "${SSH_LINKS_LONG:+1}3"); do flows 1; done
    on 1 'nft delete table ip fr'
else
    echo "left out: lost packets (no nftables here)"
fi

for i in 1 2 3; do on $i 'touch /var/free'; done
wait "$pid"
same "the run" $? 0
for i in 1 2 3; do
    same "node$i ran it once" "$(on $i 'wc -l < /var/ran')" 1
    log=$(echo home/runs/*/count@node$i.1.log)
    check "the output of node$i" cmp -s "$log" <(seq "$(lines "$log")" | sed 's/^/line /')
done
"$flowrun" status > status
same "succeeded at the first attempt" "$(awk '$2 == "succeeded" && $3 == 1' status | wc -l)" 5

finish
