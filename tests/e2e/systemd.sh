#!/bin/bash
# serve under a service manager: what it tells it, its units, and its log.
# usage: systemd.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"

# Plays the service manager: one line a message.
cat > manager.py <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\0", 1))
out = open(sys.argv[2], "a", buffering=1)
while True:
    out.write(s.recv(4096).decode().replace("\n", ";") + "\n")
END
manager() { # SOCKET FILE
    : > "$2"
    python3 manager.py "$1" "$2" &
    manager=$!
}
told() { grep -q "^$1" "$2"; }
beats() { test "$(grep -c '^WATCHDOG=1$' said)" -ge "$1"; }

printf 'name: p\nsecrets: {s: {command: "env > %s/secret; echo x"}}\ntasks: {t: {env: {S: "${{ secrets.s }}"}, run: "env > $OUT; until test -e $GO; do sleep 0.05; done"}}\nenv: {OUT: "%s/out", GO: "%s/go"}\n' "$work" "$work" "$work" > p.yaml
manager "$work/notify" said
until_true 20 test -S "$work/notify"
NOTIFY_SOCKET=$work/notify WATCHDOG_USEC=200000 "$flowrun" serve > served 2>&1 &
host=$!
until_true 20 told READY=1 said
check "it is ready" told READY=1 said
check "its home has a host then" test -S "$FLOWRUN_HOME/host.sock"
until_true 20 beats 5
check "its loop turns" beats 5
"$flowrun" p.yaml > followed 2>&1 &
run=$!
until_true 20 told "STATUS=1 runs, 0 of them queued" said
check "it says what it does" told "STATUS=1 runs, 0 of them queued" said
until_true 20 test -s out
check "what it starts is not given the manager's socket" eval 'test -s secret && ! grep -qE "^(NOTIFY_SOCKET|WATCHDOG_)" out secret'

# ---- a loop that does not turn is not told to turn
kill -STOP $host
until_true 20 eval 'grep -q "^State:.T" /proc/$host/status'
n=$(grep -c WATCHDOG said)
python3 -c 'import select; select.select([], [], [], 0.5)'
same "a stopped host says nothing" "$(grep -c WATCHDOG said)" "$n"
kill -CONT $host
until_true 20 beats $((n + 1))
check "and goes on" beats $((n + 1))

# ---- reload, stop
: > said
kill -HUP $host
until_true 20 told READY=1 said
same "reloading comes before ready" "$(grep -oE '^(RELOADING=1;MONOTONIC_USEC=[0-9]+|READY=1)$' said | sed 's/=[0-9]*$//' | paste -sd ' ')" "RELOADING=1;MONOTONIC_USEC READY"
kill -TERM $host
wait $host
same "SIGTERM" $? 0
until_true 20 told STOPPING=1 said
check "it says that it stops" told STOPPING=1 said
touch go
wait $run
same "the task went on, its follower too" $? 0
kill $manager

# ---- the others: abstract sockets, a watchdog of another process, nonsense
manager @flowrun-test-$$ abstract
until_true 20 eval 'grep -q "@flowrun-test-'$$'" /proc/net/unix'
NOTIFY_SOCKET=@flowrun-test-$$ WATCHDOG_USEC=200000 WATCHDOG_PID=1 "$flowrun" serve > served 2>&1 &
host=$!
until_true 20 told READY=1 abstract
check "an abstract socket" told READY=1 abstract
kill -TERM $host
wait $host
check "a watchdog of another process is left alone" eval '! grep -q WATCHDOG abstract'
kill $manager
WATCHDOG_USEC=soon "$flowrun" serve > served 2>&1
same "a watchdog that is no time" $? 2
has "it is said" served "WATCHDOG_USEC is 'soon', which is no number of microseconds"

# ---- the log
truncate -s 8M serve.log
echo old > serve.log.3
echo oldest > serve.log.4
"$flowrun" serve --log serve.log &
host=$!
until_true 20 eval 'test -s serve.log.1 && test "$(stat -c %s serve.log)" -lt 100000'
same "a full log becomes the first old one" "$(stat -c '%s %a' serve.log.1 | cut -c 1-3)" "838"
same "the last old one goes" "$(cat serve.log.4)" old
same "the new one is its owner's" "$(stat -c %a serve.log)" 600
kill -HUP $host
until_true 20 grep -q "the configuration was read again" serve.log
has "it goes on there" serve.log "the configuration was read again"
kill -TERM $host
wait $host
"$flowrun" serve --log nowhere/serve.log > refused 2>&1
same "a log that cannot be made" $? 2
has "it is named" refused "--log nowhere/serve.log: No such file"

# ---- the units
units=$build/engine/cli
if command -v systemd-analyze > /dev/null; then
    mkdir -p root/bin units
    for unit in flowrun.service flowrun@.service; do # as installed here
        sed "s#^ExecStart=[^ ]*#ExecStart=$flowrun#" "$units/$unit" > "units/$unit"
    done
    XDG_RUNTIME_DIR=$work systemd-analyze --user --man=no verify "$work/units/flowrun.service" > verified 2>&1
    same "the user's unit" "$? $(cat verified)" "0 "
    cp "units/flowrun@.service" "units/flowrun@$(id -un).service"
    systemd-analyze --man=no verify "$work/units/flowrun@$(id -un).service" > verified 2>&1
    same "the machine's unit" "$? $(grep flowrun verified)" "0 "
else
    echo "systemd-analyze is not here: units were not checked (skipped)"
fi
DESTDIR=$work/root meson install -C "$build" --no-rebuild --tags=systemd > installed 2>&1
check "the user's unit is installed" test -s "$work/root/usr/local/lib/systemd/user/flowrun.service"
check "the machine's unit is installed" test -s "$work/root/usr/local/lib/systemd/system/flowrun@.service"
finish
