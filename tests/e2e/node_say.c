/*
 * An engine of one connection, for scripts: `node_say EPOCH ACTION … -- COMMAND …` says hello to a
 * flownode over stdin and stdout of COMMAND, performs the actions in order, and prints a line of
 * each. The attempt of an action is that of the last start, prepare or use.
 *
 *   start SCRIPT    "started ID", once it is launched, or "refused RC TEXT"
 *   prepare SCRIPT  "prepared ID": it waits for go
 *   go              nothing: what follows tells
 *   use ID          an attempt of an earlier connection
 *   state           "state WORD"
 *   log TEXT        "log N", the bytes of its log, once that has the text
 *   read            "read" and, below it, what came of its log so far
 *   end             "ended CAUSE CODE SURVIVORS", once it has ended
 *   stop, ack       sent
 *   piece           "answered", once one half of a message has got a credit of 0 bytes; then the
 * other wait            "closed", once COMMAND has closed its output
 *
 * The last line is "status N": how COMMAND ended.
 */
#include "tests/unit/node/node_client.h"

#include <stdio.h>

static const char *state_name(enum fr_attempt_status st)
{
    static const char *const names[] = {"unknown", "prepared",   "running",
                                        "ended",   "tombstoned", "sweeping"};

    return (size_t)st < sizeof(names) / sizeof(names[0]) ? names[st] : "?";
}

static void say_id(const char *what, struct fr_id id)
{
    char text[FR_ID_TEXT];

    fr_id_text(id, text);
    printf("%s %s\n", what, text);
}

static bool notice; /* what is started asks for one */

static struct fr_id start(struct client *c, const char *script, bool go_now)
{
    struct fr_str words[3];
    struct fr_msg m = sh_prepare(words, script, go_now), got;

    m.prepare.run = m.prepare.attempt;
    m.prepare.request.grace_ms = 60000;
    m.prepare.request.notice_ms = notice ? 60000 : 0;
    client_send(c, &m);
    while (!c->closed) {
        got = client_next(c);
        if (got.type == FR_MSG_PREPARED && got.prepared.rc != FR_OK) {
            printf("refused %s %.*s\n", fr_rc_name((enum fr_rc)got.prepared.rc),
                   (int)got.prepared.text.n, got.prepared.text.p);
            break;
        }
        if (got.type == (go_now ? FR_MSG_LAUNCHED : FR_MSG_PREPARED)) {
            say_id(go_now ? "started" : "prepared", m.prepare.attempt);
            break;
        }
    }
    return m.prepare.attempt;
}

static void await_end(struct client *c, struct fr_id id)
{
    struct fr_msg m = {.type = FR_MSG_QUERY, .query = {{&id, 1}}};

    client_send(c, &m);
    struct fr_ended e = client_expect(c, FR_MSG_ENDED, id).ended;

    printf("ended %s %d %zu\n", fr_cause_name(fr_cause_of_end(e.cause)), (int)e.code,
           e.survivors.n);
}

static void send_pieces(struct client *c)
{
    struct fr_msg m = {.type = FR_MSG_FACTS, .facts = {7}};
    struct fr_buf b = {0};

    CHECK(fr_msg_put(&m, &b, NULL) == FR_OK);
    fr_write_full(c->to, b.p, b.n / 2);
    while (!c->closed && client_expect(c, FR_MSG_CREDIT, any).credit.bytes != 0)
        ;
    printf("answered\n");
    fr_write_full(c->to, b.p + b.n / 2, b.n - b.n / 2);
    client_expect(c, FR_MSG_FACTS_ARE, any);
    fr_buf_finish(&b);
}

static void send_one(struct client *c, enum fr_msg_type type, struct fr_id id)
{
    struct fr_msg m = {.type = type};

    if (type == FR_MSG_GO)
        m.go.attempt = id;
    else
        m.ack_end.attempt = id;
    client_send(c, &m);
}

/* Performs one action; returns how many words it had. */
static int act(struct client *c, char **word, struct fr_id *id)
{
    const char *what = word[0], *more = word[1];

    if (strcmp(what, "start") == 0 || strcmp(what, "prepare") == 0) {
        *id = start(c, more, strcmp(what, "start") == 0);
    } else if (strcmp(what, "use") == 0) {
        CHECK(fr_id_parse(fr_str_of(more), id));
        client_join(c, *id);
    } else if (strcmp(what, "log") == 0) {
        client_attach(c, *id, 0);
        client_await_log(c, more);
        printf("log %zu\n", c->log.n);
    } else {
        if (strcmp(what, "state") == 0)
            printf("state %s\n", state_name(client_status(c, *id)));
        else if (strcmp(what, "read") == 0)
            printf("read\n%s\n", c->log.n > 0 ? c->log.p : "");
        else if (strcmp(what, "end") == 0)
            await_end(c, *id);
        else if (strcmp(what, "go") == 0)
            send_one(c, FR_MSG_GO, *id);
        else if (strcmp(what, "ack") == 0)
            send_one(c, FR_MSG_ACK_END, *id);
        else if (strcmp(what, "stop") == 0)
            client_stop(c, *id, 0);
        else if (strcmp(what, "notice") == 0)
            notice = true;
        else if (strcmp(what, "piece") == 0)
            send_pieces(c);
        else if (strcmp(what, "wait") == 0)
            while (!c->closed)
                client_next(c);
        if (strcmp(what, "wait") == 0)
            printf("closed\n");
        return 1;
    }
    return 2;
}

int main(int argc, char **argv)
{
    struct fr_id id = {{0}};
    int command = 2;

    while (command < argc && strcmp(argv[command], "--") != 0)
        command++;
    if (command + 1 >= argc) {
        printf("usage: node_say EPOCH ACTION … -- COMMAND …\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct client_args args = {.epoch = strtoull(argv[1], NULL, 10), .argv = argv + command + 1};
    for (int i = command; i < argc; i++)
        args.relay = args.relay || strcmp(argv[i], "relay") == 0;
    struct client c = client_begin(&args);
    if (!c.closed)
        say_id("hello", c.node.home);
    for (int i = 2; i < command;)
        i += act(&c, argv + i, &id);
    printf("status %d\n", client_close(&c, false));
    return check_counts.failed > 0;
}
