#!/bin/sh
# tokenizers 0.23.3: of two added tokens that the normalizer makes the same text, which one a text becomes differs from
# process to process. One and the same file then numbers one and the same data in two ways, and so would ranks that each read it.
. "$(dirname "$0")/lib.sh"
packages tokenizers==0.23.3

seen "in 64 processes 'yes' became: 1 and 2
of tokens that are not normalized: 2" << 'END'
import subprocess
import sys

PROGRAM = """
import sys

from tokenizers import AddedToken, Tokenizer, models, normalizers
tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.add_tokens([AddedToken(t, normalized=sys.argv[1] == "yes") for t in ("Yes", "YES")])
print(*tokenizer.encode(sys.argv[1]).ids)
"""


def ids(text):
    return sorted({subprocess.run([sys.executable, "-c", PROGRAM, text], capture_output=True, text=True, check=True).stdout.strip()
                   for _ in range(64)})


print("in 64 processes 'yes' became:", " and ".join(ids("yes")))
print("of tokens that are not normalized:", " and ".join(ids("YES")))
END
