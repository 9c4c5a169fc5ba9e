#!/bin/bash
# What only a GPU can tell, in stages of at most nine minutes each.
#
# usage: device.sh pack BUILD FOLDER [sim]    here: everything that a stage needs, stripped, into FOLDER;
#                                             sim: with the simulator instead of a GPU, for a dry run
#        device.sh STAGE FOLDER               where the GPU is
#
#   ops       the op table against the reference
#   parity    trainings against the CPU backend, 200 steps with a falling loss, save and resume
#   sanitize  the op table under compute-sanitizer: memcheck, racecheck, initcheck, synccheck
#   bench     the matrix rate of the device, and of shapes of DeepSeek-V3's layers beside it
#
# The libraries of CUDA (cublasLt, nccl) are looked for in CUDA_LIBS, else in the machine's Python
# packages, else where the loader finds them. Weights are made there, from a seed; no file travels.
set -u
fail() { echo "device.sh: $*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
limit=540

pack() { # BUILD FOLDER [sim]
    local build=$1 to=$2/trainer/cli module=$1/trainer/cli/flowtrain_cuda.so bytes
    [ "${3:-}" = sim ] && module=$build/tests/cudasim/flowtrain_cuda.so
    [ -e "$module" ] || fail "there is no $module: nvcc makes it (meson configure $build -Dcuda=enabled)"
    mkdir -p "$to" "$2/lib" || exit 1
    cp "$build/trainer/cli/flowtrain" "$build/tests/op/op_device" "$build/tests/bench/rate" "$module" "$to" ||
        fail "build it first: ninja -C $build"
    [ "${3:-}" = sim ] && cp "$build/tests/cudasim/libnccl.so.2" "$2/lib"
    for lib in $(ldd "$to/flowtrain" "$to/op_device" | awk '/=> \// {print $3}' | sort -u |
        grep -v -E '/(libc|libm|ld-linux[^/]*)\.so'); do
        cp -L "$lib" "$2/lib" || exit 1
    done
    strip --strip-unneeded "$to"/* "$2"/lib/* || exit 1
    cp "$here/device.sh" "$here/device_parity.py" "$here/../e2e/trainer_lib.py" "$2" || exit 1
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

bench() { # SHRINK divides every dimension: for a dry run
    local shape m k n by=${SHRINK:-1}
    echo "TFLOP/s of products in bf16: rows x in x out"
    # the rate itself; q_a, q_b, kv_b, o, an expert's gate, the dense FFN's gate
    for shape in "8192 8192 8192" "16384 7168 1536" "16384 1536 24576" "16384 512 32768" "16384 16384 7168" \
        "16384 7168 2048" "16384 7168 18432"; do
        read -r m k n <<< "$shape"
        printf '%-20s ' "$m x $k x $n"
        run "$bin/rate" bf16 $((m / by)) $((k / by)) $((n / by)) cuda | awk '{printf "%.4g\n", $1 / 1000; n++} END {exit !n}' ||
            return 1
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
ops) run "$bin/op_device" ;;
parity) run python3 "$folder/device_parity.py" "$folder" "${STEPS:-200}" ;;
sanitize) sanitize ;;
bench) bench ;;
*) fail "no stage '$stage'" ;;
esac
