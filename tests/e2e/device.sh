#!/bin/bash
# A dry run of tests/bench/device.sh: packed with the simulator, some ops, a small model's steps and its
# parity by it, a training that resumes on the CPU; then what bench and peer do about room, crashes and time, with programs
# in the place of ours and the peer's that end as the arguments say.
# shellcheck disable=SC2154 # begin sets build and repo
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -e "$build/tests/cudasim/flowtrain_cuda13.so" ] || skip "the simulator was not built"
bench=$repo/tests/bench
unset FLOWRUN_DATA CUDA_LIBS
stage() { "$bash" gpu/device.sh "$@" > out 2>&1; }
bash=$(command -v bash)

"$bench/pack.sh" "$build" gpu sim > out 2>&1
same "pack" $? 0
has "pack without data" out "no GSM8K in it"
same "no C++ runtime goes along" "$(find gpu/lib -name 'libstdc*' -o -name 'libgcc_s*')" ""

stage ops gpu rope moe_plan
same "ops" $? 0
check "ops were run" grep -Eq '^[1-9][0-9]* passed, 0 failed' out
has "no kernels for sm_80" out "by the kernels for sm_80: skipped: the folder has none"
stage ops gpu ropes
same "no such op" $? 1
has "no such op" out "ropes is none of: embed_fwd"
stage ops gpu gemm limit=0
same "no time" $? 3
has "no time" out "out of time, not done: ops: gemm"

cat > config.json <<'END'
{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "vocab_size": 512,
 "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 1, "num_key_value_heads": 1,
 "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
 "intermediate_size": 32, "moe_intermediate_size": 16, "n_routed_experts": 4, "n_shared_experts": 1,
 "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
 "norm_topk_prob": true, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
 "hidden_act": "silu", "rms_norm_eps": 1e-06, "max_position_embeddings": 512, "rope_theta": 10000,
 "attention_bias": false, "initializer_range": 0.02, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
END
stage bench gpu 16:8 config=config.json layers=2 steps=1 whole=9:2
same "bench" $? 0
has "its layers" out "== 16:8, 2 layers"
check "peak memory beside the table" grep -Eq '^device memory: peak .*, the table ' out
check "a goal beside an op's share" grep -Eq '^attention_fwd .*% +55%$' out
has "a goal beside the step's" out "(goal 70 %)"
check "a matrix rate on random numbers" grep -Eq '^matrix rate [0-9.e+-]+ TFLOP/s on random numbers, ' out
check "the whole model, its head weighed" grep -Eq \
    '^the whole model of 9 layers, head (1[0-9]|[2-9])[0-9.]* % of the FLOP \(here [3-9][0-9.]* %\): .*MFU [0-9.]+ %' out
stage bench gpu 16:8 config=config.json layers=2 steps=1 recompute=none
same "bench with kept activations" $? 0
check "their row" grep -q '^  kept activations ' out

CUDASIM_DEVICES=1 CUDASIM_GPU=1 stage parity gpu shares batch config=config.json compared=1
same "parity by the simulator" $? 0
has "the simulator computes" out 'name="cudasim sm_90"'
has "two ranks on one GPU" out "two ranks on one GPU: losses within"
has "one batch" out "one batch against the CPU backend: 32 tensors within"
has "one batch in bf16" out "one batch in bf16:"
stage parity gpu resumes gsm8k device=cpu
same "parity" $? 0
has "no data" out "GSM8K: skipped: no GSM8K in the folder"
stage parity gpu f32 gsm8k device=cpu limit=6 # 5 of them are kept for the end
same "parity without time" $? 3
has "parity names what it did not do" out "out of time, not done: parity: f32 gsm8k"

# compute-sanitizer, which is not here: by its name, tool and program
mkdir bin
cat > bin/compute-sanitizer <<'END'
#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 1
shift 4
echo "$@" >> sanitized
race() { echo "========= Error: Race reported between Read access at $1"; exit 9; }
case $2 in
gemm) exec tail -f /dev/null ;;
sum) race nvjet_sm90+0xaf0 ;;
cast) race 'void cast_kernel+0x10 in vec.cu:12' ;;
esac
END
chmod +x bin/compute-sanitizer
PATH=$PWD/bin:$PATH stage sanitize gpu racecheck rope
same "sanitize" $? 0
same "one tool, one op" "$(cat sanitized)" "$PWD/gpu/trainer/cli/op_device rope"
PATH=$PWD/bin:$PATH stage sanitize gpu racecheck sum
same "a race in a library" $? 0
has "its kernel is named" out "racecheck sum: at nvjet_sm90 is a library's"
PATH=$PWD/bin:$PATH stage sanitize gpu racecheck rope cast
same "a race in ours" $? 1
has "where it is" out "in vec.cu:12"
PATH=$PWD/bin:$PATH stage sanitize gpu memcheck synccheck gemm limit=2
same "sanitize out of time" $? 3
has "the first of two tools ends in time for the second" out "out of time, not done: memcheck: gemm"
has "the second too" out "out of time, not done: synccheck: gemm"

# 5 layers have no room for ours, 4 none for one of the peer's; sizes of their own crash or never end
cat > gpu/trainer/cli/layers <<'END'
#!/bin/sh
echo "$2:$3 $4" >> ran
case "$2:$4" in
*:layers=5) echo "layers: no memory" >&2; exit 3 ;;
666:*) kill -SEGV $$ ;;
999:*) exec tail -f /dev/null ;;
esac
echo "step 1: loss 1.0"
echo "$2 tokens of $3: 300.0 tokens/s, MFU"
END
cat > gpu/peer.py <<'END'
import os, sys
if os.environ["EXPERTS"] == "lacks":
    print("no such package", file=sys.stderr)
    sys.exit(77)
if sys.argv[4] != "layers=3" and os.environ["EXPERTS"] == "large":
    print("out of memory", file=sys.stderr)
    sys.exit(3)
print("step 1: loss 1.0\n8 tokens of 8: 100.0 tokens/s, peak 1.0 GiB")
END
stage bench gpu 8:8 666:6 16:8 layers=6
same "bench: a crash" $? 1
has "a crash is no lack of room" out "666:6: failed, signal 11"
same "fewer layers for want of room alone" "$(tr '\n' ';' < ran)" "8:8 layers=6;666:6 layers=6;16:8 layers=6;"
rm ran
stage bench gpu 8:8
same "bench: less room" "$? $(tr '\n' ';' < ran)" "0 8:8 layers=5;8:8 layers=4;"
rm ran
stage bench gpu 999:9 16:8 layers=4 limit=1
same "bench out of time" $? 3
has "no time" out "out of time, not done: 999:9"
has "nor for the next" out "out of time, not done: 16:8"
rm -f ran
stage peer gpu 8:8 eager/sdpa large/sdpa lacks/sdpa
same "peer" $? 0
has "beside ours" out "8:8, 4 layers: 300.0 tokens/s; transformers and PEFT, eager/sdpa: 100.0; 3.00 times (goal: 3)"
has "no room, and why" out "8:8, 4 layers, large/sdpa: no room: out of memory"
has "with fewer layers" out "8:8, 3 layers: 300.0 tokens/s; transformers and PEFT, large/sdpa: 100.0"
has "a package that lacks" out "8:8, lacks/sdpa: skipped: no such package"
same "ours once for each number of layers" "$(tr '\n' ';' < ran)" "8:8 layers=5;8:8 layers=4;8:8 layers=3;"
finish
