#!/bin/bash
# Runs the suites in environments that differ in what a test may wrongly rely on, by hand, as root:
#
#   usage: tests/environments.sh BUILD[:SUITE,…] …      as suite.py takes them
#
#   ext4 tmpfs overlayfs    what /tmp lies on, in a mount namespace of its own
#   rest                    one test at a time, nothing beside
#   load                    eight busy processes beside
#   sigint                  SIGINT is ignored, as nohup and shells without job control leave it
#   user                    a new user who may sudo without a password, in a copy of tree and builds
#
# ENVIRONMENTS="tmpfs user" runs these alone; TEST_NAMES="read_only tasks" these tests alone. Prints a
# table; the logs lie in BUILD/environments.
set -u
[ $# -gt 0 ] || { sed -n '4,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "environments: needs root, for mounts and a user" >&2; exit 2; }
repo=$(cd "$(dirname "$0")/.." && pwd)
first=$(cd "${1%%:*}" && pwd) || exit 2
logs=$first/environments
mkdir -p "$logs"
builds=()
for arg in "$@"; do
    case $arg in *:*) suites=:${arg#*:} ;; *) suites= ;; esac
    builds+=("$(cd "${arg%%:*}" && pwd)$suites") || exit 2
done

suite() { python3 "$repo/tests/suite.py" "${builds[@]}"; }

# Mounts $1 over /tmp in a mount namespace of its own and runs the suites there.
below() {
    local disk=$logs/disk
    rm -rf "$disk"
    mkdir -p "$disk"
    # shellcheck disable=SC2016
    MOUNT=$1 DISK=$disk SUITE=$repo/tests/suite.py unshare --mount --propagation private "$BASH" -c '
        case $MOUNT in
        ext4) truncate -s 16G "$DISK/img" && mkfs.ext4 -q -F "$DISK/img" && mount -o loop "$DISK/img" /tmp ;;
        tmpfs) mount -t tmpfs -o mode=1777 tmpfs /tmp ;;
        overlayfs) mkdir "$DISK"/{lower,upper,work} && mount -t overlay overlay -o \
            "lowerdir=$DISK/lower,upperdir=$DISK/upper,workdir=$DISK/work" /tmp ;;
        esac || { echo "$MOUNT cannot be mounted here"; exit 1; }
        chmod 1777 /tmp
        unset TMPDIR
        exec python3 "$SUITE" "$@"' below "${builds[@]}"
    local rc=$?
    rm -rf "$disk"
    return $rc
}

in_ext4() { below ext4; }
in_tmpfs() { below tmpfs; }
in_overlayfs() { below overlayfs; }
in_rest() { TEST_PROCESSES=1 suite; }

in_load() {
    local busy=() p rc
    for _ in 1 2 3 4 5 6 7 8; do
        while :; do :; done &
        busy+=($!)
    done
    suite
    rc=$?
    for p in "${busy[@]}"; do kill "$p"; done
    wait "${busy[@]}" 2> /dev/null
    return $rc
}

in_sigint() ( trap '' INT; suite )

# The copy is mounted over the tree in a mount namespace, so that the builds in it are this user's.
in_user() {
    local name=fr-tests copy=/home/fr-tests/tree rc
    useradd -m -s /bin/bash "$name" || return 1
    echo "$name ALL=(ALL) NOPASSWD: ALL" > "/etc/sudoers.d/$name"
    sudo -u "$name" test -x "$repo" || echo "environments: $repo cannot be reached by other users"
    mkdir "$copy"
    tar -C "$repo" --exclude=./.git --exclude=./*/environments -c . | tar -C "$copy" -x
    chown -R "$name:" "$copy"
    sudo -u "$name" -H "$BASH" -c "cd $copy && git init -q && git add -A" # tree.py asks git for the files
    # shellcheck disable=SC2016
    COPY=$copy REPO=$repo NAME=$name unshare --mount --propagation private "$BASH" -c '
        mount --bind "$COPY" "$REPO" && cd "$REPO" &&
            exec sudo -u "$NAME" -H env FLOWRUN_DATA="${FLOWRUN_DATA:-}" TEST_NAMES="${TEST_NAMES:-}" \
                python3 "$REPO/tests/suite.py" "$@"' user "${builds[@]}"
    rc=$?
    rm -f "/etc/sudoers.d/$name"
    userdel -r "$name" 2> /dev/null
    return $rc
}

status=0
for name in ${ENVIRONMENTS:-ext4 tmpfs overlayfs rest load sigint user}; do
    from=$SECONDS
    "in_$name" > "$logs/$name.log" 2>&1
    rc=$?
    [ $rc = 0 ] || status=1
    printf '%-10s %-44s %5d s  %s\n' "$name" "$(tail -1 "$logs/$name.log")" $((SECONDS - from)) \
        "$([ $rc = 0 ] || grep -a '^FAILED ' "$logs/$name.log" | sed 's/^FAILED [^:]*: //' | sort -u | tr '\n' ',')"
done
exit $status
