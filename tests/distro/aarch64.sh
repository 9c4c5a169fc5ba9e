#!/usr/bin/env bash
# Builds all programs and tests for AArch64 by Debian's cross compiler, warnings as errors, and runs under qemu what needs no
# processes of its own: unit tests of the trainer, ops of the CPU backend with our own kernels for NEON and for its BF16, and trainings whose model
# files and losses must be those of BUILD, which is built for this machine. It installs nothing: it needs g++-aarch64-linux-gnu, qemu-user-static and the libraries of the Makefile's
# BUILD_PACKAGES for arm64, some of which cannot be installed beside those of the machine: a system of its own, in a folder, has them.
#
# usage: aarch64.sh BUILD
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=$(cd "$1" && pwd -P)
cd "$top"
cross=$top/build-aarch64
[ -e "$cross/build.ninja" ] || meson setup --cross-file tests/distro/aarch64.cross -Dwerror=true -Dcuda=disabled "$cross"
ninja -C "$cross"

passed=0 failed=0
check() { # what, command…
    if "${@:2}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1"
    fi
}

arm() { qemu-aarch64-static "$cross/$1" "${@:2}"; }

unit() { OMP_NUM_THREADS=1 arm "tests/unit/$1_test" > "$work/log" 2>&1 || { tail -n 5 "$work/log"; return 1; }; }

# One thread: a sum by several is in another order on each machine.
train() { # folder of the example, folder of the result, runner…
    OMP_NUM_THREADS=1 "${@:3}" train --stage sft --do_train --model_name_or_path "$1/model" --dataset arithmetic \
        --dataset_dir "$1/data" --template default --max_steps 5 --logging_steps 1 --save_strategy no --output_dir "$2" 2>&1 |
        grep -o "'loss': [0-9.]*"
}

work=$(mktemp -d "${TMPDIR:-/tmp}/fr-aarch64.XXXXXX")
trap 'rm -rf "$work"' EXIT
check "flowrun version" arm engine/cli/flowrun version
check "flownode version" arm tasks/flownode version
for name in base_map mt rope exact coded newton chat tokenizer safetensors sampler shard_model grads merge score \
    model_config curve planned_weights layouts yaml spec spec_value spec_matrix sched sched_chain sched_random wire store seek; do
    check "unit test $name" unit "$name"
done
aarch64-linux-gnu-objdump -d --no-show-raw-insn "$cross/trainer/backend/libtr_cells1.a" > "$work/neon"
aarch64-linux-gnu-objdump -d --no-show-raw-insn "$cross/trainer/backend/libtr_cells3.a" > "$work/neonbf16"
check "the loop of products" python3 tests/distro/neon_loop.py strip_12_f32 < "$work/neon"
check "the loop of f32 on a chip with BF16" python3 tests/distro/neon_loop.py strip_12_f32 < "$work/neonbf16"
check "the loop of bf16" python3 tests/distro/neon_loop.py strip_12_bf16 < "$work/neonbf16"
for chip in neoverse-n1 max; do # without BF16 and with it
    check "ops, $chip" env OP_EVERY=3 TEST_DEADLINE=0 qemu-aarch64-static -cpu "$chip" "$cross/tests/op/op_test" best
done
for model in deepseek llama; do
    arm trainer/cli/flowtrain init --example "$work/arm" --model "$model" --overwrite > /dev/null 2>&1
    "$build/trainer/cli/flowtrain" init --example "$work/own" --model "$model" --overwrite > /dev/null 2>&1
    check "$model: the same model" cmp "$work/arm/model/model.safetensors" "$work/own/model/model.safetensors"
    train "$work/own" "$work/out-own" "$build/trainer/cli/flowtrain" > "$work/own.txt"
    train "$work/own" "$work/out-arm" arm trainer/cli/flowtrain > "$work/arm.txt"
    check "$model: the same losses" diff "$work/arm.txt" "$work/own.txt"
    rm -rf "$work/out-own" "$work/out-arm"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
