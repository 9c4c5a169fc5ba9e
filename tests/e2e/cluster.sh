#!/bin/bash
# Nodes in a box: each a network namespace with its own sshd, in mount, PID, IPC and host name
# namespaces of its own. A node sees a private copy of this machine's root (overlayfs; what it writes
# stays its own and survives a crash) in which the source tree, all homes, /tmp and the folders
# named in CLUSTER_HIDE ("a:b") are empty. Needs root; exits 77 where that cannot work.
#
#   cluster.sh up DIR [N]      makes N nodes (3); DIR gets nodes.yaml, id, id_rsa, known_hosts and
#                              ssh_config (nodeI: RSA key, by way of node1; plainI: straight there)
#   cluster.sh down DIR        ends them, and removes what belongs to them
#   cluster.sh cut DIR I       takes node I's link down;  cluster.sh join DIR I  brings it back
#   cluster.sh crash DIR I     kills everything on node I; cluster.sh boot DIR I  starts it, a new boot id
#   cluster.sh exec DIR I CMD… runs CMD on node I (not over ssh)
#   cluster.sh list DIR        one line a node: name, address, pid of its init
set -u

say() { echo "cluster: $*" >&2; }
skip() { say "$*"; exit 77; }

repo=$(cd "$(dirname "$0")/../.." && pwd)
verb=${1:-}
dir=${2:-}
[ -n "$verb" ] && [ -n "$dir" ] || { sed -n '7,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# names on this machine that belong to the cluster: from DIR, so that several can stand beside each other
load() {
    [ -f "$dir/cluster.env" ] || { say "no cluster in $dir"; exit 2; }
    # shellcheck disable=SC1091
    . "$dir/cluster.env"
    dir=$(cd "$dir" && pwd)
}

ns() { echo "fr$tag-$1"; }
addr() { echo "$net.1$1"; }

# The inside of a node, run by unshare as its first process. No trace of the outer root is left.
inside() {
    local d=$1 i=$2 m=$1/root p
    set -e
    hostname "node$i"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$d/disk/upper,workdir=$d/disk/work" "$m"
    IFS=:
    for p in $repo /root /home /var/tmp $CLUSTER_HIDE; do
        [ -n "$p" ] && [ -d "$m$p" ] && mount -t tmpfs -o mode=755 tmpfs "$m$p"
    done
    unset IFS
    mount --bind "$d/home" "$m/root"
    mount -t proc proc "$m/proc"
    mount --rbind /sys "$m/sys"
    mount --rbind /dev "$m/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$m/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$m/run"
    mkdir -p "$m/run/sshd"
    cat /proc/sys/kernel/random/uuid > "$m/run/boot_id"
    mount --bind "$m/run/boot_id" "$m/proc/sys/kernel/random/boot_id"
    mkdir -p "$m/etc/fr-node"
    cp "$d"/etc/* "$m/etc/fr-node/"
    chmod 600 "$m"/etc/fr-node/*
    cp "$d/etc/hosts" "$m/etc/hosts"
    mount -t tmpfs -o mode=1777 tmpfs "$m/tmp"
    mkdir -p "$m/.outer"
    cd "$m"
    pivot_root . .outer
    cd /
    umount -l /.outer
    exec /usr/sbin/sshd -D -e -f /etc/fr-node/sshd_config
}

boot() {
    local i=$1 d=$dir/node$1
    export CLUSTER_HIDE=${CLUSTER_HIDE:-}:$dir
    # nsenter, not `ip netns exec`: that one mounts a fresh /sys without cgroups
    setsid nsenter --net="/run/netns/$(ns "$i")" \
        unshare --mount --uts --ipc --pid --fork --kill-child --propagation private \
        "$BASH" "$repo/tests/e2e/cluster.sh" inside "$d" "$i" > "$d/log" 2>&1 < /dev/null &
    echo $! > "$d/pid"
    for _ in $(seq 500); do
        (exec 3<>"/dev/tcp/$(addr "$i")/22") 2>/dev/null && return 0
        kill -0 "$(cat "$d/pid")" 2>/dev/null || break
        sleep 0.02
    done
    say "node$i did not come up:"
    cat "$d/log" >&2
    return 1
}

# The disk of a node: below DIR, or memory where overlayfs takes no disk of that kind.
make_disk() {
    local d=$1
    mkdir -p "$d"/{disk,etc,home,root}
    mkdir -p "$d"/disk/{upper,work}
    if ! unshare --mount mount -t overlay overlay \
        -o "lowerdir=/,upperdir=$d/disk/upper,workdir=$d/disk/work" "$d/root" 2>/dev/null; then
        mount -t tmpfs tmpfs "$d/disk" && mkdir -p "$d"/disk/{upper,work} || return 1
        unshare --mount mount -t overlay overlay \
            -o "lowerdir=/,upperdir=$d/disk/upper,workdir=$d/disk/work" "$d/root" || return 1
    fi
}

make_node() {
    local i=$1 d=$dir/node$1 k
    make_disk "$d" || { say "no overlay file system for $d"; return 1; }
    ssh-keygen -q -t ed25519 -N '' -C "node$i" -f "$d/etc/host_key"
    cat "$dir/id.pub" "$dir/id_rsa.pub" > "$d/etc/authorized_keys"
    { echo "127.0.0.1 localhost"; for k in $(seq "$n"); do echo "$(addr "$k") node$k"; done; } \
        > "$d/etc/hosts"
    cat > "$d/etc/sshd_config" <<CONF
Port 22
ListenAddress $(addr "$i")
HostKey /etc/fr-node/host_key
PidFile none
AuthorizedKeysFile /etc/fr-node/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
StrictModes no
CONF
    # OpenSSH from 9.8 on refuses whoever failed before, for a while: here all come from one address.
    ! /usr/sbin/sshd -G -f /dev/null -o PerSourcePenalties=no > /dev/null 2>&1 ||
        echo "PerSourcePenalties no" >> "$d/etc/sshd_config"
    echo "$(addr "$i") $(cut -d' ' -f1,2 "$d/etc/host_key.pub")" >> "$dir/known_hosts"
    ip netns add "$(ns "$i")" &&
        ip link add "fv$tag$i" type veth peer name eth0 netns "$(ns "$i")" &&
        ip link set "fv$tag$i" master "fb$tag" up &&
        ip -n "$(ns "$i")" addr add "$(addr "$i")/24" dev eth0 &&
        ip -n "$(ns "$i")" link set eth0 up &&
        ip -n "$(ns "$i")" link set lo up
}

inventory() {
    local i
    echo "# three sshd nodes of tests/e2e/cluster.sh"
    echo "nodes:"
    for i in $(seq "$n"); do
        echo "  - {name: node$i, address: $(addr "$i"), user: root, key: $dir/id, known_hosts: $dir/known_hosts}"
    done
}

ssh_config() {
    local i
    for i in $(seq "$n"); do
        printf 'Host node%s\n  HostName %s\n  User root\n  IdentityFile %s/id_rsa\n  UserKnownHostsFile %s/known_hosts\n' \
            "$i" "$(addr "$i")" "$dir" "$dir"
        [ "$i" = 1 ] || printf '  ProxyJump node1\n'
        printf 'Host plain%s\n  HostName %s\n  User root\n  IdentityFile %s/id\n  UserKnownHostsFile %s/known_hosts\n' \
            "$i" "$(addr "$i")" "$dir" "$dir"
    done
}

up() {
    n=${1:-3}
    [ "$(id -u)" = 0 ] || skip "needs root"
    for k in ip unshare nsenter ssh-keygen pivot_root; do
        command -v $k > /dev/null || skip "needs $k"
    done
    [ -x /usr/sbin/sshd ] || skip "needs sshd"
    unshare --mount true 2> /dev/null || skip "needs mounts of its own (the root of a chroot is none)"
    [ ! -e "$dir/cluster.env" ] || { say "$dir has a cluster; take it down first"; exit 2; }
    mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 1
    tag=$(printf '%04x' $((RANDOM * 2 % 65536)))
    exec 8> "${TMPDIR:-/tmp}/fr-cluster.lock" && flock 8 # two that begin at once want two networks
    for net in 10.77.{0..255} none; do
        ip -o -4 addr | grep -q " $net\.1/" || break
    done
    [ "$net" != none ] || { say "no free network"; exit 1; }
    printf 'tag=%s\nnet=%s\nn=%s\n' "$tag" "$net" "$n" > "$dir/cluster.env"
    trap 'down; exit 1' INT TERM
    ip link add "fb$tag" type bridge 2>/dev/null || { rm "$dir/cluster.env"; skip "may not make a bridge"; }
    ip addr add "$net.1/24" dev "fb$tag" && ip link set "fb$tag" up || { down; exit 1; }
    exec 8>&-
    ssh-keygen -q -t ed25519 -N '' -C cluster -f "$dir/id"
    ssh-keygen -q -t rsa -N '' -C cluster -f "$dir/id_rsa"
    : > "$dir/known_hosts"
    for i in $(seq "$n"); do
        make_node "$i" || { down; exit 1; }
    done
    inventory > "$dir/nodes.yaml"
    ssh_config > "$dir/ssh_config"
    for i in $(seq "$n"); do
        boot "$i" || { down; exit 1; }
    done
}

crash() {
    local d=$dir/node$1 q
    [ -f "$d/pid" ] && kill -9 "$(cat "$d/pid")" 2>/dev/null
    for q in $(ip netns pids "$(ns "$1")" 2>/dev/null); do kill -9 "$q" 2>/dev/null; done
    rm -f "$d/pid"
}

down() {
    local i
    for i in $(seq "$n"); do
        [ -d "$dir/node$i" ] || continue
        crash "$i"
        ip link del "fv$tag$i" 2>/dev/null
        ip netns del "$(ns "$i")" 2>/dev/null
    done
    ip link del "fb$tag" 2>/dev/null
    for i in $(seq "$n"); do
        while [ -n "$(ip netns pids "$(ns "$i")" 2>/dev/null)" ]; do sleep 0.02; done
        mountpoint -q "$dir/node$i/disk" && umount -l "$dir/node$i/disk"
    done
    rm -rf "$dir"/node[0-9]* "$dir"/{id,id.pub,id_rsa,id_rsa.pub,known_hosts,nodes.yaml,ssh_config}
    rm -f "$dir/cluster.env"
}

node_pid() { # the first process of the node's PID namespace: the child of unshare
    pgrep -P "$(cat "$dir/node$1/pid")" | head -1
}

case $verb in
inside) inside "$dir" "$3" ;;
up) shift 2; up "$@" ;;
down) load; down ;;
cut) load; ip link set "fv$tag$3" down ;;
join) load; ip link set "fv$tag$3" up ;;
crash) load; crash "$3" ;;
boot) load; boot "$3" ;;
exec)
    load
    i=$3
    shift 3
    exec nsenter -t "$(node_pid "$i")" --mount --uts --ipc --net --pid --root --wd "$@"
    ;;
list)
    load
    for i in $(seq "$n"); do echo "node$i $(addr "$i") $(node_pid "$i")"; done
    ;;
*) say "no verb '$verb'"; exit 2 ;;
esac
