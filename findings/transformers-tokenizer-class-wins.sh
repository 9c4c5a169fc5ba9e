#!/bin/sh
# transformers 5.24.0: a tokenizer_class in tokenizer_config.json may replace the pre-tokenizer and normalizer of the
# tokenizer.json beside it. With Qwen2Tokenizer or Qwen2TokenizerFast, numbers are split into digits, and with GPT2TokenizerFast
# words at apostrophes, whatever tokenizer.json says; PreTrainedTokenizerFast takes the file as it is, but not beside a
# config.json whose model_type is qwen2. The tokenizers library reads one and the same file. Nothing is said.
. "$(dirname "$0")/lib.sh"
packages transformers==5.24.0

seen "tokenizer.json itself: c a n' t 123 45
TokenizersBackend: c a n' t 123 45
PreTrainedTokenizerFast: c a n' t 123 45
GPT2TokenizerFast: c a n ' t 123 45
Qwen2Tokenizer: c a n ' t 1 2 3 4 5
Qwen2TokenizerFast: c a n ' t 1 2 3 4 5
PreTrainedTokenizerFast of a qwen2 model: c a n ' t 1 2 3 4 5" << 'END'
import json

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

letters = sorted(pre_tokenizers.ByteLevel.alphabet())
vocabulary = {token: i for i, token in enumerate(letters + ["12", "123", "45", "n'"])}
file = Tokenizer(models.BPE(vocab=vocabulary, merges=[("1", "2"), ("12", "3"), ("4", "5"), ("n", "'")]))
file.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(r"\p{N}{1,3}|\P{N}+"), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
file.decoder = decoders.ByteLevel()
file.save("tokenizer.json")
print("tokenizer.json itself:", *file.encode("can't12345").tokens)


def show(tokenizer_class, what=""):
    with open("tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": tokenizer_class}, f)
    print(f"{tokenizer_class}{what}:", *AutoTokenizer.from_pretrained(".").tokenize("can't12345"))


for name in ("TokenizersBackend", "PreTrainedTokenizerFast", "GPT2TokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast"):
    show(name)
with open("config.json", "w") as f:
    json.dump({"model_type": "qwen2"}, f)
show("PreTrainedTokenizerFast", " of a qwen2 model")
END
