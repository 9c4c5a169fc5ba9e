#!/bin/bash
# Login shells and what stands in the way of one: csh and tcsh do the task; nologin, a restricted shell,
# forced commands, a wrong port and an unknown name are named at the first failure, together with how
# long the task waits; and each such run ends with the cause unreachable or a refusal.
. "$(dirname "$0")/lib.sh"
begin "$1"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 1 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
trap '"$cluster" down "$work/c"; cleanup' EXIT
on() { "$cluster" exec "$work/c" 1 sh -c "$1"; }
at=$(sed -n 's/.*address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)

# login NAME SHELL [FORCED COMMAND]: a user of the node, who may log in with the key of that name.
login() {
    ssh-keygen -q -t ed25519 -N '' -C "$1" -f "key.$1"
    on "useradd -m -s '$2' 'fr$1' && usermod -p '*' 'fr$1'" || bad "useradd fr$1"
    echo "${3:+command=\"$3\" }$(cat "key.$1.pub")" | on 'cat >> /etc/fr-node/authorized_keys'
}
on 'chmod 644 /etc/fr-node/authorized_keys'

# run NAME [USER-PORT-ADDRESS…]: a task on a node of that login; for openssh NAME has a '+' behind it.
try() {
    row=$1
    name=${1%+}
    cat > p.yaml <<END
nodes:
  - {name: n1, executor: ssh, address: ${2:-$at}, user: fr$name, key: $work/key.$name, known_hosts: $work/c/known_hosts,
     transport: $([ "$name" = "$1" ] && echo libssh2 || echo openssh), connect: {timeout: ${3:-60s}, retry_for: 1s}${4:+, port: $4}}
tasks: {t: {run: 'echo "in \$(id -un)"; pwd'}}
END
    "$flowrun" p.yaml > out 2>&1
    rc=$?
}

# The first line about the node is the failure itself, and says how long the task waits.
first() {
    grep -m1 -F "n1: unreachable: " out > first || : > first
    has "$row: what it is" first "$1"
    has "$row: until when" first "waits 1.0s for it (connect.retry_for)"
    same "$row: exit code" $rc 6
}
advice="(the user's login shell has to run flowrun's command: it must not be nologin, a restricted shell or a forced command, and its startup files, like ~/.bashrc, must not exec another program, redirect their output (exec 1>&2), read stdin or exit)"

for s in csh tcsh; do
    if on "command -v $s" > /dev/null; then
        login "$s" "/bin/$s"
        for t in "$s" "$s+"; do
            try "$t"
            same "$t: exit code" $rc 0
            has "$t: the task ran" out "t@n1 | in fr$s"
        done
    else
        echo "skipped: no $s here"
    fi
done

login nologin /usr/sbin/nologin
for t in nologin nologin+; do
    try $t
    first "it said: This account is currently not available. $advice"
done

login force /bin/sh "echo only this"
for t in force force+; do
    try $t
    first "ended with status 0"
    has "$t: its words" first "it said: only this $advice"
done

login menu /bin/sh "echo choose one; exec sleep 100000"
for t in menu menu+; do
    try $t "" 2s
    first "no login, or no answer from its shell, within 2.0s (connect.timeout); it said: choose one $advice"
done

# Startup files of a shell that would do.
n=0
for line in "exec bash" "exec 1>&2" "exit 0"; do
    n=$((n + 1))
    login "rc$n" /bin/bash
    on "echo '$line' > /home/frrc$n/.bashrc && chown frrc$n: /home/frrc$n/.bashrc"
    for t in "rc$n" "rc$n+"; do
        try "$t" "" 2s
        same "$t: $line: exit code" $rc 6
        grep -m1 -F "n1: unreachable: " out > first || : > first
        has "$t: $line" first "its startup files, like ~/.bashrc, must not exec another program"
    done
done

login rbash /bin/rbash
for t in rbash rbash+; do
    try $t
    same "$t: exit code" $rc 6
    grep -m1 -F "n1: " out > first
    has "$t: what it is" first "restricted"
    has "$t: advice" first "$advice"
done

login plain /bin/sh
try plain "" 60s 1
first "$at: Connection refused"
try plain+ "" 60s 1
first "port 1: Connection refused"
try plain "no.such.host.invalid"
first "cannot find host 'no.such.host.invalid': "
try plain "" 60s
same "a login like any other" $rc 0
finish
