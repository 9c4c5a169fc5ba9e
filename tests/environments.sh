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
# row for each: the counts, the time, what failed, and what the tests left behind. The logs lie in
# BUILD/environments.
set -u
[ $# -gt 0 ] || { sed -n '4,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
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
        python3 "$SUITE" "$@"
        rc=$?
        left=$(ls -A -I fr-cluster.lock /tmp | paste -sd " ")
        [ -z "$left" ] || { echo "LEFT in /tmp: $left"; rc=1; }
        exit $rc' below "${builds[@]}"
    local rc=$?
    rm -rf "$disk"
    return $rc
}

in_ext4() { below ext4; }
in_tmpfs() { below tmpfs; }
in_overlayfs() { below overlayfs; }
in_rest() { TEST_PROCESSES=1 suite; }

in_load() {
    local p rc
    for _ in 1 2 3 4 5 6 7 8; do
        while :; do :; done &
        busy+=($!)
    done
    suite
    rc=$?
    rest
    return $rc
}

# Ends the busy processes.
rest() {
    [ ${#busy[@]} -eq 0 ] || { kill "${busy[@]}"; wait "${busy[@]}" 2> /dev/null; }
    busy=()
}

in_sigint() ( trap '' INT; suite )

# The copy is mounted over the tree in a mount namespace, so that the builds in it are this user's.
in_user() {
    local copy=/home/$name/tree rc
    useradd -m -s /bin/bash "$name" || return 1
    made=$name
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
    drop_user || rc=1
    return $rc
}

# What runs as the user. A process that ended waits for whoever reaps it here.
processes() { ps -o stat=,pid=,args= -u "$made" | grep -v '^Z'; }

# Removes the user with all that is left of it; fails if there is something beside the home.
drop_user() {
    local left
    [ -n "$made" ] || return 0
    for _ in $(seq 50); do # some end behind their test
        [ -n "$(processes)" ] || break
        sleep 0.1
    done
    left=$(processes; find /tmp /var/tmp /dev/shm -maxdepth 1 -user "$made")
    while [ -n "$(processes)" ]; do pkill -KILL -u "$made"; sleep 0.1; done
    find /tmp /var/tmp /dev/shm -maxdepth 1 -user "$made" -exec rm -rf {} +
    rm -f "/etc/sudoers.d/$made"
    userdel -r "$made" 2> /dev/null
    made=
    [ -z "$left" ] || { echo "LEFT of the user: $(echo "$left" | paste -sd ' ')"; return 1; }
}

status=0
name=fr-tests # of the user
made=
busy=()
trap 'rest; drop_user' EXIT
trap 'exit 1' INT TERM
for environment in ${ENVIRONMENTS:-ext4 tmpfs overlayfs rest load sigint user}; do
    from=$SECONDS
    "in_$environment" > "$logs/$environment.log" 2>&1
    rc=$?
    [ $rc = 0 ] || status=1
    printf '%-10s %-44s %5d s  %s\n' "$environment" \
        "$(grep -av '^LEFT ' "$logs/$environment.log" | tail -1)" $((SECONDS - from)) \
        "$([ $rc = 0 ] || sed -n 's/^FAILED [^:]*: //p; /^LEFT /p' "$logs/$environment.log" | sort -u | paste -sd,)"
done
exit $status
