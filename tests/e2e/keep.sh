#!/bin/bash
# The configuration of a home, and what is kept of its runs.
. "$(dirname "$0")/lib.sh"
begin "$1"

"$flowrun" config > out 2>&1
same "no configuration: exit code" $? 0
has "no configuration: no limit" out "keep.runs                no limit"
mkdir -p home
printf 'keep: {runs: 2, day: 3}\nlimits: {max_queued: none}\n' > home/config.yaml
"$flowrun" config > out 2>&1
same "a wrong configuration: exit code" $? 2
has "names the key and its place" out "$work/home/config.yaml:1:17: keep has no key 'day'; did you mean 'days'?"
has "names the value, too" out "$work/home/config.yaml:2:22: max_queued is 'none'; expected a whole number"
printf 'zone: Europe/Berlin\nkeep: {runs: 2, bytes: 1GiB}\n' > other.yaml
"$flowrun" config other.yaml --json > out 2>&1
same "another file: exit code" $? 0
same "another file" "$(python3 -c 'import json; d = json.load(open("out")); print(d["zone"], d["keep"])')" \
    "Europe/Berlin {'runs': 2, 'days': 0, 'failed_days': 0, 'bytes': 1073741824}"
"$flowrun" config nothing.yaml > out 2>&1
same "no such file: exit code" $? 2
has "no such file" out "nothing.yaml"
"$flowrun" schema config > out
check "its schema is the one in the repository" cmp -s out "$repo/schema/config.schema.json"
"$flowrun" schema kofnig > out 2>&1
same "no such schema: exit code" $? 2
rm home/config.yaml

finish
