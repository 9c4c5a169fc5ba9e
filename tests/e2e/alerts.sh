#!/bin/bash
# The rules for Prometheus that we ship: they name figures that a host has; and what promtool finds, where it is.
. "$(dirname "$0")/lib.sh"
begin "$1"
rules=$repo/examples/prometheus/alerts.yaml
grep -o 'flowrun_[a-z_]*' "$rules" | sort -u > named
grep -o '"flowrun_[a-z_]*"' "$repo/engine/metrics/meters.c" | tr -d '"' | sort -u > known
same "figures that no host has" "$(comm -23 named known)" ""
check "rules name some" test "$(wc -l < named)" -ge 7
if command -v promtool > /dev/null; then
    check "promtool reads the rules" promtool check rules "$rules"
    check "promtool test rules" promtool test rules "$repo/tests/e2e/alerts.yaml"
fi
finish
