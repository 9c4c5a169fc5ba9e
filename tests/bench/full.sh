#!/bin/bash
# Full fine-tuning on the CPU: tokens/s and peak memory of `flowtrain train`, activations kept and computed again, and the
# end of a step (norm, clipping, AdamW); with a Python that has torch and transformers in PEER, the same steps of
# the same folder by these beside it, with torch's fused AdamW. By turns, ROUNDS times; never fails on time.
# usage: full.sh BUILD [STEPS] [ROUNDS] [CONFIG]      TYPES="f32 bf16" TOKENS=512 SEQUENCE=128 (environment)
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-build}" && pwd)
steps=${2:-5} rounds=${3:-1} config=$(realpath "${4:-$here/full.json}")
tokens=${TOKENS:-512} sequence=${SEQUENCE:-128}
flowtrain=$build/trainer/cli/flowtrain
work=$(mktemp -d "${TMPDIR:-/tmp}/fr-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

"$flowtrain" init --example example --model llama > init.log 2>&1 &&
    "$flowtrain" init --config "$config" --output base --tokenizer example/model >> init.log 2>&1 || { cat init.log >&2; exit 2; }
mkdir data
echo '{"text": {"file_name": "text.jsonl", "columns": {"prompt": "text"}}}' > data/dataset_info.json
awk -v n=$(((steps + 2) * tokens / 50)) 'BEGIN {
    srand(1)
    for (i = 0; i < n; i++) {
        line = ""
        for (k = 0; k < 100; k++) line = line " " int(rand() * 1000)
        printf "{\"text\": \"%s\"}\n", line
    }
}' > data/text.jsonl

# ours RECOMPUTE TYPE: the median of the steps but the first.
ours() {
    rm -rf out
    "$flowtrain" train --model_name_or_path base --stage pt --do_train true --finetuning_type full --dataset text \
        --dataset_dir data --cutoff_len "$sequence" --per_device_train_batch_size $((tokens / sequence)) \
        --gradient_accumulation_steps 1 --learning_rate 1e-3 --lr_scheduler_type constant --max_steps $((steps + 1)) \
        --logging_steps 1 --save_strategy no --weight_decay 0 --max_grad_norm 1 --disable_shuffling true --output_dir out --report_to none \
        --recompute "$1" --bf16 "$([ "$2" = bf16 ] && echo true || echo false)" > train.log 2>&1 || { tail -n 5 train.log; return; }
    sed -n "s/.*'loss': \([0-9.]*\).*/\1/p" train.log | awk '{ printf "step %d: loss %s\n", NR, $1 }'
    sed -n 's/.*"throughput":\([0-9.e+]*\),.*/\1/p' out/trainer_log.jsonl | tail -n +2 | sort -g |
        awk '{ s[NR] = $1 } END { printf "flowtrain %.1f tokens/s, ", s[int((NR + 1) / 2)] }'
    sed -n "s/.*the process's peak grew by \(.*\)/the process's peak grew by \1/p" train.log
}

for round in $(seq "$rounds"); do
    for type in ${TYPES:-f32}; do
        for recompute in none all; do
            echo "== round $round, $type, recompute $recompute"
            ours "$recompute" "$type"
            [ -n "${PEER:-}" ] &&
                "$PEER" "$here/full_peer.py" step base data/text.jsonl "$tokens" "$sequence" "$steps" "$type" "$recompute" 2> /dev/null
        done
    done
    echo "== round $round, the end of a step, 46 M elements"
    "$build/tests/bench/update" 46000000 10
    [ -n "${PEER:-}" ] && "$PEER" "$here/full_peer.py" update 46000000 10
done
exit 0
