#!/usr/bin/env bash
# Runs make on a bare Debian or Ubuntu of any release, in a folder of this machine: what `make run` and
# `make test` meet where nothing of ours was ever installed.
#
# usage: tests/distro/run.sh [--bare] SUITE [MAKE ARGUMENT]…      as root; SUITE: bookworm, trixie, jammy, noble
#
# SUITE gets base, git, make and ca-certificates by debootstrap, once: Debian's from this machine's mirror,
# Ubuntu's from $DISTRO_MIRROR.
# What make installs and builds there stays for the next call; --bare begins with the bare system again.
# The tree is a clone of this one, with what is not committed. $FLOWRUN_DATA is there too, read-only.
# $FLOWRUN_DISTROS (~/.cache/flowrun-distros) keeps it all: 0.4 GB a suite, 5 GB behind `make test`.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
home=${FLOWRUN_DISTROS:-${XDG_CACHE_HOME:-$HOME/.cache}/flowrun-distros}

die() { echo "run.sh: $*" >&2; exit 2; }

# The mirror of this machine's own Debian has the others.
mirror() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' |
        awk '$2 !~ /-/ { print $1; exit }'
}

# How this machine reaches it.
settings() {
    apt-config dump | grep -E '^Acquire::(https?|Check-|Retries)' || true
}

# What debootstrap makes a release by, whose name may be newer than this debootstrap.
script() {
    local scripts=/usr/share/debootstrap/scripts
    if [ -e "$scripts/$suite" ]; then
        readlink -f "$scripts/$suite"
    elif [ -n "${DISTRO_MIRROR:-}" ] && wget -qO- "$DISTRO_MIRROR/dists/$suite/Release" | grep -x 'Origin: Ubuntu' > /dev/null; then
        echo "$scripts/gutsy"
    else
        echo "$scripts/sid"
    fi
}

# $home/$suite.tar: the bare system.
make_bare() {
    local from=${DISTRO_MIRROR:-} new=$home/$suite.new parts=main by
    by=$(script)
    case ${by##*/} in
    gutsy) parts=main,universe
        [ -n "$from" ] || die "DISTRO_MIRROR=http://… has to name a mirror of Ubuntu" ;;
    *) [ -n "$from" ] || from=$(mirror)
        [ -n "$from" ] || die "apt has no Debian mirror; DISTRO_MIRROR=http://… names one" ;;
    esac
    mkdir -p "$home/archives"
    rm -rf "$new"
    debootstrap --variant=minbase --components=$parts --include=ca-certificates,git,make "$suite" "$new" "$from" "$by"
    rm -f "$new"/var/cache/apt/archives/*.deb
    tar -C "$new" -cf "$home/$suite.tar.part" .
    rm -rf "$new"
    mv "$home/$suite.tar.part" "$home/$suite.tar"
}

unpack() {
    rm -rf "$root"
    mkdir -p "$root.part"
    tar -C "$root.part" -xpf "$home/$suite.tar"
    settings > "$root.part/etc/apt/apt.conf.d/00machine"
    mv "$root.part" "$root"
}

# The tree as it is: files that did not change keep their times, so that a second call builds little.
clone() {
    local tree=$root/root/flowrun
    if [ -d "$tree" ]; then
        git -C "$tree" fetch -q "$top" HEAD
        git -C "$tree" reset -q --hard FETCH_HEAD
    else
        git clone -q --no-hardlinks "$top" "$tree"
    fi
    # shellcheck disable=SC2015
    git -C "$top" ls-files -z --others --modified --exclude-standard |
        (cd "$top" && tar -c --null --ignore-failed-read -T - 2> /dev/null || true) | tar -C "$tree" -x
}

# In namespaces of its own, as process 1 of them.
inside() {
    local data=
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mkdir -p "$home/archives/partial"
    mount --bind "$home/archives" "$root/var/cache/apt/archives"
    cat /etc/resolv.conf > "$root/etc/resolv.conf"
    if [ -d "${FLOWRUN_DATA:-}" ]; then
        mkdir -p "$root/data"
        mount --bind -o ro "$FLOWRUN_DATA" "$root/data"
        data=yes
    fi
    hostname "$suite"
    ip link set lo up 2> /dev/null || true
    # A root of its own, not a chroot: runc leaves that. Process 1 is a shell, which reaps orphans.
    cd "$root"
    mkdir -p .outer
    pivot_root . .outer
    # shellcheck disable=SC2016
    exec /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${data:+FLOWRUN_DATA=/data} ${CI:+CI="$CI"} \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        /bin/bash -c 'umount -l /.outer; cd; make -C flowrun "$@"; exit $?' make "$@"
}

# Read wholly before it runs: whoever edits this file meanwhile changes nothing of it.
main() {
    if [ "${1:-}" = --inside ]; then
        root=$2 suite=$3
        shift 3
        inside "$@"
    fi
    local bare=false
    [ "${1:-}" != --bare ] || { bare=true; shift; }
    [ $# -ge 1 ] || die "usage: run.sh [--bare] SUITE [MAKE ARGUMENT]…"
    suite=$1 root=$home/$1
    shift
    [ "$(id -u)" = 0 ] || die "mounts need root"
    command -v debootstrap > /dev/null || die "debootstrap is missing: apt-get install debootstrap"
    mkdir -p "$home"
    exec 9> "$home/$suite.lock"
    flock -n 9 || die "another run.sh works in $root"
    [ -f "$home/$suite.tar" ] || make_bare
    if $bare || [ ! -d "$root" ]; then unpack; fi
    clone
    export FLOWRUN_DISTROS="$home"
    exec unshare --mount --uts --ipc --pid --fork --kill-child "$0" --inside "$root" "$suite" "$@"
}
main "$@"
