/*
 * Getting our programs onto a node. flownode: over the same channel that will then carry wire, by a
 * small shell script that the node's login shell is given as the command; it asks, is told what to
 * run, runs it if it is there, and takes the bytes if not. Other programs: a bundle of files
 * (program, its libraries, the loader) put into the node's store once it is connected.
 */
#ifndef FR_EXEC_SHIP_H
#define FR_EXEC_SHIP_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* The flownode programs that control has, read and hashed when first needed. */
struct fr_ship;

/* dir holds flownode for this machine's type and flownode-TYPE (as `uname -m` says) for others. */
enum fr_rc fr_ship_create(struct fr_ship **out, const char *dir, struct fr_err *err);
void fr_ship_destroy(struct fr_ship *s);

/*
 * The command for the login shell of a node: starts the dialogue below, at whose end flownode has
 * replaced the shell. work: folder for programs and the node's home, NULL: the user's own folders.
 * home: name of the node's home in it.
 *
 *   node     FLOWBOOT uname Linux x86_64
 *   control  SHA256 BYTES
 *   node     FLOWBOOT run PATH                      (and is flownode: its magic follows)
 *         or FLOWBOOT need PATH, then takes BYTES bytes, checks them, and FLOWBOOT run PATH
 *         or FLOWBOOT refused WHY
 * Folders tried: work, the cache folder, /var/tmp; each must let a file be written and executed.
 */
enum fr_rc fr_boot_command(const char *work, const char *home, struct fr_buf *out,
                           struct fr_err *err);

struct fr_boot {        /* zero it to start */
    struct fr_buf line; /* owns: what is not yet a line */
    struct fr_buf seen; /* owns: the beginning of what was not ours, to be quoted */
    struct fr_str rest; /* what is still to be sent: borrows from ship, or from reply */
    char reply[96];
    const struct fr_ship_program *program;
    size_t noise; /* bytes that were not ours */
    bool done;    /* flownode runs: the rest of the bytes are wire's */
    bool note;    /* an upload begins: the owner says so, and resets it */
    bool asked;   /* for the program, which is sent once */
};

/* Bytes from the node. *used: how many belong to the dialogue. Errors name what the node said. */
enum fr_rc fr_boot_feed(struct fr_boot *b, struct fr_ship *s, struct fr_str bytes, size_t *used,
                        struct fr_err *err);

/* Why nothing came of it, as far as the node's words go: put behind the link's own error. */
void fr_boot_quote(const struct fr_boot *b, struct fr_buf *out);
void fr_boot_finish(struct fr_boot *b);

/* One file of a bundle: local, or bytes when that is NULL; path is below the node's store. */
struct fr_bundle_file {
    char *local, *bytes;
    char *path;
    char sha256[65];
    uint64_t size;
    uint32_t mode;
};

/*
 * A program that can run on a machine with another set of libraries. Below HASH: bin/NAME.bin; lib/
 * with all it loads; the loader as lib/run/NAME (so that the process is called NAME); and bin/NAME,
 * a shell script that starts one with the other. In such a process /proc/self/exe is the loader: a
 * program that starts itself again runs $FLOWRUN_BUNDLE, the script's absolute path, where that is
 * set. A static program is bin/NAME alone.
 */
struct fr_bundle {
    struct fr_arena arena; /* owns all below but now */
    char hash[65];         /* of all paths, modes and contents: the folder's name in the store */
    char *program;         /* "HASH/bin/NAME": what to run, below the store folder */
    struct fr_bundle_file *v;
    size_t n;
    size_t hashed;       /* files whose hash is known; the next is under way in now */
    struct fr_hash *now; /* owns */
};

/*
 * Finds what program (an ELF file) loads by asking its own loader (LOADER --list PROGRAM). extra:
 * further files for lib/ that are loaded by name at run time; NULL-terminated, may be NULL.
 * FR_NOTFOUND names a library that is missing. Nothing is hashed yet: fr_bundle_step() does that,
 * some max_bytes a call, until it says *done; then the bundle can be put.
 */
enum fr_rc fr_bundle_open(struct fr_bundle *out, const char *program, const char *const *extra,
                          struct fr_err *err);
enum fr_rc fr_bundle_step(struct fr_bundle *b, size_t max_bytes, bool *done, struct fr_err *err);
void fr_bundle_finish(struct fr_bundle *b);

/* A put of all of it: what is there already is not sent. Answer: FR_EXEC_PUT_DONE with ref. */
struct fr_exec;
enum fr_rc fr_bundle_put(const struct fr_bundle *b, struct fr_exec *ex, size_t node, uint64_t ref,
                         struct fr_err *err);

#endif
