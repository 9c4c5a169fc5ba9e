#!/bin/sh
# transformers 5.24.0 with tokenizers 0.23.3: the numbers that tokenizer.json and added_tokens_decoder give to added tokens have
# no effect. One that the vocabulary lacks gets the next number behind it, in the order of tokenizer.json's list. A gap between the
# vocabulary and the added tokens is closed, so that other rows of the embedding are read than were trained. Nothing is said.
. "$(dirname "$0")/lib.sh"
packages transformers==5.24.0 tokenizers==0.23.3

seen "without a gap, in the files: <x>=3 <y>=4, taken: <x>=3 <y>=4
behind a gap, in the files: <x>=10 <y>=11, taken: <x>=3 <y>=4
the larger first, in the files: <y>=11 <x>=10, taken: <y>=3 <x>=4" << 'END'
import json

from transformers import AutoTokenizer


def show(what, ids):
    added = [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for c, i in ids.items()]
    with open("tokenizer.json", "w") as f:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                   "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
                   "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": 2}, "unk_token": "<unk>"}}, f)
    with open("tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>",
                   "added_tokens_decoder": {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added}}, f)
    tokenizer = AutoTokenizer.from_pretrained(".")
    print(f"{what}, in the files:", " ".join(f"{c}={i}" for c, i in ids.items()) + ", taken:",
          *(f"{c}={tokenizer.convert_tokens_to_ids(c)}" for c in ids))


show("without a gap", {"<x>": 3, "<y>": 4})
show("behind a gap", {"<x>": 10, "<y>": 11})
show("the larger first", {"<y>": 11, "<x>": 10})
END
