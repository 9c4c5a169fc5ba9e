#!/bin/bash
# What only a GPU can tell, in stages of at most nine minutes each.
#
# usage: device.sh pack BUILD FOLDER [sim]    here: everything that a stage needs, stripped, into FOLDER;
#                                             sim: with the simulator instead of a GPU, for a dry run
#        device.sh STAGE FOLDER               where the GPU is
#
#   ops       the op table against the reference; also by the kernels for sm_80, where the folder has
#             them (ninja -C BUILD trainer/cli/flowtrain_cuda_80.so before pack)
#   parity    trainings against the CPU backend, 200 steps with a falling loss, save and resume
#   sanitize  the op table under compute-sanitizer: memcheck, racecheck, initcheck, synccheck
#   bench     training steps of DeepSeek-V3's layers: tokens/s, MFU, each op against its roofline
#   peer      the same steps beside transformers and PEFT, each in a process of its own
#
# The libraries of CUDA (cublasLt, nccl) are looked for in CUDA_LIBS, else in the machine's Python
# packages, else where the loader finds them. Weights are made there, from a seed; no file travels.
# bench and peer take other sizes from CONFIG (a config.json), LAYERS, and SIZES, pairs TOKENS:SEQUENCE;
# both take DEVICE (cuda) and TYPE (bf16).
set -u
fail() { echo "device.sh: $*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
limit=540

pack() { # BUILD FOLDER [sim]
    local build=$1 to=$2/trainer/cli module=$1/trainer/cli/flowtrain_cuda.so bytes
    [ "${3:-}" = sim ] && module=$build/tests/cudasim/flowtrain_cuda.so
    [ -e "$module" ] || fail "there is no $module: nvcc makes it (meson configure $build -Dcuda=enabled)"
    mkdir -p "$to" "$2/lib" || exit 1
    cp "$build/trainer/cli/flowtrain" "$build/tests/op/op_device" "$build/tests/bench/layers" "$module" "$to" ||
        fail "build it first: ninja -C $build"
    [ "${3:-}" = sim ] && cp "$build/tests/cudasim/libnccl.so.2" "$2/lib"
    if [ -e "$build/trainer/cli/flowtrain_cuda_80.so" ]; then
        mkdir -p "$2/sm80" && cp "$to/op_device" "$2/sm80" &&
            cp "$build/trainer/cli/flowtrain_cuda_80.so" "$2/sm80/flowtrain_cuda.so" || exit 1
    fi
    for lib in $(ldd "$to/flowtrain" "$to/op_device" "$to/layers" | awk '/=> \// {print $3}' | sort -u |
        grep -v -E '/(libc|libm|ld-linux[^/]*)\.so'); do
        cp -L "$lib" "$2/lib" || exit 1
    done
    find "$2" -path "$2/[tls]*/*" -type f -exec strip --strip-unneeded {} + || exit 1
    cp "$here/device.sh" "$here/device_parity.py" "$here/peer.py" "$here/deepseek_v3.json" \
        "$here/../e2e/trainer_lib.py" "$2" || exit 1
    bytes=$(du -sb "$2" | cut -f1)
    [ "$bytes" -le $((64 << 20)) ] || fail "$2 has $bytes bytes, more than 64 MiB"
    echo "$2: $bytes bytes; there: bash device.sh STAGE ."
}

libraries() { # FOLDER
    local found=${CUDA_LIBS:-}
    [ -n "$found" ] || found=$(python3 -c 'import glob, os, site
paths = site.getsitepackages() + [site.getusersitepackages()]
print(":".join(d for p in paths for d in glob.glob(p + "/nvidia/*/lib")))' 2> /dev/null)
    export LD_LIBRARY_PATH="$1/lib${found:+:$found}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

run() { # COMMAND …: within the stage's time
    timeout -s KILL $((limit - SECONDS > 1 ? limit - SECONDS : 1)) "$@"
}

ops() {
    run "$bin/op_device" || return 1
    [ ! -d "$folder/sm80" ] || { echo "== by the kernels for sm_80" && run "$folder/sm80/op_device"; }
}

sanitize() {
    local tool bad=0
    command -v compute-sanitizer > /dev/null || fail "no compute-sanitizer in PATH (it comes with the CUDA toolkit)"
    for tool in memcheck racecheck initcheck synccheck; do
        echo "== $tool"
        run compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/op_device" | tail -n 5
        [ "${PIPESTATUS[0]}" = 0 ] || { echo "$tool: failed"; bad=1; }
    done
    return $bad
}

sizes=${SIZES:-2048:2048 4096:4096 8192:4096 16384:2048 16384:4096 32768:4096}
steps() { # TOKENS:SEQUENCE LAYERS PROGRAM …: ours and the peer's take the same arguments
    run "${@:3}" "${CONFIG:-$folder/deepseek_v3.json}" "${1%:*}" "${1#*:}" layers="$2" type="${TYPE:-bf16}" \
        device="${DEVICE:-cuda}"
}

bench() { # as many layers as the device has room for
    local size layers
    for size in $sizes; do
        for ((layers = ${LAYERS:-5}; layers > 1; layers--)); do
            echo "== $size, $layers layers"
            steps "$size" "$layers" "$bin/layers" && break
        done
        [ "$layers" -gt 1 ] || return 1
    done
}

beside() { # TOKENS:SEQUENCE LAYERS EXPERTS ATTENTION: 0 done, 2 no room for so many layers, 1 anything else
    local ours theirs rate='s/.*: \([0-9.]*\) tokens\/s.*/\1/p'
    if ! EXPERTS=$3 ATTENTION=$4 steps "$1" "$2" python3 "$folder/peer.py" > "$out/theirs" 2> "$out/why"; then
        echo "$1, $2 layers, experts $3, attention $4: $(tail -n 1 "$out/why")"
        grep -q OutOfMemory "$out/why" && return 2
        return 1
    fi
    steps "$1" "$2" "$bin/layers" > "$out/ours" || return 1
    ours=$(sed -n "$rate" "$out/ours") theirs=$(sed -n "$rate" "$out/theirs")
    echo "$1, $2 layers: $ours tokens/s; transformers and PEFT, experts $3, attention $4: $theirs;" \
        "$(awk -v a="$ours" -v b="$theirs" 'BEGIN {printf "%.2f", a / b}') times"
    paste <(grep '^step' "$out/ours") <(grep '^step' "$out/theirs")
}

peer() { # both have the same number of layers: as many as both have room for
    local size layers setting
    out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT || return 1
    for size in $sizes; do
        for setting in "grouped_mm flash_attention_2" "grouped_mm sdpa" "eager sdpa"; do
            for ((layers = ${LAYERS:-5}; layers > 1; layers--)); do
                # shellcheck disable=SC2086 # two words
                beside "$size" "$layers" $setting
                [ $? = 2 ] || break
            done
        done
    done
}

stage=$1
if [ "$stage" = pack ]; then
    [ $# -ge 3 ] || fail "pack BUILD FOLDER"
    pack "$2" "$3" "${4:-}"
    exit
fi
folder=$(cd "$2" && pwd) || exit 1
bin=$folder/trainer/cli
libraries "$folder"
echo "== $stage, $(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1)"
case $stage in
ops) ops ;;
parity) run python3 "$folder/device_parity.py" "$folder" "${STEPS:-200}" ;;
sanitize) sanitize ;;
bench) bench ;;
peer) peer ;;
*) fail "no stage '$stage'" ;;
esac
