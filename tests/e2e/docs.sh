#!/bin/bash
# What the pages say, word for word: the indented lines of a section are commands or a pipeline.
. "$(dirname "$0")/lib.sh"
begin "$1"
ln -s "$repo/pipelines" "$repo/examples" .
export PATH="$build/engine/cli:$build/trainer/cli:$PATH"

# section PAGE TITLE: its indented lines.
section()
{
    awk -v title="## $2" '/^## / { in_it = $0 == title } in_it && /^    / { print substr($0, 5) }' "$repo/$1"
}

section README.md "A pipeline of your own" > greetings.yaml
has "the pipeline stands there" greetings.yaml "tasks:"
"$flowrun" greetings.yaml > out 2>&1
same "the README's pipeline" $? 0
has "what it says" out "greet@local | Hello"

for page in "README.md:The trainer by itself" "docs/trainer.md:From nothing to an answer"; do
    section "${page%%:*}" "${page#*:}" > commands
    has "the training stands in ${page%%:*}" commands "flowtrain launch"
    rm -rf example out merged
    bash -e commands > said 2>&1
    rc=$?
    same "commands of ${page%%:*}" "$rc" 0
    [ "$rc" = 0 ] || tail -n 5 said
    check "an adapter" test -s out/adapter_model.safetensors
done
has "merged is compared" said "relative to those of base and adapter"
finish
