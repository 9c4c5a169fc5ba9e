#include "engine/ship/ship.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/link/link.h"
#include "engine/wire/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define MACHINE_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

enum {
    PROGRAM_MAX = 256 << 20,
    KINDS_MAX = 4,
    LINE_MAX_BYTES = 4096,
    QUOTE_MAX = 600,
    NOTE_MAX = 400
};

struct fr_ship_program {
    char machine[32];
    char sha256[FR_SHA256_TEXT];
    struct fr_buf bytes;
};

struct fr_ship {
    char *dir;
    char own[32]; /* machine type of control */
    struct fr_ship_program programs[KINDS_MAX];
    size_t n;
};

/*
 * The node's side of the dialogue, one line for the `read` of START. No single quote stands in it.
 * Before it stand W (the work folder, or nothing), h and o (names of the home, see
 * fr_boot_folders), H and N (SHA-256 and size of flownode).
 *
 * mine DIR   goes to DIR and holds if nobody but this user and root can write there
 * place DIR  the same, and makes DIR first. In a DIR that others can write it goes to
 *            DIR/flowrun-UID instead. E says why it fails
 * good FILE  holds for a program of this user or of root that nobody else can write, whose SHA-256
 *            is H, and which can be executed here
 *
 * All that is checked, written and executed is below the current folder: whoever renames a folder
 * above it changes nothing. What tasks make has the modes that their user's shell gives it, as on
 * this machine; what flownode makes is 0600 and 0700.
 */
static const char START[] =
    "exec /bin/sh -c 'echo; echo \"FLOWBOOT uname $(uname -sm)\"; IFS= read -r s && eval \"$s\"'";

static const char SCRIPT[] =
    "U=$(umask); umask 077; u=$(id -u); C=${XDG_CACHE_HOME:-$HOME/.cache}/flowrun; "
    "S=${XDG_STATE_HOME:-$HOME/.local/state}/flowrun; V=/var/tmp/flowrun-$u; "
    "case $W in \"~\") W=$HOME;; \"~/\"*) W=$HOME/${W#??};; /*|\"\") ;; *) W=$HOME/$W;; esac; "
    "say() { echo \"FLOWBOOT $*\"; }; no() { say refused \"$*\"; exit 1; }; "
    "closed() { case $1 in ?????w*|????????w*) return 1;; esac; [ \"$3\" = \"$u\" ] || [ \"$3\" = "
    "0 ]; }; "
    "mine() { cd -P \"$1\" 2>/dev/null && closed $(ls -ldn .); }; "
    "place() { E=$(mkdir -p \"$1\" 2>&1); mine \"$1\" && [ -w . ] && return; [ -d \"$1\" ] || "
    "return; "
    "P=$1/flowrun-$u; E=$(mkdir \"$P\" 2>&1); [ ! -L \"$P\" ] && mine \"$P\" && [ -w . ] && "
    "return; "
    "[ ! -e \"$P\" ] || E=\"others can write to $P, or it is not a folder of this user\"; return "
    "1; }; "
    "sum() { G=$(sha256sum <\"$1\"); G=${G%% *}; [ \"$G\" = \"$H\" ]; }; "
    "good() { [ -f \"$1\" ] && [ ! -L \"$1\" ] && closed $(ls -ldn \"$1\") && sum \"$1\" && "
    "\"$1\" version >/dev/null 2>&1; }; "
    "go() { say run \"$PWD/$F\"; umask \"$U\"; exec \"$F\" serve --home \"$K\"; }; "
    "if [ -n \"$W\" ]; then place \"$W\" || no \"the work folder $W cannot be used: $E\"; B=$PWD; "
    "else B=; place \"$S\" || { R=$E; place \"$V\" || no \"no folder for flownode: $R; $E\"; "
    "say note \"flownode works in $PWD: $R\"; }; fi; "
    "K=$PWD/$h-$(uname -n); if [ -d \"$PWD/$o\" ]; then "
    "[ -e \"$K\" ] || ln -s \"$o\" \"$K\" 2>/dev/null; K=$PWD/$o; fi; "
    "E=$(mkdir -p \"$K\" 2>&1) || no \"the work folder $PWD cannot be used: $E\"; "
    "K=$(cd -P \"$K\" && pwd -P) || no \"the home $K cannot be used\"; "
    "F=./flownode-$H; for D in \"$B\" \"$C\" \"$C/flowrun-$u\" \"$V\"; do "
    "[ -n \"$D\" ] && mine \"$D\" && good \"$F\" && go; done; "
    "T=./.flownode-$$; R=; for D in \"$B\" \"$C\" \"$V\"; do [ -n \"$D\" ] || continue; "
    "place \"$D\" || { R=\"$R $D: $E;\"; continue; }; "
    "if printf \"#!/bin/sh\\nexit 7\\n\" 2>/dev/null >\"$T\" && chmod 700 \"$T\"; then "
    "\"$T\" 2>/dev/null; [ $? = 7 ] && break; R=\"$R $D: mounted noexec;\"; "
    "else R=\"$R $D: cannot be written;\"; fi; rm -f \"$T\"; done; "
    "[ -e \"$T\" ] || no \"no folder for flownode:$R\"; "
    "[ -z \"$R\" ] || say note \"flownode goes to $PWD:$R\"; "
    "say need \"$PWD/$F\"; head -c \"$N\" >\"$T\"; L=$(wc -c <\"$T\"); "
    "if sum \"$T\" && chmod 755 \"$T\" && mv -f \"$T\" \"$F\"; then go; fi; "
    "rm -f \"$T\"; no \"$PWD: flownode arrived with\" $L \"of $N bytes\"";

static void add_quoted(struct fr_buf *out, const char *name, const char *s)
{
    fr_buf_fmt(out, "%s='", name);
    for (; *s != '\0'; s++) {
        if (*s == '\'')
            fr_buf_text(out, "'\\''");
        else
            fr_buf_add(out, s, 1);
    }
    fr_buf_text(out, "'; ");
}

const char *fr_boot_command(void)
{
    return START;
}

enum fr_rc fr_boot_folders(const struct fr_boot_home *at, struct fr_buf *out, struct fr_err *err)
{
    const char *work = at->work;

    if (work != NULL && strchr(work, '\n') != NULL)
        return fr_fail(err, FR_USAGE, "the name of the work folder holds a newline");
    add_quoted(out, "W", work == NULL ? "" : work);
    add_quoted(out, "h", at->name);
    add_quoted(out, "o", at->old);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a command") : FR_OK;
}

static char *path_in(const char *dir, const char *name, const char *kind)
{
    struct fr_buf b = {0};

    fr_buf_fmt(&b, "%s/%s%s%s", dir, name, kind[0] != '\0' ? "-" : "", kind);
    return b.bad ? NULL : b.p;
}

enum fr_rc fr_ship_create(struct fr_ship **out, const char *dir, struct fr_err *err)
{
    struct fr_ship *s = fr_sys.alloc(sizeof(*s));
    struct utsname u;
    struct fr_buf b = {0};

    *out = NULL;
    fr_buf_text(&b, dir);
    if (s == NULL || b.bad) {
        fr_sys.free(s);
        fr_buf_finish(&b);
        return fr_fail(err, FR_NOMEM, "no memory for shipping");
    }
    *s = (struct fr_ship){.dir = b.p};
    if (uname(&u) == 0 && strlen(u.machine) < sizeof(s->own))
        memcpy(s->own, u.machine, strlen(u.machine) + 1);
    *out = s;
    return FR_OK;
}

void fr_ship_destroy(struct fr_ship *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n; i++)
        fr_buf_finish(&s->programs[i].bytes);
    fr_sys.free(s->dir);
    fr_sys.free(s);
}

static enum fr_rc load(struct fr_ship *s, const char *machine, struct fr_ship_program **out,
                       struct fr_err *err)
{
    struct fr_ship_program *p = &s->programs[s->n];
    enum fr_rc rc = FR_OK;
    char *path;

    if (s->n == KINDS_MAX)
        return fr_fail(err, FR_UNSUPPORTED, "more than %d machine types", KINDS_MAX);
    *p = (struct fr_ship_program){0};
    path = path_in(s->dir, "flownode", strcmp(machine, s->own) == 0 ? "" : machine);
    if (path == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for flownode");
    else
        rc = fr_file_read(path, PROGRAM_MAX, &p->bytes, err);
    if (rc == FR_NOTFOUND)
        fr_fail(err, FR_UNSUPPORTED,
                "no flownode for machine type %s: build it for that and put it at %s", machine,
                path);
    if (rc == FR_OK) {
        memcpy(p->machine, machine, strlen(machine) + 1);
        fr_sha256(p->bytes.p, p->bytes.n, p->sha256);
        s->n++;
        *out = p;
    } else {
        fr_buf_finish(&p->bytes);
    }
    fr_sys.free(path);
    return rc == FR_NOTFOUND ? FR_UNSUPPORTED : rc;
}

static enum fr_rc program_for(struct fr_ship *s, const char *machine,
                              const struct fr_ship_program **out, struct fr_err *err)
{
    struct fr_ship_program *p = NULL;
    enum fr_rc rc;

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->programs[i].machine, machine) == 0) {
            *out = &s->programs[i];
            return FR_OK;
        }
    rc = load(s, machine, &p, err);
    *out = p;
    return rc;
}

static enum fr_rc on_uname(struct fr_boot *b, struct fr_ship *s, const char *rest,
                           struct fr_err *err)
{
    char system[32] = "", machine[32] = "";
    enum fr_rc rc;

    if (sscanf(rest, "%31s %31s", system, machine) != 2 || strcmp(system, "Linux") != 0 ||
        machine[strspn(machine, MACHINE_CHARS)] != '\0') /* it becomes part of a file's name */
        return fr_fail(err, FR_UNSUPPORTED, "the node runs '%s', flownode runs on Linux", rest);
    if ((rc = program_for(s, machine, &b->program, err)) != FR_OK)
        return rc;
    fr_buf_add(&b->reply, b->folders.p, b->folders.n);
    fr_buf_fmt(&b->reply, "H=%s; N=%zu; %s\n", b->program->sha256, b->program->bytes.n, SCRIPT);
    if (b->reply.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a reply");
    b->rest = (struct fr_str){b->reply.p, b->reply.n};
    return FR_OK;
}

static void remember(struct fr_boot *b, const char *p, size_t n)
{
    b->noise += n;
    if (b->seen.n + n > QUOTE_MAX)
        n = b->seen.n < QUOTE_MAX ? QUOTE_MAX - b->seen.n : 0;
    fr_buf_add(&b->seen, p, n);
}

static enum fr_rc add_note(struct fr_boot *b, struct fr_err *err, const char *fmt, const char *text)
{
    struct fr_buf plain = {0};

    fr_buf_visible(&plain, text, strnlen(text, NOTE_MAX));
    fr_buf_text(&b->note, b->note.n > 0 ? "; " : "");
    fr_buf_fmt(&b->note, fmt, plain.p != NULL ? plain.p : "");
    b->note.bad = b->note.bad || plain.bad;
    fr_buf_finish(&plain);
    return b->note.bad ? fr_fail(err, FR_NOMEM, "no memory for a note") : FR_OK;
}

static enum fr_rc on_line(struct fr_boot *b, struct fr_ship *s, const char *line, size_t n,
                          struct fr_err *err)
{
    char size[24];

    if (fr_has_prefix(line, "FLOWBOOT uname ") && b->program == NULL)
        return on_uname(b, s, line + 15, err);
    if (fr_has_prefix(line, "FLOWBOOT need ") && b->program != NULL) {
        if (b->asked)
            return fr_fail(err, FR_PROTO, "the node asks for flownode a second time");
        b->asked = true;
        b->rest = (struct fr_str){b->program->bytes.p, b->program->bytes.n};
        fr_show_size((int64_t)b->rest.n, size);
        return add_note(b, err, "installing flownode (%s)", size);
    }
    if (fr_has_prefix(line, "FLOWBOOT note ") && b->program != NULL && b->note.n < NOTE_MAX) {
        b->noise += n;
        return add_note(b, err, "%s", line + 14);
    }
    if (fr_has_prefix(line, "FLOWBOOT run ") && b->program != NULL) {
        b->done = true;
        return FR_OK;
    }
    if (fr_has_prefix(line, "FLOWBOOT refused ")) {
        enum fr_rc rc = strstr(line, "arrived with") != NULL ? FR_FULL : FR_DENIED;

        return fr_fail(err, rc, "%s", line[17] != '\0' ? line + 17 : "refused, without a reason");
    }
    remember(b, line, n);
    remember(b, "\n", 1);
    if (b->noise > FR_PREAMBLE_MAX)
        return fr_fail(err, FR_PROTO, "more than %d bytes before flownode begins", FR_PREAMBLE_MAX);
    return FR_OK;
}

enum fr_rc fr_boot_feed(struct fr_boot *b, struct fr_ship *s, struct fr_str bytes, size_t *used,
                        struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    struct fr_buf said = {0};

    for (*used = 0; *used < bytes.n && !b->done && rc == FR_OK;) {
        const char *p = bytes.p + *used;
        const char *end = memchr(p, '\n', bytes.n - *used);
        size_t n = end == NULL ? bytes.n - *used : (size_t)(end - p);

        fr_buf_add(&b->line, p, n);
        *used += n + (end != NULL);
        if (b->line.bad)
            return fr_fail(err, FR_NOMEM, "no memory for what the node says");
        if (end == NULL && b->line.n < LINE_MAX_BYTES)
            continue;
        if (b->line.n > 0) {
            rc = on_line(b, s, b->line.p, b->line.n, err);
            b->line.n = 0;
        }
    }
    if (rc != FR_OK && b->seen.n > 0) {
        struct fr_err why = *err;

        fr_boot_quote(b, &said);
        fr_fail(err, rc, "%s (before that it said: %s)", why.msg, said.n > 0 ? said.p : "");
        fr_buf_finish(&said);
    }
    return rc;
}

void fr_boot_quote(const struct fr_boot *b, struct fr_buf *out)
{
    fr_link_quote(out, b->seen.p, b->seen.n);
    fr_link_quote(out, b->line.p, b->line.n);
}

void fr_boot_finish(struct fr_boot *b)
{
    fr_buf_finish(&b->line);
    fr_buf_finish(&b->seen);
    fr_buf_finish(&b->reply);
    fr_buf_finish(&b->note);
    *b = (struct fr_boot){0};
}
