#!/bin/bash
# Messages of config.yaml and of pipelines, as receivers get them: signed webhooks, Slack, e-mail with
# STARTTLS and a login, a command. None is lost when receivers are down or the host is killed; doubles
# have the same id; secrets are nowhere.
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v openssl > /dev/null || skip "needs openssl"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout key.pem -out cert.pem 2> openssl.log || skip "openssl makes no certificate"
mkdir rx home
(cd rx && exec python3 "$repo/tests/e2e/notify_receiver.py" ../cert.pem ../key.pem) &
receiver=$!
trap 'kill $receiver; wait $receiver 2>/dev/null; cleanup' EXIT
until_true 20 [ -s rx/ports ]
read -r http smtp < rx/ports

first=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= second=c2Vjb25kIHNlY3JldCwgbmV3ZXI=
export KEY="whsec_$first whsec_$second" SMTP_PASSWORD=planted-password TEAM="http://127.0.0.1:$http/planted-team"$'\r\n'
cat > home/config.yaml <<END
channels:
  hook: {kind: webhook, url: "http://127.0.0.1:$http/hook", sign_with: {env: KEY}}
  slow: {kind: webhook, url: "http://127.0.0.1:$http/slow"}
  team: {kind: slack, url: {env: TEAM}}
  mail: {kind: email, server: "smtp://localhost:$smtp", ca: ../cert.pem, from: flowrun@test, to: [a@test, b@test],
         user: me, password: {env: SMTP_PASSWORD}}
  lost: {kind: email, server: "smtp://localhost:$smtp", ca: ../cert.pem, from: flowrun@test, to: refused@test}
  bare: {kind: email, server: "smtp://localhost:$smtp", ca: ../other.pem, from: flowrun@test, to: a@test}
  file: {kind: command, command: [sh, -c, 'cat > $work/command.out']}
notify:
  - {on: [failed, recovered], pipelines: p*, to: [hook, mail, file]}
  - {on: failed, pipelines: [slowly], to: [slow, hook]}
END
cat > p.yaml <<'END'
notify: {on: [started, failed], to: team}
secrets: {s: {env: KEY}}
tasks: {a: {run: 'echo "said $S"; exit "$(cat "$W/code")"', env: {W: '${{ env.W }}', S: '${{ secrets.s }}'}}}
END
echo 3 > code

# ---- what each channel gets ----
"$flowrun" p.yaml > out 2>&1
same "the run fails as its task does" $? 1
"$flowrun" notify list > list
if grep -q "needs libcurl" list; then skip "no libcurl"; fi
same "all was sent before flowrun ended" "$(grep -c ' sent  ' list)" 5
for row in "--state Sent|2|--state is waiting, sent, dead, held or quiet, not 'Sent'" \
    "--channel haken|2|config.yaml has no channel 'haken'" "--state held|0|there is no such delivery"; do
    IFS='|' read -r flags code text <<< "$row"
    # shellcheck disable=SC2086
    "$flowrun" notify list $flags > wrong.out 2>&1
    same "list $flags" "$?" "$code"
    has "list $flags" wrong.out "$text"
done
cat > check.py <<'END'
import base64, hashlib, hmac, json, sys
http = [json.loads(l) for l in open("rx/got.http")]
mail = [json.loads(l) for l in open("rx/got.mail")]
hook = [h for h in http if h["path"] == "/hook"]
team = [json.loads(h["body"])["text"] for h in http if h["path"] == "/planted-team"]
h = hook[0]["headers"]
text = ("%s.%s." % (h["webhook-id"], h["webhook-timestamp"])).encode() + hook[0]["body"].encode()
want = ["v1," + base64.b64encode(hmac.new(base64.b64decode(s), text, hashlib.sha256).digest()).decode() for s in sys.argv[1:]]
body = json.loads(hook[0]["body"])
data = body["data"]
print("hook", len(hook), h["webhook-signature"].split(" ") == want, h["content-type"], body["type"], data["run"],
      data["pipeline"], data["outcome"], data["reason"], json.dumps(data["first_failure"], sort_keys=True))
print("team", json.dumps([t.split("\n")[0] for t in team]))
m = mail[0]
print("mail", len(mail), m["tls"], m["login"], len(m["to"]), "Subject: p run 1 failed\r\n" in m["text"],
      "Auto-Submitted: auto-generated" in m["text"], "a@local: exit code 3\r\n" in m["text"],
      "In-Reply-To: <run-%s@flowrun>" % data["id"] in m["text"])
print("file", json.load(open("command.out"))["type"])
END
python3 check.py $first $second > got
cat > want <<'END'
hook 1 True application/json run.failed 1 p failed a@local: exit code 3 {"cause": "exit", "code": 3, "node": "local", "tail": ["said ***"], "task": "a"}
team ["*p run 1 started*", "*p run 1 failed*"]
mail 1 True ['me', 'planted-password'] 2 True True True True
file run.failed
END
check "each channel has its message" diff want got
echo 0 > code
"$flowrun" p.yaml > out 2>&1
same "the run succeeds" $? 0
has "a success behind a failure" rx/got.mail "p run 2 succeeded, after a failure"

# ---- one by hand ----
check "a test" "$flowrun" notify test hook > out 2>&1
has "has a type of its own" rx/got.http channel.test
"$flowrun" notify test lost > out 2>&1
same "a test that fails" $? 6
has "says what the server said" out "SMTP status 550"
mail_to() { # ADDRESS; prints what became of it
    printf '{"channel": {"kind": "email", "server": "smtp://localhost:%s", "ca": "cert.pem", "from": "flowrun@test", "to": ["%s"]}, "key": "k", "message": {"type": "channel.test"}}' \
        "$smtp" "$1" | "$flowrun" notify --deliver
}
mail_to refused@test > out 2>&1
has "a server that refuses" out '"refused":true'
mail_to busy@test > out 2>&1
has "one that is busy for now does not" out '"refused":false'
has "and says so" out "SMTP status 450"
cp key.pem other.pem
"$flowrun" notify test bare > out 2>&1
same "a server that is not who it should be" $? 6
"$flowrun" notify test none > out 2>&1
same "no such channel" $? 2
"$flowrun" config > out 2>&1
has "the configuration shows channels" out "channels.mail            email"
hasnt "not their addresses" out "127.0.0.1"

# ---- a receiver that is down while the host is killed ----
serves() { "$flowrun" api me > /dev/null 2>&1; }
serve() {
    "$flowrun" serve >> served 2>&1 &
    host=$!
    until_true 20 serves
}
none_waiting() { "$flowrun" notify list --state waiting > list && ! grep -q waiting list; }
echo 3 > code
echo 500 > rx/answer
serve
"$flowrun" p.yaml > out 2>&1
failed_once() { "$flowrun" notify list --channel hook --state waiting | grep -q "HTTP status 500; next try"; }
until_true 20 failed_once
kill -9 $host
wait $host 2>/dev/null
rm rx/answer
serve
until_true 40 none_waiting
cat > tries.py <<'END'
import json, sys
got = [json.loads(l) for l in open("rx/got.http")]
got = [h for h in got if h["path"] == sys.argv[1] and json.loads(h["body"])["data"].get("run") == int(sys.argv[2])]
print(len(got) >= 2, len({h["headers"].get("webhook-id") for h in got}), len({h["body"] for h in got}), got[-1]["status"])
END
same "tried again, under one id" "$(python3 tries.py /hook 3)" "True 1 1 204"

# ---- a host that is killed while a receiver takes its time ----
mkfifo rx/slow
sed 's/^notify.*//' p.yaml > slowly.yaml
"$flowrun" slowly.yaml > out 2>&1
until_true 20 holds rx/got.http '"path": "/slow"'
others_sent() { "$flowrun" notify list --channel hook --json | head -1 | grep -q '"state": *"sent"'; }
until_true 20 others_sent
check "the host answers meanwhile" serves
"$flowrun" notify list --channel slow > list
has "the slow one waits" list "waiting"
kill -9 $host
wait $host 2>/dev/null
mv rx/slow rx/past
serve
until_true 40 none_waiting
same "sent again, as it was" "$(python3 tries.py /slow 4)" "True 1 1 204"
"$flowrun" notify again 1 > out 2>&1
same "once more by hand" $? 0
until_true 40 none_waiting
for path in channels deliveries deliveries/1 audit runs runs/1 runs/1/events host /metrics; do "$flowrun" api $path; done > answers
has "the host answers" answers run.started
kill -TERM $host
wait $host
"$flowrun" notify again 1 > out 2>&1
same "without a host" $? 6

# ---- a run that takes too long, a node whose disk is full ----
sed -i '1i limits: {disk_low: 1000TiB}' home/config.yaml
echo '  - {on: disk_low, to: [hook, card]}' >> home/config.yaml
sed -i 's#^  team: #  card: {kind: teams, url: "http://127.0.0.1:'$http'/card"}\n&#' home/config.yaml
cat > late.yaml <<'END'
late: 1s
notify: {on: late, to: hook}
tasks: {a: {run: 'until test -e "$W/late.go"; do sleep 0.02; done', env: {W: '${{ env.W }}'}}}
END
serve
"$flowrun" late.yaml > late.out 2>&1 &
late=$!
until_true 30 holds rx/got.http run.late
until_true 30 holds rx/got.http node.disk_low
until_true 30 holds rx/got.http '"path": "/card"'
has "as a card, too" rx/got.http 'flowrun: node local has little disk left'
touch late.go
wait $late
same "it goes on" $? 0
same "its story says so, once" "$(grep -c "it is not over after 1.0s" late.out)" 1
same "once" "$(grep -c run.late rx/got.http)" 1
same "of the disk, too" "$(grep -c node.disk_low rx/got.http)" 1
"$flowrun" config > out
has "which is in force" out "limits.disk_low"
kill -TERM $host
wait $host

# ---- secrets ----
"$flowrun" notify list --json > list
for secret in "$first" "$second" planted-password planted-team; do
    hasnt "no secret is listed" list "$secret"
    hasnt "nor told by the host" served "$secret"
    hasnt "nor answered" answers "$secret"
    check "nor kept" sh -c "! grep -rqaF -- '$secret' home"
done
finish
