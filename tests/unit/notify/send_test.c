/* One try by each kind of channel, at receivers on this machine that play a script. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/notify/curl.h"
#include "engine/notify/notify.h"
#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

static int64_t fixed_wall_ms(void)
{
    return 1795320000000;
}

static char dir[] = "/tmp/send_test.XXXXXX";

/* ---- a receiver ---- */

static struct {
    int fd;                    /* that listens */
    const char *const *script; /* HTTP: an answer a connection; SMTP: lines of a greeting, and … */
    bool mail;
    struct fr_buf got; /* by the thread; for others once it has ended */
    int connections;
} receiver;

static void say(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* One line, with its end; false: there is no more. */
static bool hear(int fd)
{
    char c = '\0';

    while (c != '\n' && read(fd, &c, 1) == 1)
        fr_buf_add(&receiver.got, &c, 1);
    return c == '\n';
}

static bool heard(const char *line)
{
    size_t n = strlen(line);

    return receiver.got.n >= n && memcmp(receiver.got.p + receiver.got.n - n, line, n) == 0;
}

/* A request with its body, and the answer; none: hangs up. */
static void play_http(int fd, const char *answer)
{
    size_t from = receiver.got.n, n = 0;
    const char *length;
    char c;

    while (hear(fd) && !heard("\r\n\r\n"))
        ;
    length = receiver.got.n > from ? strstr(receiver.got.p + from, "Content-Length: ") : NULL;
    for (n = length != NULL ? strtoul(length + 16, NULL, 10) : 0; n > 0 && read(fd, &c, 1) == 1;
         n--)
        fr_buf_add(&receiver.got, &c, 1);
    fr_buf_text(&receiver.got, "\n");
    if (answer != NULL)
        say(fd, answer);
}

/* The script is what is said to each line, from the greeting on; "250 ok" behind its end. */
static void play_mail(int fd, const char *const *script)
{
    for (bool data = false, go = true; go;) {
        say(fd, *script != NULL ? *script : "250 ok");
        say(fd, "\r\n");
        data = *script != NULL && strncmp(*script, "354", 3) == 0;
        script += *script != NULL;
        do
            go = hear(fd);
        while (go && data && !heard("\r\n.\r\n"));
    }
}

static void *receive(void *arg)
{
    const char *const *script = receiver.script;
    int fd;

    (void)arg;
    while ((fd = accept(receiver.fd, NULL, NULL)) >= 0) {
        receiver.connections++;
        if (receiver.mail)
            play_mail(fd, script);
        else
            play_http(fd, *script != NULL ? *script++ : NULL);
        close(fd);
    }
    return NULL;
}

/* ---- a try ---- */

static size_t count_fds(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1000; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static json_t *parse(const char *text)
{
    json_t *doc = json_loads(text, 0, NULL);

    CHECK(doc != NULL);
    return doc;
}

static const char one[] = "{\"type\": \"run.failed\", \"data\": {\"run\": 7, \"pipeline\": \"p\"}}";

/* Sends through the channel, in which %d is the port of a receiver at that address; what came there
 * is receiver.got, the caller's. */
static struct fr_sent send_at(const char *address, const char *channel, const char *message,
                              const char *const *script)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof(at);
    json_t *to, *doc = parse(message);
    struct fr_sent sent;
    pthread_t thread;
    char text[1000];

    receiver.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    receiver.script = script;
    receiver.connections = 0;
    CHECK(inet_pton(AF_INET, address, &at.sin_addr) == 1);
    CHECK_INT(bind(receiver.fd, (struct sockaddr *)&at, sizeof(at)), 0);
    CHECK_INT(listen(receiver.fd, 5), 0);
    CHECK_INT(getsockname(receiver.fd, (struct sockaddr *)&at, &n), 0);
    CHECK_INT(pthread_create(&thread, NULL, receive, NULL), 0);
    snprintf(text, sizeof(text), channel, ntohs(at.sin_port), dir);
    to = parse(text);
    fr_notify_send(to, "msg_1", doc, &sent);
    shutdown(receiver.fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(receiver.fd);
    json_decref(to);
    json_decref(doc);
    return sent;
}

static void check_sent(const struct fr_sent *sent, const char *text, const char *how)
{
    char got[40];

    snprintf(got, sizeof(got), "%s%s%s", sent->done ? "done" : "", sent->refused ? "refused" : "",
             sent->gone ? " gone" : "");
    CHECK_TEXT(got, how);
    if (!CHECK(text[0] != '\0' ? strstr(sent->text, text) != NULL : sent->text[0] != '\0'))
        printf("   %s\n", sent->text);
}

static void check_got(const char *want)
{
    if (!CHECK(receiver.got.p != NULL && strstr(receiver.got.p, want) != NULL))
        printf("   got:  %s\n   want: %s\n", receiver.got.p != NULL ? receiver.got.p : "", want);
}

/* ---- HTTP ---- */

#define HOOK "{\"kind\": \"webhook\", \"url\": \"http://127.0.0.1:%d/hook\""
#define SPANS                                                                                      \
    "{\"kind\": \"otlp\", \"url\": \"http://127.0.0.1:%d/base\", \"path\": \"/v1/traces\"}"
#define ANSWER(STATUS, MORE) "HTTP/1.1 " STATUS "\r\nContent-Length: 0\r\n" MORE "\r\n"
#define SAYS(BODY) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" BODY

static const struct {
    const char *name, *channel, *message, *script[3], *got[3], *text, *how;
    int connections;
    int64_t wait_ms;
} rows[] = {
    {"a webhook",
     HOOK "}",
     one,
     {ANSWER("204 No Content", "")},
     {"POST /hook HTTP/1.1\r\n", "content-type: application/json\r\n",
      "\r\n\r\n{\"type\":\"run.failed\",\"data\":{\"run\":7,\"pipeline\":\"p\"}}\n"},
     "HTTP status 204",
     "done",
     1,
     0},
    {"signed",
     HOOK ", \"sign_with\": \"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"}",
     one,
     {ANSWER("200 OK", "")},
     {"webhook-id: msg_1\r\n", "webhook-timestamp: 1795320000\r\n",
      "webhook-signature: v1,s3689gZM7aoOZZbwIzHjltpNk1GzruksMNGai2+wg8U="},
     "HTTP status 200",
     "done",
     1,
     0},
    {"a secret of blanks",
     HOOK ", \"sign_with\": \"  \"}",
     one,
     {NULL},
     {NULL},
     "there is no secret to sign with",
     "",
     0,
     0},
    {"Slack",
     "{\"kind\": \"slack\", \"url\": \"http://127.0.0.1:%d/\"}",
     one,
     {ANSWER("200 OK", "")},
     {"{\"text\":\"*p run 7 failed*"},
     "HTTP status 200",
     "done",
     1,
     0},
    {"Teams",
     "{\"kind\": \"teams\", \"url\": \"http://127.0.0.1:%d/\"}",
     one,
     {ANSWER("202 Accepted", "")},
     {"{\"type\":\"message\",\"attachments\":["},
     "HTTP status 202",
     "done",
     1,
     0},
    {"headers",
     HOOK ", \"headers\": \"A-B=1,c=,bad,worse\"}",
     one,
     {ANSWER("200 OK", "")},
     {"\r\na-b: 1\r\n", "\r\nc:\r\n"},
     "HTTP status 200; headers: 2 of its entries were not NAME=VALUE and left out",
     "done",
     1,
     0},
    {"one bad header",
     HOOK ", \"headers\": \"a=1,bad\"}",
     one,
     {ANSWER("200 OK", "")},
     {NULL},
     "1 of its entries was not",
     "done",
     1,
     0},
    {"many headers",
     HOOK ", \"headers\": \"a=,b=,c=,d=,e=,f=,g=,h=,i=,j=,k=,l=,m=,n=,o=,p=,q=,r=,"
          "s=\"}",
     one,
     {ANSWER("200 OK", "")},
     {"\r\na:\r\n", "\r\ns:\r\n"},
     "HTTP status 200",
     "done",
     1,
     0},
    {"too many",
     HOOK ", \"headers\": \"a=,b=,c=,d=,e=,f=,g=,h=,i=,j=,k=,l=,m=,n=,o=,p=,q=,r=,s=,"
          "t=\"}",
     one,
     {NULL},
     {NULL},
     "more than 20 headers",
     "",
     0,
     0},
    {"an address that moved",
     HOOK "}",
     one,
     {ANSWER("302 Found", "Location: http://127.0.0.1:1/\r\n")},
     {NULL},
     "HTTP status 302",
     "",
     1,
     0},
    {"a refusal",
     HOOK "}",
     one,
     {ANSWER("400 Bad Request", "Retry-After: 7\r\n")},
     {NULL},
     "HTTP status 400",
     "refused",
     1,
     0},
    {"no more",
     HOOK "}",
     one,
     {ANSWER("410 Gone", "")},
     {NULL},
     "HTTP status 410",
     "refused gone",
     1,
     0},
    {"patience",
     HOOK "}",
     one,
     {ANSWER("503 Unavailable", "Retry-After: 7\r\n")},
     {NULL},
     "HTTP status 503",
     "",
     1,
     7000},
    {"no answer", HOOK "}", one, {NULL}, {NULL}, "erver returned nothing", "", 1, 0},
    {"not by this protocol",
     "{\"kind\": \"webhook\", \"url\": \"ftp://127.0.0.1:%d/\"}",
     one,
     {NULL},
     {NULL},
     "url is not http",
     "",
     0,
     0},
    {"a secret in a file",
     "{\"kind\": \"webhook\", \"url\": \"http://127.0.0.1:%d/\", "
     "\"headers\": {\"file\": \"%s/headers\"}}",
     one,
     {ANSWER("200 OK", "")},
     {"\r\nkey: of file\r\n"},
     "HTTP status 200",
     "done",
     1,
     0},
    {"an empty one",
     "{\"kind\": \"webhook\", \"url\": \"http://127.0.0.1:%d/\", "
     "\"headers\": {\"file\": \"%s/empty\"}}",
     one,
     {NULL},
     {NULL},
     "headers is empty, or has a NUL",
     "",
     0,
     0},
    {"one with a NUL",
     "{\"kind\": \"webhook\", \"url\": \"http://127.0.0.1:%d/\", "
     "\"headers\": {\"file\": \"%s/nul\"}}",
     one,
     {NULL},
     {NULL},
     "headers is empty, or has a NUL",
     "",
     0,
     0},

    {"batches of spans",
     SPANS,
     "[{\"a\": 1}, {\"b\": 2}]",
     {SAYS("{}"), SAYS("")},
     {"POST /base/v1/traces HTTP/1.1\r\n", "\r\n\r\n{\"a\":1}\n", "\r\n\r\n{\"b\":2}\n"},
     "HTTP status 200",
     "done",
     2,
     0},
    {"some are rejected",
     SPANS,
     "[{\"a\": 1}, {\"b\": 2}]",
     {SAYS("{\"partialSuccess\": {\"rejectedSpans\": \"2\", \"errorMessage\": \"too\\nold\"}}"),
      SAYS("{\"partialSuccess\": {\"rejectedSpans\": 0, \"errorMessage\": \"a warning\"}}")},
     {NULL},
     "the collector rejected 2 spans: too\\x0aold",
     "done",
     2,
     0},
    {"in each batch",
     SPANS,
     "[{}, {}]",
     {SAYS("{\"partialSuccess\": {\"rejectedSpans\": 2}}"),
      SAYS("{\"partialSuccess\": {\"rejectedSpans\": 3}}")},
     {NULL},
     "the collector rejected 5 spans",
     "done",
     2,
     0},
    {"an answer that says nothing",
     SPANS,
     "[{}]",
     {SAYS("<html>")},
     {NULL},
     "HTTP status 200",
     "done",
     1,
     0},
    {"a batch that fails",
     SPANS,
     "[{\"a\": 1}, {\"b\": 2}, {\"c\": 3}]",
     {SAYS("{\"partialSuccess\": {\"rejectedSpans\": 2}}"), ANSWER("500 Oh", "")},
     {NULL},
     "HTTP status 500",
     "",
     2,
     0},
    {"one without an answer",
     SPANS,
     "[{\"a\": 1}, {\"b\": 2}]",
     {NULL},
     {NULL},
     "erver returned nothing",
     "",
     1,
     0},
    {"no spans", SPANS, "[]", {NULL}, {NULL}, NULL, "done", 0, 0},
};

static void test_http(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const script[] = {rows[i].script[0], rows[i].script[1], rows[i].script[2]};
        size_t fds = count_fds();
        struct fr_sent sent;

        check_row(rows[i].name);
        sent = send_at("127.0.0.1", rows[i].channel, rows[i].message, script);
        if (rows[i].text != NULL)
            check_sent(&sent, rows[i].text, rows[i].how);
        CHECK(sent.done == (strcmp(rows[i].how, "done") == 0));
        CHECK_INT(sent.wait_ms, rows[i].wait_ms);
        CHECK_INT(receiver.connections, rows[i].connections);
        for (size_t k = 0; k < 3 && rows[i].got[k] != NULL; k++)
            check_got(rows[i].got[k]);
        CHECK_INT(count_fds(), fds);
        fr_buf_finish(&receiver.got);
    }
    check_row("");
}

/* Of a long answer the beginning is read; its status counts. */
static void test_long_answer(void)
{
    struct fr_buf answer = {0};
    const char *script[2] = {NULL, NULL};
    struct fr_sent sent;

    check_row("a long answer");
    fr_buf_fmt(&answer, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%0100000d", 0);
    script[0] = answer.p;
    sent = send_at("127.0.0.1", HOOK "}", one, script);
    check_sent(&sent, "HTTP status 200", "done");
    sent = send_at("127.0.0.1", SPANS, "[{}]", script);
    check_sent(&sent, "HTTP status 200", "done");
    fr_buf_finish(&answer);
    fr_buf_finish(&receiver.got);
    check_row("");
}

/* ---- mail ---- */

#define MAIL(SERVER, MORE)                                                                         \
    "{\"kind\": \"email\", \"server\": \"smtp://" SERVER                                           \
    ":%d\", \"from\": \"f@x\", \"to\": [\"a@x\", \"b@x\"]" MORE "}"
#define TAKES "220 test", "250 8BITMIME", "250 ok", "250 ok", "250 ok", "354 go on", "250 ok"

static const struct {
    const char *name, *address, *channel, *script[10], *got[4], *text, *how;
} mails[] = {
    {"a mail",
     "127.0.0.1",
     MAIL("127.0.0.1", ""),
     {TAKES},
     {"MAIL FROM:<f@x>", "RCPT TO:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\n",
      "Subject: p run 7 failed\r\n", "\r\n\r\np run 7 failed\r\n.\r\n"},
     "the mail server took it",
     "done"},
    {"with a login",
     "127.0.0.1",
     MAIL("localhost", ", \"user\": \"me\", \"password\": \"planted\""),
     {"220 test", "250-test\r\n250 AUTH PLAIN", "334 ", "235 ok", "250 ok", "250 ok", "250 ok",
      "354 go on", "250 ok"},
     {"AUTH PLAIN", "AG1lAHBsYW50ZWQ="},
     "the mail server took it",
     "done"},
    {"without the password",
     "127.0.0.1",
     MAIL("127.0.0.1", ", \"user\": \"me\", \"password\": {\"env\": \"NO_SUCH_VARIABLE\"}"),
     {TAKES},
     {NULL},
     "password: the host's environment has no variable NO_SUCH_VARIABLE",
     ""},
    {"a refusal",
     "127.0.0.1",
     MAIL("127.0.0.1", ""),
     {"220 test", "250 8BITMIME", "250 ok", "550 no such user"},
     {NULL},
     "SMTP status 550: ",
     "refused"},
    {"a temporary one",
     "127.0.0.1",
     MAIL("127.0.0.1", ""),
     {"220 test", "250 8BITMIME", "250 ok", "450 busy"},
     {NULL},
     "SMTP status 450: ",
     ""},
    {"the last permanent status",
     "127.0.0.1",
     MAIL("127.0.0.1", ""),
     {"220 test", "250 8BITMIME", "250 ok", "250 ok", "250 ok", "599 no"},
     {NULL},
     "SMTP status 599: ",
     "refused"},
    {"a foreign server without TLS", "127.0.0.2", MAIL("127.0.0.2", ""), {TAKES}, {NULL}, "", ""},
    {"a local one that has to prove itself",
     "127.0.0.1",
     MAIL("127.0.0.1", ", \"ca\": \"/nonexistent\""),
     {TAKES},
     {NULL},
     "",
     ""},
    {"a name that begins as ours", "127.0.0.10", MAIL("127.0.0.10", ""), {TAKES}, {NULL}, "", ""},
};

static void test_mail(void)
{
    receiver.mail = true;
    for (size_t i = 0; i < sizeof(mails) / sizeof(mails[0]); i++) {
        size_t fds = count_fds();
        struct fr_sent sent;

        check_row(mails[i].name);
        sent = send_at(mails[i].address, mails[i].channel, one, mails[i].script);
        check_sent(&sent, mails[i].text, mails[i].how);
        CHECK(strstr(sent.text, "planted") == NULL);
        for (size_t k = 0; k < 4 && mails[i].got[k] != NULL; k++)
            check_got(mails[i].got[k]);
        if (strcmp(mails[i].how, "done") != 0)
            CHECK(receiver.got.p == NULL || strstr(receiver.got.p, "run 7") == NULL);
        CHECK_INT(count_fds(), fds);
        fr_buf_finish(&receiver.got);
    }
    receiver.mail = false;
    check_row("");
}

/* ---- a command ---- */

static void test_command(void)
{
    static const struct {
        const char *command, *text, *how;
    } commands[] = {
        {"test \\\"$1 $#\\\" = 'b c 1' && test \\\"$(cat)\\\" = '{\\\"a\\\":1}'",
         "the command took it", "done"},
        {"exit 3", "the command ended with exit code 3", ""},
        {"kill -9 $$", "the command ended with signal 9", ""},
        {"test $(ps -o pgid= $$) = $$", "the command took it", "done"},
    };

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        size_t fds = count_fds();
        char text[400];
        json_t *channel, *message = parse("{\"a\": 1}");
        struct fr_sent sent;

        check_row(commands[i].command);
        snprintf(text, sizeof(text),
                 "{\"kind\": \"command\", \"command\": [\"/bin/sh\", \"-c\", \"%s\", \"a\", "
                 "\"b c\"]}",
                 commands[i].command);
        channel = parse(text);
        fr_notify_send(channel, "msg_1", message, &sent);
        check_sent(&sent, commands[i].text, commands[i].how);
        CHECK_INT(count_fds(), fds);
        json_decref(channel);
        json_decref(message);
    }
    check_row("");
}

static void write_file(const char *name, const char *p, size_t n)
{
    char path[100];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(write(fd, p, n) == (ssize_t)n);
    close(fd);
}

int main(void)
{
    struct fr_buf version = {0};

    CHECK(mkdtemp(dir) != NULL);
    write_file("headers", "key=of file\r\n\n", 14);
    write_file("empty", "\n", 1);
    write_file("nul", "a=\0b", 4);
    setenv("no_proxy", "*", 1);
    test_command();
    fr_curl_version(&version);
    if (version.n > 0) {
        CHECK(strncmp(version.p, "libcurl/", 8) == 0);
        fr_sys.wall_ms = fixed_wall_ms;
        test_http();
        test_long_answer();
        test_mail();
    }
    fr_buf_finish(&version);
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    return check_done();
}
