#!/bin/sh
# huggingface_hub 2.4.0: a tensor larger than max_shard_size gets a shard of its own at once, numbered before the shard that was
# being filled. So the order of the tensors does not run on over the shards: a tensor may stand in an earlier shard than one before it.
# A size is a number with KB, MB, GB or TB, powers of ten; "2KiB" and "2048" are refused, the number 2048 is not.
. "$(dirname "$0")/lib.sh"
packages torch==2.9.1 numpy huggingface_hub==2.4.0

seen "shard 1: large
shard 2: first second
shard 3: third
2048: taken
'2048': refused
'2KB': taken
'2KiB': refused" << 'END'
import torch
from huggingface_hub import split_torch_state_dict_into_shards

sizes = {"first": 100, "large": 1000, "second": 100, "third": 100}
tensors = {name: torch.zeros(size) for name, size in sizes.items()}
shards = split_torch_state_dict_into_shards(tensors, max_shard_size="1KB").filename_to_tensors
for number, names in enumerate(shards.values(), 1):
    print(f"shard {number}:", *names)
for size in (2048, "2048", "2KB", "2KiB"):
    try:
        split_torch_state_dict_into_shards(tensors, max_shard_size=size)
        answer = "taken"
    except ValueError:
        answer = "refused"
    print(f"{size!r}: {answer}")
END
