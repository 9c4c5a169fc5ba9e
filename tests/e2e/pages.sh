#!/bin/bash
# The pages of a host that stays: who may log in, by what, and what they may then.
# usage: pages.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"

command -v curl > /dev/null || skip "curl is not here"

serve() { # NAME OPTION…: $host is its pid, $url the first address of its pages
    local name=$1
    shift
    "$flowrun" serve --http 127.0.0.1:0 "$@" > "served.$name" 2>&1 &
    host=$!
    until_true 20 grep -q "this is the host" "served.$name"
    until_true 20 grep -q "pages at" "served.$name"
    url=$(sed -n 's/.*pages at \([^;]*\);.*/\1/p' "served.$name" | head -1)
}
stop() {
    kill -TERM $host
    wait $host
}
# ask METHOD PATH [CURL OPTION…]: the status; the answer lies in ./answer, its head in ./head
ask() {
    local method=$1 path=$2
    shift 2
    curl -sS -m 20 -X "$method" -D head -o answer -w '%{http_code}' "$@" "$url$path"
}
bearer() { echo "Authorization: Bearer $1"; }
json='Content-Type: application/json'

# ---- before there is a host
same "a link without a host" "$("$flowrun" web 2>&1 > /dev/null; echo $?)" "flowrun: this home has no host: 'flowrun serve --http 127.0.0.1:8470' is one, with pages
6"
early=$("$flowrun" token new early --role view)
same "a token's form" "$(echo "$early" | grep -cE '^frt_[A-Za-z0-9_-]{43}$')" 1
"$flowrun" token new early 2> err
same "a name twice" $? 5
"$flowrun" token new 'a b' 2> err
same "a wrong name" $? 2
"$flowrun" token new x --role king 2> err
same "a wrong role" $? 2
has "says which there are" err "view, operate or admin"
for wrong in "--http 8470" "--http localhost" "--http 127.0.0.1:70000" "--http example.com:1" "--base /x" "--http 127.0.0.1:0 --base x/"; do
    "$flowrun" serve $wrong > out 2>&1
    same "serve $wrong" $? 2
done

# ---- tokens
serve 1 --http '[::1]:0'
has "each address is said" served.1 "pages at http://[::1]:"
operate=$("$flowrun" token new ci --role operate --days 3)
admin=$("$flowrun" token new root --role admin --json | sed 's/.*"token":"\([^"]*\)".*/\1/')
"$flowrun" token list > list
same "all are listed" "$(tail -n +2 list | awk '{print $1, $2}' | paste -sd ' ')" "ci operate early view root admin"
check "no secret stands in the home" eval '! grep -rqaF -e "$early" -e "$operate" -e "$admin" "$FLOWRUN_HOME"'
same "without a login" "$(ask GET api/v1/runs)" 401
has "which says how" head "WWW-Authenticate: Bearer"
same "a wrong token" "$(ask GET api/v1/runs -H "$(bearer frt_x)")" 401
same "a token of before" "$(ask GET api/v1/runs -H "$(bearer "$early")")" 200
same "view may not change" "$(ask POST api/v1/runs/1/cancel -H "$(bearer "$early")" -H "$json" -d '{}')" 403
has "which says what it needs" answer "this needs the role operate; early has view"
same "operate may" "$(ask POST api/v1/runs/1/cancel -H "$(bearer "$operate")" -H "$json" -d '{}')" 404
same "but not all" "$(ask GET api/v1/tokens -H "$(bearer "$operate")")" 403
same "admin may" "$(ask GET api/v1/tokens -H "$(bearer "$admin")")" 200
check "tokens are not in the list" eval '! grep -qE "frt_|hash" answer'
same "files of a shell are named over the socket alone" \
    "$(ask POST api/v1/runs -H "$(bearer "$admin")" -H "$json" -d '{"pipeline":"/etc/passwd","cwd":"/"}')" 400
same "another name of the host" "$(ask GET api/v1/runs -H "$(bearer "$admin")" -H 'Host: evil.example')" 421
same "another site" "$(ask POST api/v1/runs/1/cancel -H 'Sec-Fetch-Site: cross-site' -H "$(bearer "$admin")" -H "$json" -d '{}')" 403

# ---- a browser
same "the page" "$(ask GET runs/41)" 200
has "is what is built in" answer '<base href="/">'
has "with its rules" head "frame-ancestors 'none'"
"$flowrun" web > links
same "a link for each address" "$(wc -l < links)" 2
code=$(sed -n '1s/.*#login=//p' links)
login() { ask POST api/v1/login -H "Origin: ${url%/}" -H "$json" -d "$1" "${@:2}"; }
same "the link logs in" "$(login "{\"code\":\"$code\"}" -c jar)" 200
has "as the owner" answer '"role":"admin"'
has "with a cookie for us alone" head "; Path=/; HttpOnly; SameSite=Lax; Max-Age="
same "once" "$(login "{\"code\":\"$code\"}")" 401
same "the session" "$(ask GET api/v1/me -b jar)" 200
same "a change from our page" "$(ask POST api/v1/runs/1/cancel -b jar -H "Origin: ${url%/}" -H "$json" -d '{}')" 404
same "from another" "$(ask POST api/v1/runs/1/cancel -b jar -H "Origin: http://localhost:1" -H "$json" -d '{}')" 403
same "a token logs in, too" "$(login "{\"token\":\"$operate\"}" -c jar2)" 200
has "as itself" answer '"name":"ci"'

# ---- over a restart, and away
stop
serve 2
same "a session outlives its host" "$(ask GET api/v1/me -b jar2)" 200
same "a removed token" "$("$flowrun" token rm ci; echo $?)" "token ci: removed; whoever logged in with it is logged out
0"
same "takes its sessions along" "$(ask GET api/v1/me -b jar2)" 401
same "others stay" "$(ask GET api/v1/me -b jar)" 200
same "logout" "$(ask POST api/v1/logout -b jar -H "Origin: ${url%/}" -H "$json" -d '{}')" 204
same "is the end" "$(ask GET api/v1/me -b jar)" 401
for i in 1 2 3 4 5; do same "failure $i" "$(login '{"token":"frt_no"}')" 401; done
same "others of this machine are let in" "$(login "{\"token\":\"$admin\"}")" 200
same "such a token is not looked at" "$(login '{"token":"frt_no"}')" 429
has "for a while" head "Retry-After: "
has "to the millisecond" answer '"retry_after_ms":'
ask GET api/v1/audit -H "$(bearer "$admin")" > /dev/null
has "the audit: who" answer '"name":"POST /api/v1/runs/1/cancel","outcome":"404","who":"ci","address":"127.0.0.1"'
has "and what was refused" answer '"name":"POST /api/v1/runs/1/cancel","outcome":"403","who":"early"'
hasnt "the audit has no secret" answer "frt_"
stop

# ---- below a base, without a login
serve 3 --base /flowrun --host flow.example --open-view
same "the page below" "$(ask GET '')" 200
has "knows where it is" answer '<base href="/flowrun/">'
same "its interface" "$(ask GET api/v1/runs)" 200
same "anonymous may not change" "$(ask POST api/v1/sweep -H "Origin: ${url%/flowrun/}" -H "$json" -d '{}')" 403
same "a name of --host" "$(ask GET api/v1/runs -H 'Host: flow.example')" 200
"$flowrun" serve --http "$(echo "$url" | sed 's|http://||; s|/.*||')" > second 2>&1
same "a second host" $? 5
stop
same "SIGTERM" $? 0
finish
