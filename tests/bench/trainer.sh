#!/bin/bash
# Training tokens/s of a small DeepSeek-V3-architecture model, and its share of the matrix rate that
# the same machine gives in the same run.
# usage: trainer.sh BUILD [STEPS]
set -u
build=${1:-build}
steps=${2:-12}
flowtrain=$PWD/$build/trainer/cli/flowtrain
rate=$PWD/$build/tests/bench/rate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$flowtrain" init --example "$work/example" > /dev/null || exit 0
python3 - "$work" <<'PY'
import json, sys
work = sys.argv[1]
c = json.load(open(work + "/example/model/config.json"))
c.update(hidden_size=768, num_hidden_layers=6, num_attention_heads=12, num_key_value_heads=12,
         q_lora_rank=384, kv_lora_rank=256, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64,
         intermediate_size=2048, moe_intermediate_size=384, n_routed_experts=16, num_experts_per_tok=4)
json.dump(c, open(work + "/config.json", "w"))
PY
"$flowtrain" init --config "$work/config.json" --output "$work/model" --seed 1 \
    --tokenizer "$work/example/model" > /dev/null || exit 0

train() { # TYPE -> tokens/s, the median of the steps after the second
    rm -rf "$work/out"
    "$flowtrain" train --stage sft --do_train --model_name_or_path "$work/model" --dataset arithmetic \
        --dataset_dir "$work/example/data" --template default --finetuning_type lora --lora_rank 16 \
        --lora_target q_a_proj,q_b_proj,kv_a_proj_with_mqa,kv_b_proj,o_proj --output_dir "$work/out" \
        --per_device_train_batch_size 32 --learning_rate 1e-4 --logging_steps 1 --save_strategy no \
        --max_steps "$steps" --report_to none $1 > "$work/log" 2>&1 || { tail -3 "$work/log"; return; }
    grep -o "tokens_per_second': [0-9.]*" "$work/log" | awk '{print $2}' | tail -n +3 | sort -n |
        awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'
}

# FLOP of the matrices for one token: forward, recompute without the unused parts, and dX: about 6
# for each activated weight; the head forward and dX: 4. LoRA is small beside them and not counted.
flops=$("$flowtrain" inspect "$work/model" | awk '
    {gsub(",", "", $2); n[$1] = $2}
    END {print 6 * (n["activated"] - n["embedding"] - n["head"]) + 4 * n["head"]}')

printf '%6s %12s %14s %14s %8s\n' type tokens/s 'train GFLOP/s' 'matrix GFLOP/s' share
for type in f32 bf16; do
    tokens=$(train "$([ $type = bf16 ] && echo --bf16)")
    matrix=$("$rate" $type 1024 768 2048)
    awk -v y="$type" -v t="$tokens" -v f="$flops" -v m="$matrix" \
        'BEGIN {g = t * f * 1e-9; printf "%6s %12.0f %14.1f %14.1f %7.0f%%\n", y, t, g, m, 100 * g / m}'
done
