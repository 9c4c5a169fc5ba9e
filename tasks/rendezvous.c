#include "tasks/rendezvous.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { JOIN_MS = 60000, ANSWER_MS = 60000, PINGS = 5, TRY_MS = 3000 };

enum fr_rc fr_rendezvous_init(struct fr_job *job, struct fr_rendezvous *m, struct fr_err *err)
{
    *m = (struct fr_rendezvous){.job = job, .listener = -1};
    m->nodes = fr_env_int("NNODES", 1);
    m->rank = fr_env_int("NODE_RANK", 0);
    m->head_addr = fr_env("MASTER_ADDR", NULL);
    m->head_port = fr_env_int("MASTER_PORT", 0);
    int64_t first = fr_input_int(job, "port", 39500), n = fr_input_int(job, "ports", 32);
    if (m->nodes < 1 || m->rank < 0 || m->rank >= m->nodes)
        return fr_fail(err, FR_USAGE, "NODE_RANK %lld of NNODES %lld: no such node",
                       (long long)m->rank, (long long)m->nodes);
    if (m->nodes > 1 && (m->head_addr == NULL || m->head_port < 1 || m->head_port > 65535))
        return fr_fail(err, FR_USAGE,
                       "MASTER_ADDR and MASTER_PORT are not set: several nodes are "
                       "compared only with `gang: true`");
    if (n < 0 || n > FR_PORTS_MAX || first < 1 || first > 65536 - n)
        return fr_fail(err, FR_USAGE, "ports %lld to +%lld: expected at most %d, up to 65535",
                       (long long)first, (long long)n, FR_PORTS_MAX);
    m->ports.first = first;
    m->ports.n = n;
    for (int i = 0; i < FR_PORTS_MAX; i++)
        m->ports.fds[i] = -1;
    m->members = fr_arena_array(&job->arena, (size_t)m->nodes, sizeof(*m->members));
    if (m->members == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %lld nodes", (long long)m->nodes);
    for (int64_t i = 0; i < m->nodes; i++)
        m->members[i].line.fd = -1;
    return FR_OK;
}

void fr_rendezvous_finish(struct fr_rendezvous *m)
{
    for (int64_t i = 0; m->members != NULL && i < m->nodes; i++) {
        fr_netline_close(&m->members[i].line);
        json_decref(m->members[i].facts);
    }
    fr_ports_close(&m->ports);
    if (m->listener >= 0)
        close(m->listener);
    m->listener = -1;
    json_decref(m->peers);
}

/* Sends value (taken over) and may get an answer. */
static enum fr_rc say(struct fr_netline *line, json_t *value, json_t **answer, struct fr_err *err)
{
    int64_t until = fr_sys.mono_ms() + ANSWER_MS;
    enum fr_rc rc = value != NULL ? fr_netline_send(line, value, until, err)
                                  : fr_fail(err, FR_NOMEM, "no memory for a message");

    json_decref(value);
    if (rc == FR_OK && answer != NULL)
        rc = fr_netline_get(line, until, answer, err);
    return rc;
}

/* ---- ports ---- */

static const json_t *peer(const struct fr_rendezvous *m, int64_t rank)
{
    return json_array_get(m->peers, (size_t)rank);
}

/* The first member on the same machine holds the ports for all there. */
static bool first_of_machine(const struct fr_rendezvous *m, int64_t rank)
{
    for (int64_t i = 0; i < rank; i++)
        if (strcmp(fr_text_at(peer(m, i), "machine"), fr_text_at(peer(m, rank), "machine")) == 0)
            return false;
    return true;
}

static bool same_machine(const struct fr_rendezvous *m)
{
    for (int64_t i = 1; i < m->nodes; i++)
        if (first_of_machine(m, i))
            return false;
    return true;
}

/* With all nodes on one machine each run picks ports that are free, so none has to be. */
static void hold_ports(struct fr_rendezvous *m, json_t *facts)
{
    if (m->ports.n == 0)
        return;
    if (same_machine(m)) {
        fr_note(m->job, "notes",
                "all nodes are one machine: ports are chosen at each start, none is "
                "tried");
        m->ports.n = 0;
    } else if (first_of_machine(m, m->rank)) {
        fr_ports_open(&m->ports, m->rank == 0 ? m->head_port : 0,
                      json_object_get(facts, "problems"));
    }
}

static void try_ports(struct fr_rendezvous *m, json_t *facts)
{
    for (int64_t i = 0; i < m->nodes; i++)
        if (m->ports.n > 0 && first_of_machine(m, i) &&
            strcmp(fr_text_at(peer(m, i), "machine"), fr_text_at(peer(m, m->rank), "machine")) != 0)
            fr_ports_try(&m->ports, fr_text_at(peer(m, i), "address"),
                         fr_text_at(peer(m, i), "name"), TRY_MS,
                         json_object_get(facts, "problems"));
}

/* ---- the head ---- */

/* Takes one connection in; others than members of this run are dropped. */
static enum fr_rc take_in(struct fr_rendezvous *m, int fd, const struct sockaddr_storage *from,
                          struct fr_err *err)
{
    struct fr_netline line = {.fd = fd};
    json_t *hello = NULL;
    int64_t rank = 0;
    enum fr_rc rc = fr_netline_get(&line, fr_sys.mono_ms() + 5000, &hello, NULL);

    if (rc == FR_OK && strcmp(fr_text_at(hello, "run"), fr_env("FLOWRUN_RUN", "")) == 0 &&
        json_integer_value(json_object_get(hello, "generation")) ==
            fr_env_int("FLOWRUN_GENERATION", 0))
        rank = json_integer_value(json_object_get(hello, "rank"));
    if (rank <= 0 || rank >= m->nodes || !json_is_object(json_object_get(hello, "facts"))) {
        fr_netline_close(&line);
        json_decref(hello);
        return FR_OK;
    }
    if (m->members[rank].facts != NULL) {
        fr_netline_close(&line);
        json_decref(hello);
        return fr_fail(err, FR_PROTO, "two nodes say they are rank %lld", (long long)rank);
    }
    m->members[rank].line = line;
    m->members[rank].facts = json_incref(json_object_get(hello, "facts"));
    fr_net_show(from, m->members[rank].address);
    json_decref(hello);
    return FR_OK;
}

static enum fr_rc gather(struct fr_rendezvous *m, struct fr_err *err)
{
    int64_t until = fr_sys.mono_ms() + JOIN_MS, missing = m->nodes - 1;
    enum fr_rc rc = fr_net_listen(m->head_port, &m->listener, err);

    while (rc == FR_OK && missing > 0) {
        struct pollfd p = {.fd = m->listener, .events = POLLIN};
        struct sockaddr_storage from;
        socklen_t n = sizeof(from);
        int64_t left = until - fr_sys.mono_ms();
        if (left <= 0)
            break;
        if (fr_sys.poll(&p, 1, (int)left) <= 0)
            continue;
        int fd = accept4(m->listener, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            rc = take_in(m, fd, &from, err);
        missing = 0;
        for (int64_t i = 1; i < m->nodes; i++)
            missing += m->members[i].facts == NULL;
    }
    for (int64_t i = 1; rc == FR_OK && i < m->nodes; i++)
        if (m->members[i].facts == NULL)
            rc = fr_fail(
                err, FR_UNREACHABLE, "node %s did not reach the head at %s port %lld in %d s",
                fr_peer_name(m->job, i), m->head_addr, (long long)m->head_port, JOIN_MS / 1000);
    return rc;
}

/* The fastest of several rounds bounds the error best (Cristian 1989). */
static enum fr_rc measure_clock(struct fr_member *who, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    who->rtt_ms = 1e9;
    for (int i = 0; rc == FR_OK && i < PINGS; i++) {
        int64_t mono = fr_sys.mono_ms(), wall = fr_sys.wall_ms();
        json_t *answer = NULL;
        rc = say(&who->line, json_pack("{s:i}", "ping", i), &answer, err);
        double rtt = (double)(fr_sys.mono_ms() - mono);
        if (rc == FR_OK && rtt < who->rtt_ms) {
            who->rtt_ms = rtt;
            who->skew_ms =
                (double)(json_integer_value(json_object_get(answer, "wall")) - wall) - rtt / 2;
        }
        json_decref(answer);
    }
    return rc;
}

static enum fr_rc tell_peers(struct fr_rendezvous *m, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    m->peers = json_array();
    for (int64_t i = 0; i < m->nodes; i++)
        json_array_append_new(m->peers, json_pack("{s:s, s:s, s:s}", "name",
                                                  fr_text_at(m->members[i].facts, "name"),
                                                  "address", m->members[i].address, "machine",
                                                  fr_text_at(m->members[i].facts, "machine")));
    hold_ports(m, m->members[0].facts);
    for (int64_t i = 1; rc == FR_OK && i < m->nodes; i++)
        rc = say(&m->members[i].line, json_pack("{s:O}", "peers", m->peers), NULL, err);
    return rc;
}

/* Receives one message of each member; with facts, it replaces the member's facts. */
static enum fr_rc hear_all(struct fr_rendezvous *m, bool facts, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t i = 1; rc == FR_OK && i < m->nodes; i++) {
        json_t *said = NULL;
        rc = fr_netline_get(&m->members[i].line, fr_sys.mono_ms() + ANSWER_MS, &said, err);
        if (rc == FR_OK && facts && json_is_object(json_object_get(said, "facts"))) {
            json_decref(m->members[i].facts);
            m->members[i].facts = json_incref(json_object_get(said, "facts"));
        }
        json_decref(said);
        if (rc != FR_OK)
            fr_while(err, "node %s", fr_peer_name(m->job, i));
    }
    return rc;
}

static enum fr_rc run_head(struct fr_rendezvous *m, struct fr_err *err)
{
    enum fr_rc rc = gather(m, err);

    snprintf(m->members[0].address, sizeof(m->members[0].address), "%s", m->head_addr);
    for (int64_t i = 1; rc == FR_OK && i < m->nodes; i++)
        if ((rc = measure_clock(&m->members[i], err)) != FR_OK)
            fr_while(err, "node %s", fr_peer_name(m->job, i));
    if (rc == FR_OK)
        rc = tell_peers(m, err);
    if (rc == FR_OK)
        rc = hear_all(m, false, err);
    for (int64_t i = 1; rc == FR_OK && i < m->nodes; i++)
        rc = say(&m->members[i].line, json_pack("{s:b}", "go", 1), NULL, err);
    if (rc != FR_OK)
        return rc;
    try_ports(m, m->members[0].facts);
    return hear_all(m, true, err);
}

/* ---- the others ---- */

static enum fr_rc run_member(struct fr_rendezvous *m, struct fr_err *err)
{
    struct fr_member *me = &m->members[0];
    struct sockaddr_storage head;
    json_t *said = NULL;
    enum fr_rc rc = fr_net_address(m->head_addr, m->head_port, &head, err);

    if (rc == FR_OK)
        rc = fr_net_connect(&head, fr_sys.mono_ms() + JOIN_MS, &me->line.fd, err);
    if (rc == FR_OK)
        rc = say(&me->line,
                 json_pack("{s:s, s:I, s:I, s:O}", "run", fr_env("FLOWRUN_RUN", ""), "generation",
                           (json_int_t)fr_env_int("FLOWRUN_GENERATION", 0), "rank",
                           (json_int_t)m->rank, "facts", me->facts),
                 &said, err);
    while (rc == FR_OK && json_object_get(said, "ping") != NULL) {
        json_decref(said);
        said = NULL;
        rc = say(&me->line, json_pack("{s:I}", "wall", (json_int_t)fr_sys.wall_ms()), &said, err);
    }
    m->peers = json_incref(json_object_get(said, "peers"));
    json_decref(said);
    said = NULL;
    if (rc == FR_OK && json_array_size(m->peers) != (size_t)m->nodes)
        rc = fr_fail(err, FR_PROTO, "the head names %zu nodes, not %lld", json_array_size(m->peers),
                     (long long)m->nodes);
    if (rc == FR_OK) {
        hold_ports(m, me->facts);
        rc = say(&me->line, json_pack("{s:b}", "bound", 1), &said, err);
    }
    json_decref(said);
    if (rc == FR_OK) {
        try_ports(m, me->facts);
        rc = say(&me->line, json_pack("{s:O}", "facts", me->facts), NULL, err);
    }
    return rc == FR_OK ? FR_OK : fr_while(err, "the head %s", m->head_addr);
}

enum fr_rc fr_rendezvous_run(struct fr_rendezvous *m, json_t *own, struct fr_err *err)
{
    m->members[0].facts = own;
    if (m->nodes == 1) {
        if (m->ports.n > 0 && strcmp(fr_env("FLOWRUN_EXECUTOR", ""), "local") != 0)
            fr_ports_open(&m->ports, 0, json_object_get(own, "problems"));
        return FR_OK;
    }
    return m->rank == 0 ? run_head(m, err) : run_member(m, err);
}

enum fr_rc fr_rendezvous_end(struct fr_rendezvous *m, bool ok, const char *text, struct fr_err *err)
{
    json_t *said = NULL;
    enum fr_rc rc = FR_OK;

    if (m->rank == 0) {
        for (int64_t i = 1; i < m->nodes; i++)
            (void)say(&m->members[i].line, json_pack("{s:b, s:s}", "ok", ok, "text", text), NULL,
                      NULL);
        return ok ? FR_OK : fr_fail(err, FR_PEER, "%s", text);
    }
    rc = fr_netline_get(&m->members[0].line, fr_sys.mono_ms() + ANSWER_MS, &said, err);
    if (rc == FR_OK && !json_is_true(json_object_get(said, "ok")))
        rc = fr_fail(err, FR_PEER, "%s", fr_text_at(said, "text"));
    json_decref(said);
    return rc;
}
