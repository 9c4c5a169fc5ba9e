/* Handshake, check of the host's key, login: by libssh2's manual pages
 * (https://libssh2.org/docs.html). */
#include "engine/link/ssh.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>

struct key_kind {
    const char *name; /* in a method list */
    int kind, mask;   /* LIBSSH2_HOSTKEY_TYPE_…, LIBSSH2_KNOWNHOST_KEY_… */
};

static const struct key_kind kinds[] = {
    {"ssh-ed25519", LIBSSH2_HOSTKEY_TYPE_ED25519, LIBSSH2_KNOWNHOST_KEY_ED25519},
    {"ecdsa-sha2-nistp256", LIBSSH2_HOSTKEY_TYPE_ECDSA_256, LIBSSH2_KNOWNHOST_KEY_ECDSA_256},
    {"ecdsa-sha2-nistp384", LIBSSH2_HOSTKEY_TYPE_ECDSA_384, LIBSSH2_KNOWNHOST_KEY_ECDSA_384},
    {"ecdsa-sha2-nistp521", LIBSSH2_HOSTKEY_TYPE_ECDSA_521, LIBSSH2_KNOWNHOST_KEY_ECDSA_521},
    {"ssh-rsa", LIBSSH2_HOSTKEY_TYPE_RSA, LIBSSH2_KNOWNHOST_KEY_SSHRSA},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const char *advice_file(const struct fr_ssh *s)
{
    return s->conf->known_hosts[0];
}

/* Whether known_hosts has a key of this kind for the host. A key that cannot match is then reported
 * as wrong, not as unknown. */
static bool has_kind(struct fr_ssh *s, int mask)
{
    struct libssh2_knownhost *found = NULL;
    int rc = libssh2_knownhost_checkp(
        s->known, s->conf->alias, s->conf->port, "AAAA", 4,
        LIBSSH2_KNOWNHOST_TYPE_PLAIN | LIBSSH2_KNOWNHOST_KEYENC_BASE64 | mask, &found);

    return rc == LIBSSH2_KNOWNHOST_CHECK_MISMATCH;
}

/* Asks the server for a kind of key that known_hosts has; otherwise it may present another kind,
 * which is unknown. */
static void prefer_known(struct fr_ssh *s)
{
    struct fr_buf list = {0};

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < N_KINDS; i++)
            if (has_kind(s, kinds[i].mask) == (pass == 0))
                fr_buf_fmt(&list, "%s%s", list.n > 0 ? "," : "", kinds[i].name);
    if (!list.bad)
        libssh2_session_method_pref(s->session, LIBSSH2_METHOD_HOSTKEY, list.p);
    fr_buf_finish(&list);
}

const char *fr_ssh_error_text(struct fr_ssh *s)
{
    char *words = NULL;

    if (s->session != NULL)
        libssh2_session_last_error(s->session, &words, NULL, 0);
    return words != NULL && words[0] != '\0' ? words : "no reason given";
}

static LIBSSH2_ALLOC_FUNC(session_alloc)
{
    (void)abstract;
    return fr_sys.alloc(count);
}

static LIBSSH2_REALLOC_FUNC(session_realloc)
{
    (void)abstract;
    return fr_sys.realloc(ptr, count);
}

static LIBSSH2_FREE_FUNC(session_free)
{
    (void)abstract;
    fr_sys.free(ptr);
}

static enum fr_rc make_session(struct fr_ssh *s, struct fr_err *err)
{
    s->session = libssh2_session_init_ex(session_alloc, session_free, session_realloc, NULL);
    if (s->session == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for an SSH session");
    libssh2_session_set_blocking(s->session, 0);
    s->known = libssh2_knownhost_init(s->session);
    s->revoked = libssh2_knownhost_init(s->session);
    if (s->known == NULL || s->revoked == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for known hosts");
    for (size_t i = 0; i < s->conf->n_known; i++)
        fr_ssh_read_known(s, s->conf->known_hosts[i]);
    prefer_known(s);
    return FR_OK;
}

enum fr_ssh_step fr_ssh_handshake(struct fr_ssh *s, struct fr_err *err)
{
    int rc;

    if (s->session == NULL && make_session(s, err) != FR_OK)
        return FR_SSH_FAILED;
    rc = libssh2_session_handshake(s->session, s->fd);
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return FR_SSH_AGAIN;
    if (rc == 0)
        return FR_SSH_DONE;
    if (rc == LIBSSH2_ERROR_KEX_FAILURE || rc == LIBSSH2_ERROR_METHOD_NONE)
        return fr_ssh_failed(fr_fail(
            err, FR_UNSUPPORTED,
            "%s and libssh2 have no algorithm in common (%s), as with a host that has only an RSA "
            "key: set transport: openssh for this node",
            s->conf->host, fr_ssh_error_text(s)));
    return fr_ssh_failed(fr_fail(err, FR_UNREACHABLE, "the SSH handshake with %s failed: %s",
                                 s->conf->host, fr_ssh_error_text(s)));
}

/* "SHA256:…" as ssh-keygen -l shows it. */
static void fingerprint(struct fr_ssh *s, char out[64])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *raw = libssh2_hostkey_hash(s->session, LIBSSH2_HOSTKEY_HASH_SHA256);
    size_t n = 0;

    for (size_t i = 0; raw != NULL && i < 32; i += 3) {
        uint32_t v = (uint32_t)(uint8_t)raw[i] << 16;

        if (i + 1 < 32)
            v |= (uint32_t)(uint8_t)raw[i + 1] << 8;
        if (i + 2 < 32)
            v |= (uint8_t)raw[i + 2];
        for (size_t k = 0; k < 4 && n < 43; k++)
            out[n++] = digits[v >> (18 - 6 * k) & 63];
    }
    out[n] = '\0';
}

static const struct key_kind *find_kind(int kind)
{
    static const struct key_kind unknown = {"unknown", 0, LIBSSH2_KNOWNHOST_KEY_UNKNOWN};
    size_t i = 0;

    while (i < N_KINDS && kinds[i].kind != kind)
        i++;
    return i < N_KINDS ? &kinds[i] : &unknown;
}

static void refuse_key(struct fr_ssh *s, int found, int kind, struct fr_err *err)
{
    const char *name = s->conf->name;
    char print[64];

    fingerprint(s, print);
    if (found == LIBSSH2_KNOWNHOST_CHECK_MISMATCH)
        fr_fail(err, FR_CORRUPT,
                "the host key of %s is not the one in %s: somebody may be in between (%s "
                "SHA256:%s). If "
                "the change was meant: ssh-keygen -R '%s' -f %s, then add the new key",
                name, advice_file(s), find_kind(kind)->name, print, name, advice_file(s));
    else
        fr_fail(err, FR_DENIED,
                "the host key of %s is not in %s (%s SHA256:%s). After checking it, add it: "
                "ssh-keyscan -p %d %s >> %s",
                name, advice_file(s), find_kind(kind)->name, print, s->conf->port, s->conf->host,
                advice_file(s));
}

enum fr_ssh_step fr_ssh_host_key(struct fr_ssh *s, struct fr_err *err)
{
    size_t n = 0;
    int kind = 0, found, mask;
    const char *key = libssh2_session_hostkey(s->session, &n, &kind);
    struct libssh2_knownhost *entry = NULL;

    if (key == NULL)
        return fr_ssh_failed(fr_fail(err, FR_PROTO, "%s showed no host key", s->conf->host));
    mask = LIBSSH2_KNOWNHOST_TYPE_PLAIN | LIBSSH2_KNOWNHOST_KEYENC_RAW | find_kind(kind)->mask;
    if (libssh2_knownhost_checkp(s->revoked, s->conf->alias, s->conf->port, key, n, mask, &entry) ==
        LIBSSH2_KNOWNHOST_CHECK_MATCH)
        return fr_ssh_failed(fr_fail(err, FR_CORRUPT,
                                     "the host key of %s is marked revoked in known_hosts",
                                     s->conf->alias));
    found = libssh2_knownhost_checkp(s->known, s->conf->alias, s->conf->port, key, n, mask, &entry);
    if (found == LIBSSH2_KNOWNHOST_CHECK_MATCH)
        return FR_SSH_DONE;
    for (size_t i = 0; found == LIBSSH2_KNOWNHOST_CHECK_NOTFOUND && i < N_KINDS; i++)
        if (has_kind(
                s, kinds[i].mask)) /* known by another kind of key: as suspicious as a wrong one */
            found = LIBSSH2_KNOWNHOST_CHECK_MISMATCH;
    refuse_key(s, found, kind, err);
    return FR_SSH_FAILED;
}

void fr_ssh_offered(struct fr_ssh *s, const char *what, const char *reason)
{
    fr_buf_fmt(&s->offered, "%s%s%s%s%s", s->offered.n > 0 ? ", " : "", what,
               reason[0] != '\0' ? " (" : "", reason, reason[0] != '\0' ? ")" : "");
}

static enum fr_ssh_step try_files(struct fr_ssh *s)
{
    while (s->key < s->conf->n_keys) {
        const char *path = s->conf->keys[s->key];
        const char *type = fr_ssh_key_type(path, &s->arena), *fault = fr_ssh_key_fault(path);
        int rc;

        if (type == NULL || fault != NULL) {
            fr_ssh_offered(s, path, fault != NULL ? fault : "cannot be read");
            s->key++;
            continue;
        }
        rc = libssh2_userauth_publickey_fromfile(s->session, s->conf->user, NULL, path, NULL);
        if (rc == LIBSSH2_ERROR_EAGAIN)
            return FR_SSH_AGAIN;
        if (rc == 0)
            return FR_SSH_DONE;
        s->key++;
        if (strcmp(type, "ssh-rsa") == 0)
            fr_ssh_offered(s, path, "RSA keys need transport: openssh");
        else if (rc == LIBSSH2_ERROR_FILE)
            fr_ssh_offered(s, path, "unreadable, or it needs a passphrase: ssh-add it");
        else
            fr_ssh_offered(s, path, "");
        if (rc == LIBSSH2_ERROR_SOCKET_DISCONNECT || rc == LIBSSH2_ERROR_SOCKET_SEND ||
            rc == LIBSSH2_ERROR_SOCKET_RECV)
            return FR_SSH_FAILED;
    }
    return FR_SSH_FAILED;
}

enum fr_ssh_step fr_ssh_login(struct fr_ssh *s, struct fr_err *err)
{
    enum fr_ssh_step step;

    if (!s->listed) {
        const char *methods =
            libssh2_userauth_list(s->session, s->conf->user, (unsigned)strlen(s->conf->user));

        if (methods == NULL && libssh2_session_last_errno(s->session) == LIBSSH2_ERROR_EAGAIN)
            return FR_SSH_AGAIN;
        if (methods == NULL && libssh2_userauth_authenticated(s->session))
            return FR_SSH_DONE; /* the server wants no proof */
        if (methods == NULL)
            return fr_ssh_failed(fr_fail(err, FR_UNREACHABLE, "%s ended the login of '%s': %s",
                                         s->conf->host, s->conf->user, fr_ssh_error_text(s)));
        s->listed = true;
    }
    step = s->key < s->conf->n_keys ? try_files(s) : FR_SSH_FAILED;
    if (step == FR_SSH_FAILED && s->key >= s->conf->n_keys)
        step = fr_ssh_agent(s);
    if (step == FR_SSH_FAILED && fr_ssh_hung_up(s))
        fr_fail(err, FR_UNREACHABLE, "%s hung up during the login of '%s'; keys tried: %s",
                s->conf->host, s->conf->user, s->offered.n > 0 ? s->offered.p : "none");
    else if (step == FR_SSH_FAILED)
        fr_fail(err, FR_DENIED, "%s refused user '%s'; keys tried: %s", s->conf->host,
                s->conf->user,
                s->offered.n > 0 ? s->offered.p : "none (no key file found, no agent)");
    return step;
}

void fr_ssh_login_finish(struct fr_ssh *s)
{
    fr_ssh_agent_finish(s);
    if (s->known != NULL)
        libssh2_knownhost_free(s->known);
    if (s->revoked != NULL)
        libssh2_knownhost_free(s->revoked);
    s->known = s->revoked = NULL;
    s->listed = false;
    s->key = 0;
    fr_buf_finish(&s->offered);
    s->offered = (struct fr_buf){0};
}
