#!/bin/bash
# schedule: as a user meets it: what validate says of it, and the logical time of a run.
# usage: schedule.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"

# A zone of the test's own, so that no database of the machine is needed: two hours ahead of UTC
# until 2000, then with the rule of New York.
mkdir -p zones/Made zones/Etc
python3 - zones <<'END'
import struct, sys
def head(times, types): return b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, times, types, 4)
v1 = head(0, 1) + bytes(6) + b"LMT\0"
table = struct.pack(">q", 946684800) + b"\1" + struct.pack(">iBB", 7200, 0, 0) + struct.pack(">iBB", -18000, 0, 0)
made = v1 + head(1, 2) + table + b"LMT\0\nEST5EDT,M3.2.0,M11.1.0\n"
for name in ("Made/Zone", "Etc/UTC"):
    open(sys.argv[1] + "/" + name, "wb").write(made)
END
export TZDIR=$work/zones

# ---- validate
cat > p.yaml <<'END'
name: nightly
params: {max_steps: {type: int, default: 3}}
schedule:
  - {name: nightly, cron: "30 2 * * mon-fri", zone: Made/Zone, start: 2036-03-07, jitter: 10m, params: {max_steps: 500}}
  - {name: past, at: [2026-01-01T02:00Z]}
tasks:
  a:
    env: {W: "${{ env.W }}", AT: "${{ schedule.time }} ${{ schedule.interval_start }} ${{ schedule.origin }}"}
    run: echo "$AT" >> $W/at; env | grep ^FLOWRUN_SCHEDULE_ > $W/env; test ! -e $W/fail
END
"$flowrun" validate p.yaml > out
same "validate: exit code" $? 0
has "in words" out "schedule nightly: every Monday to Friday at 02:30 from 2036-03-07 00:00 in Made/Zone"
has "what starts it then" out "'flowrun serve FOLDER' starts the pipelines in FOLDER at these times"
has "next, in both zones" out "2036-03-07 02:30 Made/Zone = 2036-03-07 07:30 UTC"
has "behind the change" out "2036-03-10 02:30 Made/Zone = 2036-03-10 06:30 UTC"
has "a jitter" out "each later by a fixed delay of less than 10m00s"
has "what is past" out "finished: no further time"
sed 's/30 2/30 24/; s/Made.Zone/Made\/Zoen/' p.yaml > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
same "what is wrong" $? 2
has "an expression" out "wrong.yaml:4:31: cron: hour 24 is not within 0-23; midnight is 0"
has "a zone" out "wrong.yaml:4:54: zone: no zone 'Made/Zoen' in $work/zones"
mkdir -p "$FLOWRUN_HOME"
echo 'zone: Made/Zone' > "$FLOWRUN_HOME/config.yaml"
printf 'schedule: {cron: "0 0 1 1 *", start: 2036-06-01}\ntasks: {a: {run: "true"}}\n' > home.yaml
has "the home's zone" <("$flowrun" validate home.yaml) "2037-01-01 00:00 Made/Zone = 2037-01-01 05:00 UTC"

# ---- the logical time of a run
"$flowrun" p.yaml --at "2036-03-09 02:30" > out 2>&1 # several schedules: in the home's zone
same "in the gap" "$(cat at)" "2036-03-09T03:30:00-04:00 2036-03-09T03:30:00-04:00 manual"
sed -i '/past/d' p.yaml
rm at
"$flowrun" p.yaml --at 2036-03-11T02:30 > out 2>&1
same "with its only schedule" "$(cat at)" "2036-03-11T02:30:00-04:00 2036-03-10T02:30:00-04:00 manual"
same "in the environment" "$(sort env | paste -sd ' ')" "FLOWRUN_SCHEDULE_DATE=2036-03-11 \
FLOWRUN_SCHEDULE_INTERVAL_END=2036-03-11T02:30:00-04:00 FLOWRUN_SCHEDULE_INTERVAL_START=2036-03-10T02:30:00-04:00 \
FLOWRUN_SCHEDULE_NAME=nightly FLOWRUN_SCHEDULE_ORIGIN=manual FLOWRUN_SCHEDULE_PREVIOUS_SUCCESS= FLOWRUN_SCHEDULE_TIME=2036-03-11T02:30:00-04:00 \
FLOWRUN_SCHEDULE_UNIX=2088829800 FLOWRUN_SCHEDULE_ZONE=Made/Zone"

# ---- it stays what it was, also where there are no zones any more
rm at
touch fail
"$flowrun" p.yaml --at 2036-03-12T02:30 > out 2>&1
same "a run that fails" $? 1
rm -r fail zones "$FLOWRUN_HOME/config.yaml"
"$flowrun" retry > out 2>&1
same "is tried again" $? 0
same "at its time" "$(sort -u at)" "2036-03-12T02:30:00-04:00 2036-03-11T02:30:00-04:00 manual"

# ---- handed to a host
rm at
sed -i 's/, zone: Made.Zone//' p.yaml
"$flowrun" serve > served 2>&1 &
host=$!
until_true 20 test -S "$FLOWRUN_HOME/host.sock"
"$flowrun" p.yaml --at 2036-03-12T02:30+01:00 > out 2>&1
same "through a host" "$(cat at)" "2036-03-12T01:30:00Z 2036-03-11T02:30:00Z manual"
"$flowrun" p.yaml --at tomorrow > out 2>&1
same "a time that is none" $? 2
has "is named" out "the time of the run: 'tomorrow' is not a time such as 2026-12-24T02:00"
kill -TERM $host
wait $host
same "nothing is left running" "$(left)" ""
finish
