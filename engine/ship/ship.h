/*
 * Brings programs onto a node. flownode goes over the connection that then carries messages: a
 * shell script on the node runs the flownode that is there, or receives its bytes first. Other
 * programs are bundles (the program, its libraries, the loader), put into the node's store
 * afterwards.
 */
#ifndef FR_SHIP_SHIP_H
#define FR_SHIP_SHIP_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/ship/file.h"

#include <stdbool.h>
#include <stdint.h>

/* The flownode programs that control has, read and hashed when first needed. */
struct fr_ship;

/* dir holds flownode for this machine's type and flownode-TYPE (as `uname -m` says) for others. */
enum fr_rc fr_ship_create(struct fr_ship **out, const char *dir, struct fr_err *err);
void fr_ship_destroy(struct fr_ship *s);

/*
 * The command for the login shell of a node, whichever shell that is: starts the dialogue below, at
 * whose end flownode has replaced the shell. The script that the node runs is in control's answer.
 *
 *   node     FLOWBOOT uname Linux x86_64
 *   control  one line: the folders, SHA-256 and size of flownode, and the script
 *   node     FLOWBOOT note TEXT                     (flownode is put elsewhere than into work)
 *            FLOWBOOT run PATH                      (and is flownode: its magic follows)
 *         or FLOWBOOT need PATH, then takes flownode's bytes, checks them, and FLOWBOOT run PATH
 *         or FLOWBOOT refused WHY
 *
 * The node's home is in work, which is refused with its reason when it cannot be used; without work
 * it is in the user's state folder, else in /var/tmp/flowrun-UID. flownode lies in work, in the
 * user's cache folder or in /var/tmp/flowrun-UID: the first of them in which a file can be written
 * and executed. A folder that others can write gets a private one inside, flowrun-UID. The script
 * executes only what belongs to its user or to root, what nobody else can write, and what has the
 * right SHA-256.
 */
const char *fr_boot_command(void);

/*
 * Where a node's home is. It belongs to a machine, a user and a work folder, whatever inventories
 * call the node: a machine that two of them name has one home, and so one capacity. It is called
 * NAME-HOST, by the machine's own name for itself, since machines may share a work folder.
 * An older flowrun called it by the inventory's name: where that folder is there it stays the home
 * of this name, and NAME-HOST, unless that is there too, becomes a link to it.
 */
struct fr_boot_home {
    const char *work; /* as the inventory has it; NULL: none */
    const char *name, *old;
};

/* The folders of a node for its fr_boot. FR_USAGE: a newline in work. */
enum fr_rc fr_boot_folders(const struct fr_boot_home *at, struct fr_buf *out, struct fr_err *err);

struct fr_boot {           /* zero it and set folders to start */
    struct fr_str folders; /* borrows: what fr_boot_folders made */
    struct fr_buf line;    /* owns: an unfinished line */
    struct fr_buf seen;    /* owns: the beginning of foreign output, for errors */
    struct fr_buf note;    /* owns: for the user; the owner shows it and empties it */
    struct fr_buf reply;   /* owns: control's answer */
    struct fr_str rest;    /* bytes still to be sent; borrows from ship, or from reply */
    const struct fr_ship_program *program;
    size_t noise; /* bytes of foreign output */
    bool done;    /* flownode runs: all further bytes are messages */
    bool asked;   /* the node requested the program, which is sent once */
};

/* Takes bytes from the node; *used: how many belong to the dialogue. Errors quote the node. */
enum fr_rc fr_boot_feed(struct fr_boot *b, struct fr_ship *s, struct fr_str bytes, size_t *used,
                        struct fr_err *err);

/* Adds the node's foreign output, for an error. */
void fr_boot_quote(const struct fr_boot *b, struct fr_buf *out);
void fr_boot_finish(struct fr_boot *b);

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
    struct fr_ship_file *v;
    size_t n;
    size_t hashed;       /* files whose hash is known; the next is under way in now */
    struct fr_hash *now; /* owns */
};

/*
 * Finds the libraries of program (an ELF file) by its own loader (LOADER --list PROGRAM).
 * FR_NOTFOUND names a missing one. Hashes nothing yet: fr_bundle_step() hashes at most max_bytes a
 * call, until *done; then the bundle can be put.
 */
enum fr_rc fr_bundle_open(struct fr_bundle *out, const char *program, struct fr_err *err);
enum fr_rc fr_bundle_step(struct fr_bundle *b, size_t max_bytes, bool *done, struct fr_err *err);
void fr_bundle_finish(struct fr_bundle *b);

#endif
