# What the benches of the engine share; they set $flowrun and work in a folder of their own.

now_us() { echo "${EPOCHREALTIME/[.,]/}"; }
median() { sort -n | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }
timed() { # FILE COMMAND…: microseconds are added to FILE
    local to=$1 t
    shift
    t=${EPOCHREALTIME/[.,]/} # no process is started for it: one costs a millisecond
    "$@" > log 2>&1 || { echo "failed: $*"; tail -3 log; }
    echo $((${EPOCHREALTIME/[.,]/} - t)) >> "$to"
}
row() { printf '%-52s %s\n' "$1" "$2"; }
per() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN {printf "%." d "f", a / b}'; }
pss_kb() { awk '/^Pss:/ {print $2}' "/proc/$1/smaps_rollup" 2> /dev/null; } # PID
moment() { sleep "$1"; } # SECONDS
about() { # ROUNDS
    echo "$(date -u +%F), $(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), load $(cut -d' ' -f1 /proc/loadavg), $1 rounds"
}

local_node() { echo "nodes: [{name: here, executor: local, slots: $1}]"; }
wide() { # N WIDTH
    echo "name: noop"
    echo "max_parallel: $2"
    [ -f c/nodes.yaml ] && [ "${3:-}" = ssh ] && cat c/nodes.yaml || local_node "$2"
    echo "tasks:"
    if [ "${3:-}" = ssh ]; then
        for i in $(seq "$1"); do echo "  t$i: {on: node$((i % 3 + 1)), argv: [\"true\"]}"; done
    else
        seq "$1" | sed 's/.*/  t&: {argv: ["true"]}/'
    fi
}
