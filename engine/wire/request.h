/*
 * The request of an attempt: the part of a prepare message that its supervisor carries out. It is
 * an open value; its memory belongs to its maker (after decoding: an arena).
 *
 * Every attempt has a folder of its own, made before the launch. Its command and its sidecars start
 * in that folder. The folder is removed at the end when it is empty, else with the attempt's log
 * (node/prune.h). Nothing in it is synced to the disk.
 *
 * Besides env, the command sees:
 *   PATH HOME USER LOGNAME SHELL LANG   the node's, unless env sets them
 *   FLOWRUN_ATTEMPT                     32 hex digits
 *   FLOWRUN_DIR                         the attempt's folder
 *   TMPDIR                              the attempt's folder, unless env sets it
 *   FLOWRUN_OUTPUT                      a file, beside the folder, for K=V lines and K<<END blocks
 *   FLOWRUN_NODE_HOME                   the node's home; no command starts there
 *   FLOWRUN_WORK                        HOME/work, unless env sets it
 */
#ifndef FR_WIRE_REQUEST_H
#define FR_WIRE_REQUEST_H

#include "engine/wire/codec.h"

/* As argv[0]: the node's own flownode program (in a container: fr_container.flownode). */
#define FR_ARGV_FLOWNODE "@flownode"
/* The input of a built-in task, as JSON; no other task has this variable. */
#define FR_ENV_WITH "FLOWRUN_WITH"

enum fr_log_full { FR_LOG_DROP_MIDDLE, FR_LOG_STOP /* keep the first bytes alone */ };

enum { FR_PORT_NONE = -1, FR_PORT_ANY = 0 };

/* clang-format off */
#define FR_RECORD(name, type)                                                                      \
    struct type##s { struct type *v; size_t n; };                                                  \
    struct type {
#define FR_FIELD(kind, member) FR_CODEC_##kind member;
#define FR_INNER(kind, type, member) FR_CODEC_##kind(type) member;
#define FR_END };
#include "engine/wire/request_fields.h"
/* clang-format on */

#endif
