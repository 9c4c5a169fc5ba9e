#include "engine/base/sys.h"
#include "engine/exec/private.h"

enum { LEAVE_PING_MS = 10 /* as long as a place is about to be left */ };

/* A node without commands, logs or transfers is pinged less often. */
static int64_t ping_every(const struct fr_chan *ch)
{
    bool busy = ch->asked.first != NULL || ch->acks.first != NULL || ch->n_followed > 0 ||
                ch->xfers != NULL || ch->n_pipes > 0 || ch->out.n > 0;

    if (ch->leaves)
        return LEAVE_PING_MS;
    return busy ? FR_PING_MS : FR_PING_IDLE_MS;
}

void fr_chan_explain(const struct fr_chan *ch, struct fr_err *err, bool ran)
{
    struct fr_err why = *err;
    struct fr_buf quote = {0};
    bool begun = ch->boot.program != NULL;

    fr_boot_quote(&ch->boot, &quote);
    fr_fail(err, why.rc, "%s%s%s%s", why.msg, quote.n > 0 ? "; it said: " : "",
            quote.n > 0 ? quote.p : "",
            ran && !begun ? " (the user's login shell has to run flowrun's command: it must not be "
                            "nologin, a restricted shell or a forced command, and its startup "
                            "files, like ~/.bashrc, must not exec another program, redirect "
                            "their output (exec 1>&2), read stdin or exit)"
                          : "");
    fr_buf_finish(&quote);
}

bool fr_chan_slow(struct fr_chan *ch, int64_t now)
{
    int64_t limit_ms = ch->node.connect_ms > 0 ? ch->node.connect_ms : FR_SSH_CONNECT_MS;
    struct fr_err err = {0};
    char limit[24];

    if ((!ch->link_up && ch->ask.ops == NULL) || now - ch->received_ms <= limit_ms)
        return false;
    fr_show_duration(limit_ms, limit);
    fr_fail(&err, FR_UNREACHABLE, "%s within %s (connect.timeout)",
            ch->ask.ops != NULL                       ? "no answer from ssh -G"
            : ch->booting && ch->boot.program == NULL ? "no login, or no answer from its shell,"
                                                      : "no answer from flownode",
            limit);
    if (ch->booting && !ch->boot.done)
        fr_chan_explain(ch, &err, ch->link_up);
    fr_chan_lost(ch, &err, false);
    return true;
}

int64_t fr_chan_check_alive(struct fr_chan *ch, int64_t now, bool late)
{
    struct fr_err err = {0};
    int64_t silent_ms, ping_ms;

    if (late && ch->unanswered_ms >= 0)
        ch->unanswered_ms = now;
    if (ch->unanswered_ms >= 0 && now - ch->unanswered_ms >= FR_ANSWER_MS) {
        fr_fail(&err, FR_UNREACHABLE, "no word for %lld s",
                (long long)((now - ch->received_ms) / 1000));
        fr_chan_lost(ch, &err, true);
        return 0;
    }
    if (ch->out.n > 0 && now - ch->written_ms > FR_CHAN_QUIET_MS) { /* out would only grow */
        fr_fail(&err, FR_UNREACHABLE, "it took nothing that was sent for %d s",
                FR_CHAN_QUIET_MS / 1000);
        fr_chan_lost(ch, &err, false);
        return 0;
    }
    if (now - ch->ping_ms >= ping_every(ch)) {
        struct fr_msg m = {.type = FR_MSG_PING, .ping = {now}};

        ch->ping_ms = now;
        if (ch->unanswered_ms < 0)
            ch->unanswered_ms = now;
        fr_chan_put(ch, &m);
        fr_chan_flush(ch);
    }
    ping_ms = ch->ping_ms + ping_every(ch);
    silent_ms = ch->unanswered_ms < 0 ? ping_ms : ch->unanswered_ms + FR_ANSWER_MS;
    return ping_ms < silent_ms ? ping_ms : silent_ms;
}

void fr_chan_queued(struct fr_chan *ch)
{
    int64_t now = fr_sys.mono_ms();
    int64_t due = ch->failed ? now : ch->ping_ms + FR_PING_MS;

    if (!ch->failed && (ch->state != FR_CHAN_UP || ch->due_ms <= due))
        return;
    ch->due_ms = due < now ? now : due;
    fr_loop_arm(ch->ex->loop, ch->timer, ch->due_ms);
}

enum fr_rc fr_chan_pong(struct fr_chan *ch, const struct fr_pong *p, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms(), rtt;
    enum fr_rc rc = fr_chan_time(p->mono_ms, err);

    if (rc == FR_OK && (p->ping_ms < 0 || p->ping_ms > now))
        rc = fr_fail(err, FR_PROTO, "a pong for a ping that was not sent");
    if (rc != FR_OK)
        return rc;
    rtt = now - p->ping_ms;
    /* the shortest round trip measures best; an old measurement slowly loses its weight (drift) */
    if (rtt <= ch->rtt_ms) {
        ch->rtt_ms = rtt;
        ch->offset_ms = p->mono_ms - (p->ping_ms + rtt / 2);
    } else {
        ch->rtt_ms += 1;
    }
    fr_pend_ponged(ch, p->ping_ms);
    return FR_OK;
}
