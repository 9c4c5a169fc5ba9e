#!/bin/bash
# ssh's configuration counts as ssh itself reads it: the user's and the system's, by `ssh -G`. A revoked
# key is refused, an authority for hosts is honoured, HostName has its tokens; what was in force is shown
# by `nodes --check -v`, and what no transport can honour is named. In a mount namespace of its own, in
# which the system's ssh_config and the user's folder are the test's.
. "$(dirname "$0")/lib.sh"
if [ -z "${FR_INSIDE:-}" ]; then
    [ "$(id -u)" = 0 ] || skip "needs root"
    unshare --mount true 2> /dev/null || skip "needs mounts of its own (the root of a chroot is none)"
    FR_INSIDE=1 exec unshare --mount --propagation private "$BASH" "$0" "$@"
fi
begin "$1"
command -v ssh > /dev/null || skip "needs ssh"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 1 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
trap '"$cluster" down "$work/c"; cleanup' EXIT
unset SSH_AUTH_SOCK
at=$(sed -n 's/.*address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)
hostkey=$(cut -d' ' -f2,3 c/known_hosts)
mkdir -p dotssh
mount --bind dotssh "$(getent passwd root | cut -d: -f6)/.ssh" 2> /dev/null ||
    { mkdir -p -m 700 /root/.ssh && mount --bind dotssh /root/.ssh; } || skip "no ~/.ssh of its own"
: > system
[ -e /etc/ssh/ssh_config ] || skip "no /etc/ssh/ssh_config"
mount --bind system /etc/ssh/ssh_config
cp c/id dotssh/id_ed25519
cp c/known_hosts dotssh/known_hosts

# check ROW ADDRESS [KEY: VALUE…]: one node of that address; its answer is in out.
one() {
    row=$1
    printf 'nodes: [{name: n1, executor: ssh, address: %s%s}]\n' "$2" "${3:+, $3}" > n.yaml
    "$flowrun" nodes --check -v n.yaml > out 2>&1
    rc=$?
}

one "nothing configured" "$at"
same "$row: exit code" $rc 0
has "$row: what is in force" out "    user root"
has "$row: the key that is there" out "    identityfile ~/.ssh/id_ed25519"

cat > system <<END
Host far
  HostName ${at%.*}.%h
Host ${at##*.}
  HostName ${at%.*}.%h
  Compression yes
END
one "the system's ssh_config, HostName with a token" "'${at##*.}'"
same "$row: exit code" $rc 0
has "$row: the name" out "    hostname $at"
has "$row: what only ssh can do" out "    compression yes"
: > system

echo "$hostkey" > revoked
printf 'Host *\n  RevokedHostKeys %s\n' "$work/revoked" > dotssh/config
one "a revoked key" "$at"
same "$row: exit code" $rc 6
has "$row: it is refused" out "revoked by file"
has "$row: what is in force" out "    revokedhostkeys $work/revoked"
one "a revoked key, libssh2" "$at" "transport: libssh2"
same "$row: exit code" $rc 6
has "$row: it is refused" out "libssh2 cannot honour 'revokedhostkeys $work/revoked': set transport: openssh, or auto"

# The node gets a certificate, and only its authority is known.
rm dotssh/config
ssh-keygen -q -t ed25519 -N '' -C authority -f authority
echo "$hostkey" > host.pub
ssh-keygen -q -s authority -I node1 -h -n "$at" host.pub
on() { "$cluster" exec "$work/c" 1 sh -c "$1"; }
on 'cat > /etc/fr-node/host_key-cert.pub; echo "HostCertificate /etc/fr-node/host_key-cert.pub" >> /etc/fr-node/sshd_config; kill -HUP 1' < host-cert.pub
echo "@cert-authority * $(cut -d' ' -f1,2 authority.pub)" > dotssh/known_hosts
answers() { one "@cert-authority" "$at" && [ $rc = 0 ]; }
until_true 20 answers # sshd starts anew
same "$row: exit code" $rc 0
printf 'nodes: [{name: n1, executor: ssh, address: %s}]\ntasks: {t: {run: "true"}}\n' "$at" > p.yaml
"$flowrun" p.yaml > out 2>&1
same "$row: a run" $? 0
has "$row: by which way, and why" out "n1: by the system's ssh: @cert-authority in /root/.ssh/known_hosts line 1"

printf 'Host *\n  RemoteCommand top\n' > dotssh/config
"$flowrun" p.yaml > out 2>&1
same "what nobody can honour" $? 6
has "is named" out "has 'remotecommand top'"
finish
