#!/bin/bash
# Everything that the stages of device.sh need, stripped, in one folder for the machine that has the GPU.
#
# usage: pack.sh BUILD FOLDER [sim]    sim: with the simulator instead of a GPU, for a dry run
#
# The kernels for sm_80 go along where they were built (ninja -C BUILD trainer/cli/flowtrain_cuda_80.so);
# GSM8K and a tokenizer where FLOWRUN_DATA has gsm8k/train.jsonl and tokenizers/deepseek-r1.
# The C and C++ runtimes stay here: a GPU machine's own are used, by our programs and by its Python.
set -u
fail() { echo "pack.sh: $*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$1 folder=$2 kind=${3:-}
bin=$folder/trainer/cli
most=$((64 << 20))

modules=("$build"/trainer/cli/flowtrain_cuda1[23].so)
[ "$kind" = sim ] && modules=("$build/tests/cudasim/flowtrain_cuda13.so")
[ -e "${modules[0]}" ] || fail "there is no ${modules[0]}: nvcc makes it (meson configure $build -Dcuda=enabled)"
newest_module=$(basename "${modules[-1]}")
mkdir -p "$bin" "$folder/lib" || exit 1
cp "$build/trainer/cli/flowtrain" "$build/tests/op/op_device" "$build/tests/bench/layers" "${modules[@]}" "$bin" ||
    fail "build it first: ninja -C $build"
[ "$kind" != sim ] || cp "$build/tests/cudasim/libnccl.so.2" "$folder/lib" || exit 1

older=$build/trainer/cli/flowtrain_cuda_80.so
if [ "$kind" != sim ] && [ -e "$older" ]; then
    mkdir -p "$folder/sm80" && cp "$bin/op_device" "$folder/sm80" &&
        cp "$older" "$folder/sm80/$newest_module" || exit 1
elif [ "$kind" != sim ]; then
    echo "no kernels for sm_80 in it: ninja -C $build trainer/cli/flowtrain_cuda_80.so makes them"
fi

for lib in $(ldd "$bin/flowtrain" "$bin/op_device" "$bin/layers" | awk '/=> \// {print $3}' | sort -u |
    grep -v -E '/(libc|libm|ld-linux[^/]*|libstdc\+\+|libgcc_s)\.so'); do
    cp -L "$lib" "$folder/lib" || exit 1
done
find "$bin" "$folder/lib" "$folder"/sm80 -type f -exec strip --strip-unneeded {} + 2> /dev/null
cp "$here/device.sh" "$here/device_parity.py" "$here/peer.py" "$here/deepseek_v3.json" "$here/small.json" \
    "$here/../e2e/trainer_lib.py" "$here/../e2e/trainer_models.py" "$folder" || exit 1

data=${FLOWRUN_DATA:-}
if [ -f "$data/gsm8k/train.jsonl" ]; then
    gzip -9 -n < "$data/gsm8k/train.jsonl" > "$folder/gsm8k.jsonl.gz" || exit 1
    # The simulator would spend minutes on a vocabulary of this size.
    if [ "$kind" != sim ] && [ -f "$data/tokenizers/deepseek-r1/tokenizer.json" ]; then
        for name in tokenizer.json tokenizer_config.json; do
            gzip -9 -n < "$data/tokenizers/deepseek-r1/$name" > "$folder/$name.gz" || exit 1
        done
    fi
else
    echo "no GSM8K in it: FLOWRUN_DATA names no folder with gsm8k/train.jsonl"
fi

bytes=$(du -sb "$folder" | cut -f1)
[ "$bytes" -le $most ] || fail "$folder has $bytes bytes, more than $most"
newest() { # PREFIX: what the folder's programs need of a library of the machine's
    find "$bin" "$folder/lib" -type f -exec objdump -T {} + 2> /dev/null | grep -o "${1}_[0-9.]*[0-9]" | sort -Vu | tail -n 1
}
echo "$folder: $bytes bytes; needs $(newest GLIBC) and $(newest GLIBCXX) or later; there: bash device.sh STAGE ."
