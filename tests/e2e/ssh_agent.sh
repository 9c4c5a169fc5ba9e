#!/bin/bash
# Logins by the keys of agents. The host of other shells' runs uses the agents of these shells: of who
# submitted a run, resumed it or follows it, and its own; one that is refused is followed by another. After
# a host that was killed a follower's agent brings the node back. No socket's path is stored.
# usage: ssh_agent.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v ssh-agent > /dev/null || skip "needs ssh-agent"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 1 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
agents=()
trap 'kill "${agents[@]}" 2> /dev/null; "$cluster" down "$work/c"; cleanup' EXIT
on() { "$cluster" exec "$work/c" 1 sh -c "$1"; }
at=$(sed -n 's/.*address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)
mkdir h
export HOME=$work/h # no key files of anybody
unset SSH_AUTH_SOCK
ssh-keygen -q -t ed25519 -N '' -C stranger -f stranger
for key in c/id stranger; do
    ssh-agent -D -a "$work/agent.${key##*/}" > /dev/null 2>&1 &
    agents+=($!)
    until_true 10 test -S "agent.${key##*/}"
    SSH_AUTH_SOCK=$work/agent.${key##*/} ssh-add -q "$key"
done
good=$work/agent.id other=$work/agent.stranger
pipeline() { # TRANSPORT: its task says where it is, and waits for the file go if there is hold
    cat > p.yaml <<END
nodes: [{name: node1, address: $at, user: root, known_hosts: $work/c/known_hosts, transport: $1}]
tasks: {t: {run: "echo here; touch /var/began; until [ ! -e /var/hold ] || [ -e /var/go ]; do sleep 0.1; done; echo done"}}
END
    on 'rm -f /var/began /var/go /var/hold'
}
serve() { # [AGENT]: a host that stays, with that agent or none
    ${1:+env SSH_AUTH_SOCK="$1"} "$flowrun" serve > serve 2>&1 &
    serve=$!
    until_true 20 eval '[ "$(sed -n "s/^pid //p" home/host.lock)" = "$serve" ]'
    until_true 20 test -S home/host.sock
}
end() {
    kill -9 "$@"
    wait "$@" 2> /dev/null
}
for t in libssh2 openssh; do
    [ "$t" = openssh ] && { command -v ssh > /dev/null || continue; }
    pipeline $t
    serve
    "$flowrun" p.yaml > out 2>&1
    same "$t: without any agent" $? 6
    SSH_AUTH_SOCK=$other "$flowrun" p.yaml > out 2>&1
    same "$t: by an agent without the key" $? 6
    SSH_AUTH_SOCK=$good "$flowrun" p.yaml > out 2>&1
    same "$t: by the agent of who submits" $? 0
    has "$t: its task ran" out "t@node1 | done"
    end $serve
    serve "$good"
    SSH_AUTH_SOCK=$other "$flowrun" p.yaml > out 2>&1
    same "$t: the host's own, where the shell's is refused" $? 0

    # the host is killed while the task runs; the next one has no agent until a follower comes
    on 'rm -f /var/began; touch /var/hold'
    SSH_AUTH_SOCK=$good "$flowrun" p.yaml > out 2>&1 &
    pid=$!
    until_true 30 on 'test -e /var/began'
    end $serve $pid
    serve
    run=$("$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/')
    until_true 30 eval '"$flowrun" status $run | grep -q ": running"'
    on 'touch /var/go'
    SSH_AUTH_SOCK=$good "$flowrun" attach "$run" > attached 2>&1
    same "$t: with the follower's agent the run ends" $? 0
    has "$t: as it should" attached "t@node1 | done"
    end $serve
    same "$t: no path of an agent is stored" "$(grep -rlF "$work/agent." home)" ""
done
finish
