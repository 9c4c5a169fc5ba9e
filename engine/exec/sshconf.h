/*
 * What OpenSSH's client configuration (ssh_config(5)) says of one host, as far as libssh2 can do
 * it, and where it cannot, why. Read: Host, HostName, User, Port, IdentityFile, IdentitiesOnly,
 * HostKeyAlias, UserKnownHostsFile. What needs the system's ssh: ProxyJump, ProxyCommand, Match,
 * Include, CertificateFile, RSA keys, certificates. Other keywords are skipped.
 */
#ifndef FR_EXEC_SSHCONF_H
#define FR_EXEC_SSHCONF_H

#include "engine/base/arena.h"
#include "engine/exec/link.h"

enum { FR_SSH_KEYS_MAX = 8 };

struct fr_ssh_conf {   /* text lives in the arena given to the loader */
    const char *host;  /* to connect to */
    const char *alias; /* to look up in known_hosts */
    const char *user;
    int port;
    const char
        *keys[FR_SSH_KEYS_MAX]; /* private key files to try, in order; those by default exist */
    size_t n_keys;
    bool own_keys_only;         /* IdentitiesOnly, or a key in the target: no agent */
    const char *known_hosts[4]; /* files, existing or not; the first is the one to add a host to */
    size_t n_known;
    const char *needs_ssh; /* why libssh2 cannot do it; NULL: it can */
};

/* FR_USAGE: the configuration cannot be read as text, or a value in it is wrong (file and line). */
enum fr_rc fr_ssh_conf_load(const struct fr_ssh_target *target, struct fr_arena *arena,
                            struct fr_ssh_conf *out, struct fr_err *err);

/* "ssh-ed25519", "ssh-rsa" … of a private key file, by its .pub file or its own header; "" unknown,
 * NULL when the file cannot be read. */
const char *fr_ssh_key_type(const char *path, struct fr_arena *arena);

#endif
