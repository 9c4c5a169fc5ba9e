/* What SSH needs read: what `ssh -G` prints, known_hosts, and what a login shell says first. */
#include "tests/fuzz/fuzz.h"

#include "engine/base/file.h"
#include "engine/ship/ship.h"
#include "engine/link/ssh.h"

#include <stdio.h>
#include <string.h>

void fuzz_ssh_config(struct fr_str in)
{
    struct fr_ssh_target target = {.host = "node-7"};
    struct fr_ssh_answer answer = {in, FR_STR("port 22\nsendenv LANG\n")};
    struct fr_arena arena = {0};
    struct fr_ssh_conf conf;
    struct fr_err err = {0};
    enum fr_rc rc = fr_ssh_conf_load(&target, &answer, &arena, &conf, &err);

    fuzz_want_err(rc, &err);
    if (rc == FR_OK) {
        fuzz_want(conf.host != NULL && conf.user != NULL && conf.alias != NULL, "a host and user");
        fuzz_want(conf.port >= 1 && conf.port <= 65535, "a port");
        fuzz_want(conf.n_keys <= FR_SSH_KEYS_MAX && conf.n_known <= 8, "not too many files");
    }
    fr_arena_finish(&arena);
}

void fuzz_known_hosts(struct fr_str in)
{
    struct fr_ssh_conf conf = {.alias = "node-7", .name = "[node-7]:2222", .port = 2222};
    struct fr_ssh s = {.conf = &conf};
    struct libssh2_knownhost *entry = NULL;

    s.session = libssh2_session_init();
    s.known = libssh2_knownhost_init(s.session);
    s.revoked = libssh2_knownhost_init(s.session);
    fr_ssh_read_known(&s, fuzz_path(in));
    int found = libssh2_knownhost_checkp(
        s.known, "node-7", 2222, "AAAA", 4,
        LIBSSH2_KNOWNHOST_TYPE_PLAIN | LIBSSH2_KNOWNHOST_KEYENC_BASE64, &entry);
    fuzz_want(found != LIBSSH2_KNOWNHOST_CHECK_MATCH || memmem(in.p, in.n, "AAAA", 4) != NULL,
              "only a key that stands there matches");
    libssh2_knownhost_free(s.known);
    libssh2_knownhost_free(s.revoked);
    libssh2_session_free(s.session);
}

/* The first byte says how the rest is cut. The program is a file of a few bytes; another beside its
 * folder must never be sent. */
void fuzz_boot(struct fr_str in)
{
    static const char program[] = "a program", other[] = "not for nodes";
    struct fr_boot b = {0};
    struct fr_ship *ship = NULL;
    struct fr_err err = {0};
    struct fr_buf quote = {0};
    char dir[256];
    size_t step = in.n > 0 ? 1 + (uint8_t)in.p[0] : 1;
    enum fr_rc rc = FR_OK;

    (void)snprintf(dir, sizeof(dir), "%s/boot", fuzz_dir());
    fr_mkdirs(dir, 0700, NULL);
    (void)snprintf(dir, sizeof(dir), "%s/boot/flownode-x", fuzz_dir());
    fr_mkdirs(dir, 0700, NULL);
    fuzz_put_file("boot/flownode", FR_STR(program));
    fuzz_put_file("boot/flownode-arm", FR_STR(program));
    fuzz_put_file("secret", FR_STR(other));
    (void)snprintf(dir, sizeof(dir), "%s/boot", fuzz_dir());
    fuzz_want(fr_ship_create(&ship, dir, &err) == FR_OK, "ship is made");
    for (size_t at = 1; at < in.n && rc == FR_OK && !b.done; at += step) {
        struct fr_str piece = {in.p + at, in.n - at < step ? in.n - at : step};
        size_t used = 0;

        rc = fr_boot_feed(&b, ship, piece, &used, &err);
        fuzz_want(used <= piece.n, "no more is used than there is");
        fuzz_want(b.rest.n == 0 || memmem(b.rest.p, b.rest.n, other, strlen(other)) == NULL,
                  "no other file is sent");
        fuzz_want(b.line.n <= 8192 && b.seen.n <= 2048, "what is kept is bounded");
    }
    fuzz_want_err(rc, &err);
    fr_boot_quote(&b, &quote);
    fr_buf_finish(&quote);
    fr_boot_finish(&b);
    fr_ship_destroy(ship);
}
