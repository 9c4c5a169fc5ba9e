#!/bin/bash
# The store turns read-only under a run, by its file system or by another's hand: flowrun says so,
# ends, and leaves the tasks running; a resume goes on when it can be written again.
. "$(dirname "$0")/lib.sh"
begin "$1"

unmount() { umount -R -l "$work/disk" 2> /dev/null; }
trap 'unmount; chattr -i "$work"/home/state.db* 2> /dev/null; cleanup' EXIT

# A disk of its own for the home; what the nodes keep lies on another. An error on it is what makes
# the kernel take it away from who writes already.
disk_mount() { mount -o loop img disk && mkdir -p disk/home/nodes && mount --bind nodes disk/home/nodes; }
disk_make() {
    mkdir -p nodes disk && truncate -s 16M img && mkfs.ext4 -q -F img && disk_mount &&
        export FLOWRUN_HOME=$work/disk/home
}
disk_take() { mount -o remount,abort disk; }
disk_give() { unmount && until_true 5 disk_mount; }

# Where whoever has an immutable file open may go on writing (tmpfs), nothing turns read-only.
file_make() {
    touch probe && exec 7>> probe && chattr +i probe || return 1
    ! echo x >&7 2> /dev/null
    local writable=$?
    exec 7>&-
    chattr -i probe
    [ "$writable" = 0 ] || { echo "an immutable file can be written here"; return 1; }
    export FLOWRUN_HOME=$work/home
}
file_take() { chattr +i home/state.db home/state.db-wal; }
file_give() { chattr -i home/state.db home/state.db-wal; }

cat > p.yaml <<'END_OF_FILE'
name: p
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  a: {run: "echo $FLOWRUN_ATTEMPT >> $W/ran; until test -e $W/go; do sleep 0.05; done; echo y"}
  b: {needs: [a], run: "echo $FLOWRUN_ATTEMPT >> $W/ran"}
END_OF_FILE

tried=0
for kind in disk file; do
    if ! "${kind}_make" > made 2>&1; then
        echo "skipped: read-only $kind: $(tail -1 made)"
        unmount
        continue
    fi
    tried=$((tried + 1))
    rm -f ran go
    start p.yaml
    pid=$!
    until_true 20 holds out "a@n1 running"
    check "$kind: made read-only" "${kind}_take"
    touch go
    wait "$pid"
    same "$kind: exit code" $? 7
    has "$kind: the file is named" out "flowrun: $FLOWRUN_HOME/state.db: "
    has "$kind: and what to do" out "somebody must make it writable again"
    has "$kind: and what goes on" out "tasks go on; 'flowrun resume 1' takes over"
    same "$kind: nothing was started that is not stored" "$(lines ran)" 1
    "$flowrun" resume > out 2>&1
    same "$kind: resume too early: exit code" $? 7
    has "$kind: resume too early names a file" out "flowrun: "
    check "$kind: made writable" "${kind}_give"
    "$flowrun" resume > out 2>&1
    same "$kind: resume: exit code" $? 0
    has "$kind: all output is there" out "a@n1 succeeded"
    "$flowrun" logs a > log 2>&1
    same "$kind: the log" "$(cat log)" "a@n1 | y"
    same "$kind: each ran once" "$(sort ran | uniq | wc -l) $(lines ran)" "2 2"
    same "$kind: nothing is left running" "$(left)" ""
    unmount
done
[ "$tried" -gt 0 ] || skip "nothing can be made read-only here"
finish
