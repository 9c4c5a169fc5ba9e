#!/bin/sh
# omegaconf 2.4.0, with which LLaMA-Factory reads its files and the words behind them: 017 is 15, 1:30 is 90 and 1e3 a number,
# while 0o17, 08, y and a date stay text (PyYAML 6.0.3 by itself makes text of 1e3 and a date of the date). The words behind a file have values
# by the same rules, but None is text there, and a reference keeps its letters.
. "$(dirname "$0")/lib.sh"
packages omegaconf==2.4.0 PyYAML==6.0.3

seen "word: file, command line, PyYAML
017: 15, 15, 15
0o17: '0o17', '0o17', '0o17'
08: '08', '08', '08'
1:30: 90, 90, 90
1_0: 10, 10, 10
1e3: 1000.0, 1000.0, '1e3'
off: False, False, False
y: 'y', 'y', 'y'
2024-01-31: '2024-01-31', '2024-01-31', datetime.date(2024, 1, 31)
[a, b]: ['a', 'b'], ['a', 'b'], ['a', 'b']
None: 'None', 'None', 'None'
\${other}: 7, '\${other}', '\${other}'" << 'END'
import yaml
from omegaconf import OmegaConf

print("word: file, command line, PyYAML")
for word in "017 0o17 08 1:30 1_0 1e3 off y 2024-01-31".split() + ["[a, b]", "None", "${other}"]:
    file = OmegaConf.to_container(OmegaConf.create(f"other: 7\nkey: {word}"), resolve=True)["key"]
    line = OmegaConf.to_container(OmegaConf.from_cli([f"key={word}"]))["key"]
    print(f"{word}: {file!r}, {line!r}, {yaml.safe_load('key: ' + word)['key']!r}")
END
