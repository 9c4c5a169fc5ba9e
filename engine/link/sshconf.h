/*
 * OpenSSH's client configuration (ssh_config(5)) of one host, and whether libssh2 can honour it.
 * The system's ssh reads the configuration: `ssh -G HOST` prints the configuration in force, after
 * Host, Match, Include, the user's file and the system's. Without that program no configuration is
 * read.
 *
 * Of what ssh prints, libssh2 honours Host, HostName, User, Port, AddressFamily, HostKeyAlias,
 * IdentityFile, IdentitiesOnly, UserKnownHostsFile and GlobalKnownHostsFile. Directives without a
 * meaning for a command without a terminal (forwardings, prompts, key updates) are not used. Every
 * other one needs the system's ssh when its value is not ssh's own default.
 */
#ifndef FR_LINK_SSHCONF_H
#define FR_LINK_SSHCONF_H

#include "engine/base/arena.h"
#include "engine/link/link.h"

enum { FR_SSH_KEYS_MAX = 16, FR_SSH_ARGS_MAX = 20 };

struct fr_ssh_conf {   /* text lives in the arena given to the loader */
    const char *host;  /* to connect to */
    const char *alias; /* to look up in known_hosts */
    const char *name;  /* alias as known_hosts has it: "ALIAS" or "[ALIAS]:PORT" */
    const char *user;
    int port;
    int family;                        /* AF_UNSPEC, AF_INET, AF_INET6 */
    int connect_ms;                    /* the target's time limit for the TCP connection */
    const char *keys[FR_SSH_KEYS_MAX]; /* private key files to try, in order */
    size_t n_keys;
    bool own_keys_only;         /* IdentitiesOnly, or a key in the target: no agent */
    const char *agent;          /* socket: the target's, else SSH_AUTH_SOCK; NULL, "": none */
    const char *known_hosts[8]; /* files, existing or not; the first is the one to add a host to */
    size_t n_known;
    const char *needs_ssh; /* the directive that libssh2 cannot do; NULL: none */
    const char *no_key;    /* why libssh2 has no key to try; NULL: it has one */
    const char *used;      /* the directives in force, one a line, for the user */
};

/* Output of `ssh -G`. */
struct fr_ssh_answer {
    struct fr_str effective; /* for the target */
    struct fr_str defaults;  /* for any host without a configuration */
};

/*
 * Fills out from answer. answer NULL: there is no ssh program, and out gets ssh's own defaults.
 * FR_USAGE: the answer cannot be read, or has a directive that no transport can honour.
 * FR_NOTFOUND: the target names a configuration, and there is no ssh program.
 */
enum fr_rc fr_ssh_conf_load(const struct fr_ssh_target *target, const struct fr_ssh_answer *answer,
                            struct fr_arena *arena, struct fr_ssh_conf *out, struct fr_err *err);

/* known.c: where the known_hosts file path has a @cert-authority line for this host, which libssh2
 * cannot honour: "@cert-authority in PATH line N", in arena. NULL: there is no such line. */
const char *fr_known_needs_ssh(const struct fr_ssh_conf *c, const char *path,
                               struct fr_arena *arena);

/* Whether the user or the system has a configuration file. Without the ssh program it is not read.
 */
bool fr_ssh_conf_unread(void);

/* Appends the arguments of the system's ssh for t to argv, "--" and the host last; *n counts argv.
 * argv has room for FR_SSH_ARGS_MAX further arguments. Their text lives in arena or t. FR_USAGE: a
 * name in t cannot be an argument of ssh. */
enum fr_rc fr_ssh_target_args(const struct fr_ssh_target *t, struct fr_arena *arena,
                              const char **argv, size_t *n, struct fr_err *err);

/* "ssh-ed25519", "ssh-rsa" … of a private key file, by its .pub file or its own header; "" unknown,
 * NULL when the file cannot be read. */
const char *fr_ssh_key_type(const char *path, struct fr_arena *arena);

/* Why a file that is named as a private key is none: it is the public key, or PuTTY's. NULL: no
 * fault was found. */
const char *fr_ssh_key_fault(const char *path);

#endif
