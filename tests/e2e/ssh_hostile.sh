#!/bin/bash
# Hostile bytes behind a real sshd: the player of hostile.sh is shipped there as flownode, in some of
# its ways, and other logins answer the dialogue that ships it with what they please (forced
# commands). The good node beside them does its task, memory is bounded, nothing of control is sent,
# no terminal sees a control byte. usage: ssh_hostile.sh BUILD HOSTILE_NODE
. "$(dirname "$0")/ssh_lib.sh"
hostile=$(realpath "$2")
begin "$1"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 1 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
trap '"$cluster" down "$work/c"; cleanup' EXIT
mkdir libexec outside
cp "$hostile" libexec/flownode
export REAL_FLOWNODE=$build/tasks/flownode FLOWRUN_LIBEXEC=$work/libexec
echo "canary of control" > outside/canary
echo "to be shipped" > small.txt

# What a login says instead of the shell's part of the dialogue.
escapes='\033[2J\033]0;owned\007\233'
declare -A says=(
    [babble]="yes | tr -d '\\n' | head -c 50000000"
    [lines]="yes FLOWBOOT | head -c 50000000"
    [wants]="i=0; while [ \$i -lt 300 ]; do echo; echo 'FLOWBOOT uname Linux x86_64'; echo 'FLOWBOOT need $work/outside/canary'; i=\$((i + 1)); done; cat > /var/wants"
    [refuses]="printf '\\nFLOWBOOT refused $escapes: no folder\\n'; exit 1"
    [errors]="i=0; while [ \$i -lt 100000 ]; do printf '$escapes\\n' >&2 || exit 4; i=\$((i + 1)); done; exit 3"
    [wide]="printf '\\nFLOWBOOT refused '; yes é | tr -d '\\n' | head -c 2000; exit 1"
    [wider]="printf '\\nFLOWBOOT refused x'; yes é | tr -d '\\n' | head -c 2000; exit 1"
    [leaves]="exit 0"
    [bytes]="printf '\\nFLOWBOOT uname Linux x86_64\\n'; read -r h n; printf 'FLOWBOOT run /x\\n'; head -c 8000000 /dev/urandom"
)
logins="babble lines wants refuses errors wide wider leaves bytes"
for w in $logins; do
    ssh-keygen -q -t ed25519 -N '' -C "$w" -f "key.$w"
    echo "${says[$w]}" | on 1 "cat > /var/say.$w"
    echo "command=\"exec sh /var/say.$w\" $(cat "key.$w.pub")" | on 1 'cat >> /etc/fr-node/authorized_keys'
done
ways="frame endless flood random text error garbage path"
at=$(sed -n 's/.*address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)
{
    echo "name: hostile"
    echo "nodes:"
    echo "  - {name: good, executor: local}"
    for w in $ways; do
        echo "  - {name: $w, address: $at, user: root, key: $work/c/id, known_hosts: $work/c/known_hosts, work: /var/ways/$w}"
    done
    cat <<'YAML'
max_parallel: 64
env: {W: "${{ env.W }}"}
tasks:
  good: {run: "until test -s $W/seen; do sleep 0.05; done; echo whole > $W/good", on: good}
  t:
    run: "true"
    on: [NODES]
    files: {in.txt: small.txt}
    outputs: [k]
    log: {max: 64KiB}
YAML
} | sed "s/NODES/${ways// /, }/" > p.yaml
{
    echo "nodes:"
    for w in $logins; do
        echo "  - {name: $w, address: $at, user: root, key: $work/key.$w, known_hosts: $work/c/known_hosts, transport: libssh2}"
    done
} > logins.yaml

# No terminal may see these: C0 but newline and tab, DEL, C1 in UTF-8, and bytes that are no UTF-8.
clean() {
    same "$1 has no control bytes" "$(LC_ALL=C grep -caP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1")" 0
    check "$1 is UTF-8" iconv -f UTF-8 -t UTF-8 -o /dev/null "$1"
}

(ulimit -v 300000; exec timeout 140 "$flowrun" p.yaml) > out 2>&1 &
pid=$!
got() { on 1 "for w in $ways; do ls /var/ways/\$w/*/got > /dev/null || exit 1; done"; }
until_true 40 got
echo > seen
wait "$pid"
same "nodes cannot be used" $? 6
same "the good node's task is done" "$(cat good)" whole
"$flowrun" status > status 2>&1
"$flowrun" logs > logs 2>&1
for w in $ways; do check "$w failed" grep -qE "^t@$w +(failed|lost|stop_unproven)" status; done
for f in out status logs; do clean "$f"; done

(ulimit -v 300000; exec timeout 140 "$flowrun" nodes --check logins.yaml) > logins 2>&1
same "logins that say what they please" $? 6
for w in $logins; do check "$w cannot be used" grep -qE "^$w .*cannot be used: [^ ]" logins; done
clean logins
same "no file of control was sent" "$(on 1 'grep -rls "canary of control" /var /root')" ""
same "nothing beside" "$(ls outside)" canary
same "the spool is empty" "$(find "$FLOWRUN_HOME/spool" -type f)" ""
finish
