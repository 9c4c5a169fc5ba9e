#include "engine/exec/link.h"

#include "engine/base/arena.h"
#include "engine/exec/sshconf.h"

#include <string.h>

static const char *const names[] = {"auto", "local", "libssh2", "openssh"};

const char *fr_transport_name(enum fr_transport t)
{
    return names[t];
}

enum fr_rc fr_transport_parse(struct fr_str s, enum fr_transport *out, struct fr_err *err)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fr_str_is(s, names[i])) {
            *out = (enum fr_transport)i;
            return FR_OK;
        }
    return fr_fail(err, FR_USAGE, "transport '%.*s' is none of auto, local, libssh2, openssh",
                   (int)s.n, s.p);
}

enum fr_rc fr_transport_choose(const struct fr_ssh_target *target, enum fr_transport *out,
                               struct fr_buf *why, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_ssh_conf conf;
    enum fr_rc rc = fr_ssh_conf_load(target, &arena, &conf, err);

    if (rc == FR_OK) {
        *out = conf.needs_ssh != NULL ? FR_TRANSPORT_OPENSSH : FR_TRANSPORT_LIBSSH2;
        if (conf.needs_ssh != NULL)
            fr_buf_fmt(why, "by the system's ssh: %s", conf.needs_ssh);
    }
    fr_arena_finish(&arena);
    return rc;
}

void fr_link_quote(struct fr_buf *out, const char *p, size_t n)
{
    while (n > 0) {
        const char *end = memchr(p, '\n', n);
        size_t line = end == NULL ? n : (size_t)(end - p), show = line;

        while (show > 0 && p[show - 1] == '\r')
            show--;
        if (show > 0 && out->n > 0)
            fr_buf_text(out, " | ");
        fr_buf_visible(out, p, show);
        p += line + (end != NULL);
        n -= line + (end != NULL);
    }
}

void fr_link_destroy(struct fr_link *link)
{
    if (link == NULL || link->ops == NULL)
        return;
    link->ops->destroy(link->self);
    *link = (struct fr_link){0};
}
