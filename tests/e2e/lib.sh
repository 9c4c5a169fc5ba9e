# Functions that the scripts of this folder share. Usage in each: . "$(dirname "$0")/lib.sh"; begin BUILD
# A script makes its own home and folder, counts its checks, and ends with "N passed, N failed". A
# script that checked nothing has failed, and so has one that checks nothing for TEST_DEADLINE seconds
# (150; 0: for ever): however slow the machine is, one step takes less.
set -u

# Ends the script with the pid in the first line of $1, if no check adds a line to $1 in TEST_DEADLINE s.
watch_steps() {
    local had=0 has=0 still=0
    while [ "$still" -lt "${TEST_DEADLINE:-150}" ]; do
        sleep 1 > /dev/null # nobody waits for it to let go of the output
        still=$((still + 1))
        has=$(wc -l < "$1") || return
        [ "$has" = "$had" ] || still=0
        had=$has
    done
    echo "FAILED: no check for ${TEST_DEADLINE:-150} s"
    kill "$(head -n 1 "$1")"
    sleep 10 > /dev/null
    kill -9 "$(head -n 1 "$1")"
}

# Starts the script a second time, under the watchdog.
if [ -z "${TEST_STEPS:-}" ]; then
    TEST_STEPS=$(mktemp "${TMPDIR:-/tmp}/fr-steps.XXXXXX") || exit 1
    export TEST_STEPS
    [ "${TEST_DEADLINE:-150}" = 0 ] || watch_steps "$TEST_STEPS" 2> /dev/null &
    dog=$!
    "$BASH" "$0" "$@"
    rc=$?
    kill "$dog" 2> /dev/null
    wait "$dog" 2> /dev/null
    rm -f "$TEST_STEPS"
    exit "$rc"
fi
steps=$TEST_STEPS
unset TEST_STEPS
step() { echo "$$" >> "$steps"; }
step

passed=0
failed=0

begin() {
    build=$(cd "${1:?the build folder}" && pwd)
    repo=$(cd "$(dirname "$0")/../.." && pwd)
    flowrun=$build/engine/cli/flowrun
    work=$(mktemp -d "${TMPDIR:-/tmp}/fr-e2e.XXXXXX")
    export FLOWRUN_HOME=$work/home NO_COLOR=1 TZ=UTC
    unset FLOWRUN_LIBEXEC
    export W=$work
    trap cleanup EXIT
    cd "$work" || exit 1
}

# Ends the processes that the test left: the tasks it started carry its work folder in their environment.
cleanup() {
    local p
    cd /
    for p in $(marked); do kill -9 "$p" 2>/dev/null; done
    if [ "$failed" -gt 0 ] && [ -n "${KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi
}

# Processes whose environment holds this test's folder, other than this script's own: tasks.
marked() {
    local p
    for p in $(grep -lsz -e "^W=$work\$" -e "^FLOWRUN_NODE_HOME=$work/" /proc/[0-9]*/environ); do
        p=${p#/proc/}
        p=${p%/environ}
        [ "$p" = "$$" ] || [ "$p" = "$BASHPID" ] && continue
        [ "$(readlink "/proc/$p/exe" 2>/dev/null)" = "$(readlink -f /proc/$$/exe)" ] &&
            grep -q "lib.sh\|e2e" "/proc/$p/cmdline" 2>/dev/null && continue
        [ -e "/proc/$p" ] && echo "$p" # the search itself is gone by now
    done
}

# Those of tasks alone: flowrun and flownode end by themselves, a moment later.
marked_tasks() {
    local p
    for p in $(marked); do
        case $(readlink "/proc/$p/exe" 2>/dev/null) in '' | */flowrun | */flownode*) ;; *) echo "$p" ;; esac
    done
}

# Prints the processes that stay marked. Those of the node end a moment after flowrun's exit.
none_marked() { [ -z "$(marked)" ]; }
left() {
    until_true 5 none_marked && until_true 5 none_marked && return # a search misses what is forked meanwhile
    marked
}

# The printed lines of a run that its rows determine, task by task: without times and without lines
# about nodes and the host, which no row has.
told() {
    sed -E 's/^[0-9:]{8} //' "$1" |
        grep -vE "^(n[0-9]|node[0-9]|control|flowrun): |^this home's host |^the host " | sort -s -k1,1
}

ok() { passed=$((passed + 1)); step; }
bad() { failed=$((failed + 1)); step; echo "FAILED: $*"; }

# check WHAT COMMAND…: the command must succeed.
check() {
    local what=$1
    shift
    if "$@"; then ok; else bad "$what: $*"; fi
}

same() { if [ "$2" = "$3" ]; then ok; else bad "$1: got '$2', want '$3'"; fi; }

# has WHAT FILE TEXT: the file must contain the text; hasnt: it must not.
has() { if grep -qF -- "$3" "$2"; then ok; else bad "$1: no '$3' in:"; sed 's/^/    /' "$2" | tail -40; fi; }
hasnt() { if grep -qF -- "$3" "$2"; then bad "$1: '$3' stands in $2"; else ok; fi; }

# until_true SECONDS COMMAND…: waits for a state, never for a time: SECONDS on a machine that has nothing
# else to do. It gives up much later, since others may have the processors.
until_true() {
    local end=$((SECONDS + 30 + 4 * $1))
    shift
    step
    until "$@" 2>/dev/null; do
        step # it has an end of its own
        [ "$SECONDS" -lt "$end" ] || { bad "never came true: $*"; return 1; }
        sleep 0.05
    done
}

holds() { grep -qF -- "$2" "$1" 2>/dev/null; }

# Lines of a file.
lines() { wc -l < "$1" 2>/dev/null || echo 0; }

# Starts flowrun in the background as a plain child; $! is its pid. $work/out is emptied. With
# --verbose the output has the starts of tasks too.
start() {
    : > "$work/out"
    "$flowrun" "$@" --verbose > "$work/out" 2>&1 &
}

skip() { echo "skipped: $*"; exit 77; }

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}

local3() {
    printf 'nodes:\n  - {name: n1, executor: local}\n  - {name: n2, executor: local}\n  - {name: n3, executor: local}\n'
}

# For containers: bb.tar, an image of busybox alone, and cc.conf, what podman needs to know of runc.
box() {
    for k in podman runc busybox; do command -v $k > /dev/null || skip "needs $k"; done
    mkdir -p bb/{bin,tmp,dev,proc,sys,etc,root}
    cp "$(command -v busybox)" bb/bin/busybox
    for a in sh sleep echo cat env setsid true test hostname touch rm mkdir; do ln -sf busybox bb/bin/$a; done
    tar -C bb -cf bb.tar .
    cat > cc.conf <<'END'
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
END
}

# Removes this test's podman containers and its storage. Podman cleans up behind a container in a process
# of its own, which may still hold the storage, and mount it, after `podman rm` has returned.
unbox() {
    podman kill -a > /dev/null 2>&1
    podman rm -f -a > /dev/null 2>&1
    while pgrep -f "[-]-root $work/store" > /dev/null; do sleep 0.05; done
    # whatever the storage driver has mounted there, the innermost first
    awk -v at="$work/store/" 'index($2, at) == 1 {print $2}' /proc/self/mounts | sort -r | xargs -r umount 2> /dev/null
    leave_cgroups
    return 0
}

# Removes the control groups that podman leaves; fails while somebody has containers.
leave_cgroups() { rmdir /sys/fs/cgroup/{,*/}libpod_parent/{conmon,} 2> /dev/null || :; }

# Whether the command $* (podman, as the script calls it) runs containers of image bb:1 and gets into
# them: in a chroot, runc exec ends up outside.
boxes_run() {
    "$@" run -d --network host --ipc host --name fr-probe bb:1 sleep 1000 > /dev/null 2>&1 &&
        "$@" exec fr-probe test ! -e /usr 2> /dev/null
    local rc=$?
    "$@" kill fr-probe > /dev/null 2>&1
    "$@" rm -f fr-probe > /dev/null 2>&1
    return $rc
}

# A `podman` with storage of this test's own and the image bb:1 stands first in PATH.
own_podman() {
    box
    mkdir bin
    printf '#!/bin/sh\nexport CONTAINERS_CONF=%s/cc.conf\nexec %s --root %s/store --runroot %s/runroot "$@"\n' \
        "$work" "$(command -v podman)" "$work" "$work" > bin/podman
    chmod 755 bin/podman
    export PATH=$work/bin:$PATH
    podman import bb.tar bb:1 > /dev/null 2>&1 || skip "podman cannot import an image here"
    trap 'unbox; cleanup' EXIT
    boxes_run podman || skip "podman runs no container here"
}
