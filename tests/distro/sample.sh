#!/usr/bin/env bash
# A sample of tests/distro/run.sh, short enough for every run of the tests: the CPU backend before the
# compiler of the other Debian (13 on 12, 12 elsewhere), warnings as errors. Packages are unpacked,
# nothing is installed; FOLDER keeps them. Skipped without debootstrap, root or the network.
#
# usage: sample.sh FOLDER
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)

skip() { echo "skipped: $*"; exit 77; }

command -v debootstrap > /dev/null && command -v apt-get > /dev/null || skip "needs debootstrap and apt-get"
[ "$(id -u)" = 0 ] || skip "needs root, for chroot"
suite=trixie
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || suite=bookworm
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keys ] || skip "needs debian-archive-keyring"
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' |
    awk '$2 !~ /-/ { print $1; exit }')
[ -n "$mirror" ] || skip "apt has no Debian mirror"
root=$dir/$suite

# apt with a state of its own, in which nothing is installed yet.
apt() {
    apt-get -q -o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
        -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root \
        -o Acquire::http::Timeout=10 -o Acquire::Retries=0 -o Acquire::Languages=none "$@"
}

fetch() {
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
    : > "$dir/status"
    echo "deb [signed-by=$keys] $mirror $suite main" > "$dir/sources.list"
    apt update && apt install -y --no-install-recommends --download-only gcc libc6-dev
}

unpack() {
    rm -rf "$root.part"
    mkdir -p "$root.part"
    for d in bin sbin lib lib64; do mkdir -p "$root.part/usr/$d" && ln -s "usr/$d" "$root.part/$d"; done
    for deb in "$dir"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -C "$root.part" --keep-directory-symlink -x
    done
    mv "$root.part" "$root"
    rm -rf "$dir/cache" "$dir/state"
}

if [ ! -d "$root" ]; then
    export -f apt fetch
    export dir keys mirror suite
    timeout 100 "$BASH" -c fetch > "$dir/apt.log" 2>&1 || { tail -n 3 "$dir/apt.log"; skip "$suite cannot be fetched here"; }
    unpack
fi
rm -rf "$root/tree"
mkdir -p "$root/tree"
tar -C "$top" -c engine/base trainer | tar -C "$root/tree" -x

echo "gcc $(chroot "$root" /usr/bin/gcc -dumpfullversion)"
passed=0 failed=0
compile() { # file, further arguments
    local name=$1
    shift
    if chroot "$root" /usr/bin/gcc -std=gnu11 -fsyntax-only -fopenmp -Itree -D_GNU_SOURCE -Wall -Wextra \
        -Wconversion -Wno-sign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter -Werror \
        "$@" "tree/trainer/backend/cpu/$name"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name $*"
    fi
}
for f in "$top"/trainer/backend/cpu/*.c; do
    name=$(basename "$f")
    case $name in
        cells_pack.c | cells_rows.c | cells_strip.c) # once for each level of cells_simd.h
            for level in 2 4 5; do compile "$name" -DCPU_LEVEL=$level; done
            ;;
        cells_pick_neon.c) ;; # of AArch64 alone: aarch64.sh
        *) compile "$name" ;;
    esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 20 ]
