#!/bin/bash
# The shipped pipeline of full fine-tuning over real SSH: three nodes, two ranks each, GSM8K, the tokenizer of Qwen2.5, ZeRO-3,
# the optimizer in the host's memory. A rank is killed, then a link is cut; three ranks go on from the state of six, the optimizer
# on their devices. Each time the published model is that of an undisturbed run, bit for bit, and it answers.
# FLOWRUN_DATA: gsm8k/train.jsonl and tokenizers/qwen2.5.
. "$(dirname "$0")/ssh_lib.sh"
[ -n "${FLOWRUN_DATA:-}" ] || skip "FLOWRUN_DATA is not set"
for f in gsm8k/train.jsonl tokenizers/qwen2.5/tokenizer.json; do
    [ -f "$FLOWRUN_DATA/$f" ] || skip "$FLOWRUN_DATA has no $f"
done
begin_nodes "$1"

cat > config.json <<'END'
{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 32, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "hidden_act": "silu", "rms_norm_eps": 1e-06,
 "max_position_embeddings": 4096, "rope_theta": 1000000.0, "initializer_range": 0.02, "tie_word_embeddings": false,
 "use_sliding_window": false, "bos_token_id": 151643, "eos_token_id": 151645, "torch_dtype": "bfloat16"}
END
"$flowtrain" init --config config.json --tokenizer "$FLOWRUN_DATA/tokenizers/qwen2.5" --output model > /dev/null
same "flowtrain init --config" $? 0
mkdir data
cp "$FLOWRUN_DATA/gsm8k/train.jsonl" data/
echo '{"gsm8k": {"file_name": "train.jsonl", "columns": {"prompt": "question", "response": "answer"}}}' > data/dataset_info.json
cp pipelines/llama-full.yaml train.yaml # of which half makes another
sed 's/"stage": 3,/&\n    "offload_optimizer": {"device": "cpu", "pin_memory": true},/' pipelines/ds_z3.json > pipelines/ds_host.json
check "an optimizer on the host" grep -q offload_optimizer pipelines/ds_host.json

job() { # pipeline, output folder, further parameters
    local file=$1 out=$2
    shift 2
    start "$file.yaml" -p nodes=c/nodes.yaml -p model=model -p dataset_dir=data -p dataset=gsm8k -p template=qwen \
        -p output_dir="$out" -p publish_to="published-$out" -p batch=1 -p cutoff_len=96 -p val_size=6 \
        -p learning_rate=1e-2 -p max_steps=12 -p save_steps=4 "$@"
    pid=$!
}
six() { job "$@" -p nproc_per_node=2 -p accumulation=2 -p deepspeed=pipelines/ds_host.json; }
published() { on 1 "sha256sum $(workof 1)/published-$1/latest/model.safetensors" | cut -d' ' -f1; }
ended() { # what, output folder
    wait "$pid"
    same "$1" $? 0
    losses "$2" > "$2.log"
    same "$1: the model" "$(published "$2")" "$(published whole)"
}

six train whole
wait "$pid"
same "the pipeline over SSH" $? 0
[ "$failed" = 0 ] || { tail -40 out; finish; }
has "world size" out "world size: 6"
has "the host's memory" out "optimizer states"
has "every weight trains" out "trainable%: 100.0000"
losses whole > whole.log
check "the loss falls" python3 - <<'END'
import json
losses = [e["loss"] for e in map(json.loads, open("whole.log")) if "loss" in e]
assert len(losses) == 12, losses
assert sum(losses[-3:]) < sum(losses[:3]) - 1.5, losses
END

half disturbed
six half disturbed
begun
on 2 "kill -9 $(ranks 2 | tail -1)"
until_true 60 holds out "train@node3 running (attempt 2)"
until_true 60 eval 'test "$(grep -c "Continuing training from global step 8" out)" = 2'
cut_for_20s disturbed
ended "a killed rank and a cut link" disturbed
check "the losses" diff whole.log disturbed.log
has "which rank" out "was killed by signal 9"
has "the retry" out "train@node2 retrying"

half three
job half three -p nproc_per_node=1 -p accumulation=4 -p deepspeed=pipelines/ds_z3.json
begun
release three
ended "three ranks go on from the state of six" three
# Losses are sums over the ranks in f64: of 12 parts of a step, in another order.
check "the losses of three ranks" python3 - <<'END'
import json
def steps(name):
    return [(e["loss"], e["grad_norm"]) for e in map(json.loads, open(name)) if "loss" in e]
six, three = steps("whole.log"), steps("three.log")
assert len(six) == len(three) == 12
for (a, norm_a), (b, norm_b) in zip(six, three):
    assert norm_a == norm_b and abs(a - b) <= 12 * 2 ** -52 * a, (a, b, norm_a, norm_b)
END
has "their world size" out "world size: 3"

on 1 "cd $(workof 1)/published-three/latest/ && tar -c ." > model.tar 2> tar.err
mkdir answers && tar -C answers -xf model.tar
check "every tensor is sound" "$flowtrain" inspect answers --verify > /dev/null
"$flowtrain" generate --model_name_or_path answers --template qwen --prompt "What is 33 plus 89?" --max_new_tokens 8 \
    --device cpu > answer 2> err
same "the model answers" $? 0
for i in 1 2 3; do same "nothing is left on node$i" "$(trainers $i)" ""; done
finish
