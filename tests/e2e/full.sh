#!/bin/bash
# The shipped pipeline of full fine-tuning on three local nodes: what it publishes is a model that answers. A
# training whose rank is killed ends in the same model, bit for bit; one that goes on with twice the ranks in the same but for
# the order in which a head that is the embedding is summed (docs/trainer.md).
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
mkdir src # not the current folder
cp -r "$repo/pipelines" "$repo/examples" src/
flowtrain=$build/trainer/cli/flowtrain
nodes=$FLOWRUN_HOME/nodes/n1/work
model=$nodes/published-llama-full/latest
output=$nodes/output-llama-full

job() { start src/pipelines/llama-full.yaml -p max_steps=24 -p save_steps=12 "$@"; }
published() { sha256sum < "$model/model.safetensors"; }
# epoch and loss of each step that run $1 logged, each once
losses() { "$flowrun" logs "$1" train | sed -n "s/.*{'loss': \([0-9.]*\),.*'epoch': \([0-9.]*\),.*/\2 \1/p" | sort -u; }

job
wait $!
same "the pipeline" $? 0
check "closing table" grep -Eq '^publish +n1 +succeeded +1 ' out
losses 1 > losses.1
same "a loss for each step" "$(lines losses.1)" 24
check "the loss falls" awk '{ if (NR <= 4) a += $2; if (NR > 20) b += $2 } END { exit !(b < a - 1) }' losses.1
whole=$(published)
cp "$model/model.safetensors" whole.safetensors
sed -n '13,$p' losses.1 > rest
same "what is published" "$(cd "$model" && LC_ALL=C ls | tr '\n' ' ')" \
    "README.md chat_template.jinja config.json manifest.json model.safetensors tokenizer.json tokenizer_config.json "
has "the manifest has the model's hash" "$model/manifest.json" "${whole%% *}"
check "every tensor is sound" "$flowtrain" inspect "$model" --verify > /dev/null
check "the weights are new" bash -c "! cmp -s $model/model.safetensors $nodes/example-llama-full/model/model.safetensors"
"$flowtrain" generate --model_name_or_path "$model" --template llama3 --prompt "What is 33 plus 89?" \
    --max_new_tokens 12 --device cpu > answer 2> err
same "the model answers" $? 0

# From step 12 on. The next line of the log goes to a FIFO that nobody reads, so that step 14 is out of reach until release.
for i in 1 2 3; do
    cp -r "$FLOWRUN_HOME/nodes/n$i/work/output-llama-full" "half.$i"
    rm -rf "half.$i"/{checkpoint-24,resume/step-24,model*.safetensors}
done
back() { for i in 1 2 3; do rm -rf "$FLOWRUN_HOME/nodes/n$i/work/output-llama-full" && cp -r "half.$i" "$FLOWRUN_HOME/nodes/n$i/work/output-llama-full"; done; }
sed -i 's/^      seed: 42/&\n      args: [--resume_from_checkpoint, last]/' src/pipelines/llama-full.yaml
back
mv "$output/trainer_log.jsonl" "$output/log"
mkfifo "$output/trainer_log.jsonl"
job
pid=$!
until_true 60 holds out "Continuing training from global step 12"
rank=$(grep -slzx RANK=1 /proc/[0-9]*/environ | xargs -r grep -slz "^FLOWRUN_NODE_HOME=$work/" | sed -n '1s|/proc/\([0-9]*\)/.*|\1|p')
check "rank 1 is found" test -n "$rank"
kill -9 "$rank"
mv "$output/trainer_log.jsonl" "$output/fifo"
mv "$output/log" "$output/trainer_log.jsonl"
cat <> "$output/fifo" > /dev/null &
wait "$pid"
same "a killed rank" $? 0
kill %% # the reader
has "the retry" out "train@n1 retrying"
losses 2 > losses.2
check "the same losses" cmp rest losses.2
same "the same model" "$(published)" "$whole"

back
job -p nproc_per_node=2 -p accumulation=1
wait $!
same "six ranks go on from the state of three" $? 0
losses 3 > losses.3
paste rest losses.3 > both
check "the same losses, to 0.002" awk '{ if ($1 != $3 || $2 - $4 > 0.002 || $4 - $2 > 0.002) bad = 1; n++ } END { exit n != 12 || bad }' both
size=$(stat -c %s "$model/model.safetensors") others=$(cmp -l whole.safetensors "$model/model.safetensors" | wc -l)
check "the same model, but for a byte in a hundred: $others of $size" test $((others * 100)) -lt "$size"

# Files that are not what they should be.
gather() { # input…
    {
        printf '%s\n' "name: gather" "nodes: src/examples/clusters/local-3.yaml" "tasks:" "  gather:" "    uses: gather-adapters" ${on:+"    on: $on"} "    with:"
        printf '      %s\n' "from: output-llama-full" "to: gathered" "$@"
    } > gather.yaml
    start gather.yaml
    wait $!
}
gather
same "an adapter where a model is" $? 1
has "what helps" out "but a whole model: gather it by \`what: model\`"
on=n2 gather "node: n1"
same "an adapter of another node where a model is" $? 1
has "what helps there" out "output-llama-full has no adapter_config.json but a whole model: gather it by \`what: model\` on that node (\`on: n1\`)"
mv "$output/model.safetensors" whole.there
: > "$output/model.safetensors.index.json"
on=n2 gather "node: n1"
has "what helps, of shards" out "but a whole model: gather it by \`what: model\` on that node"
rm "$output/model.safetensors.index.json"
on=n2 gather "node: n1"
same "nothing of another node" $? 1
has "what is not there" out "output-llama-full/adapter_config.json: No such file"
check "nothing helps" bash -c "! grep -q 'whole model' out"
mv whole.there "$output/model.safetensors"
check "no file of it came" bash -c "! find $FLOWRUN_HOME/spool -type f | grep -q ."
gather "what: model" "node: n2"
same "a model of another node" $? 1
has "where it is gathered" out "a model is gathered on the node that has it (\`on: n2\`)"
: > "$output/model.safetensors"
gather "what: model"
same "an empty model" $? 1
has "which file" out "model.safetensors is empty"
rm "$output/model.safetensors"
gather "what: model"
same "no model" $? 1
has "what was looked for" out "has neither model.safetensors nor model.safetensors.index.json"
check "nothing is half there" bash -c "! ls -d $nodes/gathered* 2> /dev/null"
same "nothing is left running" "$(left)" ""
finish
