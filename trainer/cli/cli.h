/*
 * flowtrain's commands: each is a file with a row, which commands.c lists. One frame reads the
 * words of all of them.
 */
#ifndef TR_CLI_CLI_H
#define TR_CLI_CLI_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tr_flag_kind {
    TR_TEXT,     /* const char *; NULL where it is not given */
    TR_LIST,     /* struct tr_list: each value that is given */
    TR_SWITCH,   /* bool; has no value */
    TR_BOOL,     /* int: 1 for true, 0 for false */
    TR_CHOICE,   /* int, or an enum: the place in choices */
    TR_INT,      /* int64_t from least to most */
    TR_REAL,     /* double from low to high */
    TR_POSITIVE, /* double above 0, at most high */
    TR_SIZE      /* int64_t: bytes, 1 or more */
};

#define TR_FLAG_NOWHERE SIZE_MAX

/* A command's own flag: --name VALUE or --name=VALUE; --name alone for a switch. - equals _ in
 * names. */
struct tr_flag {
    const char *name; /* without dashes */
    enum tr_flag_kind kind;
    size_t at;           /* offset in the command's options; TR_FLAG_NOWHERE: not kept */
    const char *help;    /* NULL: not listed */
    const char *choices; /* of TR_CHOICE: words with blanks between */
    int64_t least, most;
    double low, high;
};

/* A row of a command's flags; fields of its kind follow the help text. */
#define TR_FLAG(word, k, place, meaning, ...)                                                      \
    {                                                                                              \
        .name = word, .kind = k, .at = place, .help = meaning, __VA_ARGS__                         \
    }

/* Of enum tr_device, and enum tr_transport. */
#define TR_DEVICES .choices = "auto cpu cuda"
#define TR_TRANSPORTS .choices = "auto nccl host"

/* For commands whose help lists --help; all commands with usage accept --help and -h. */
#define TR_FLAG_HELP TR_FLAG("help", TR_SWITCH, TR_FLAG_NOWHERE, "this text")

enum { TR_FLAG_MANY = 16, TR_FLAGS_MAX = 48, TR_WORDS_MAX = 1 };

struct tr_list {
    const char *v[TR_FLAG_MANY];
    int n;
};

/* A parsed command line. */
struct tr_call {
    const struct tr_command *command;
    int argc, nwords;
    const char *const *argv;  /* all words after the command's name */
    const char *const *words; /* arguments beside flags; argv where the command has no flags */
    void *options;            /* in arena; of command->size */
    const char *plain[TR_WORDS_MAX];
    const char *text[TR_FLAGS_MAX]; /* value of each flag; NULL: not given, or a TR_LIST */
    const char *file;               /* arguments of train were read from it; NULL: none */
    bool evals;                     /* the file names data sets for evaluation */
    struct fr_buf notes;            /* owns: a line for each argument without effect */
    struct fr_arena arena;          /* owns */
};

struct tr_arg_rule;

/* One command, defined in its file. Without flags the command reads all words itself. */
struct tr_command {
    const char *name, *summary;
    const char *usage;                /* before the flags; NULL: the command has no help */
    void (*help)(struct fr_buf *out); /* adds lines after those of the flags; NULL: none */
    const struct tr_flag *flags;
    size_t nflags;
    size_t size;         /* bytes of the options, the struct that flags fill */
    const void *initial; /* the options' defaults; NULL: zero */
    const char *needs;   /* required flags: names with blanks between */
    size_t most_words;   /* the most arguments beside flags, in call->words */
    bool leading;        /* flags end at the first other word, or after "--"; words follow it */
    const char *const *shorts; /* letters and flags in turn, ended by NULL; with it unambiguous
                                  prefixes of flags work, as in argparse */
    const struct tr_arg_rule
        *rules; /* arguments of train are accepted too (arg_map.h); NULL: they are unknown */
    size_t nrules;
    /* Prints its own output; an error is returned and printed by main, once. */
    enum fr_rc (*run)(struct tr_call *call, struct fr_err *err);
};

#define TR_FLAGS(rows, type)                                                                       \
    .flags = rows, .nflags = sizeof(rows) / sizeof(rows[0]), .size = sizeof(type)
#define TR_RULES(rows) .rules = rows, .nrules = sizeof(rows) / sizeof(rows[0])

/* In the file of their names. */
extern const struct tr_command tr_cmd_init, tr_cmd_train, tr_cmd_launch, tr_cmd_forward,
    tr_cmd_eval, tr_cmd_generate, tr_cmd_export, tr_cmd_convert, tr_cmd_merge, tr_cmd_plan,
    tr_cmd_probe, tr_cmd_inspect, tr_cmd_tokenize;
/* For scripts of completion (engine/base/complete.h), and for man(1). */
extern const struct tr_command tr_cmd_completion, tr_cmd_complete, tr_cmd_man;

extern const struct tr_command *const tr_commands[];
extern const size_t tr_ncommands;

/* Reads the words after the command's name, and runs it or prints its help. FR_USAGE for unknown
 * flags (with a suggestion), values that are missing or none of the flag's kind, flags that are
 * needed, and words too many. */
enum fr_rc tr_command_run(const struct tr_command *c, int argc, const char *const *argv,
                          struct fr_err *err);
/* Adds usage and a line a flag. */
void tr_command_help(const struct tr_command *c, struct fr_buf *out);

/* Prints the versions of libraries, the chip, what products run on. */
void tr_about(void);

/* Path of this program, to start it again. */
const char *tr_program(void);

/* What an exit status of flowtrain means; `flowtrain help` prints it. */
struct tr_exit {
    int status;
    const char *meaning;
};

extern const struct tr_exit tr_exits[];
extern const size_t tr_nexits;

int tr_exit_status(enum fr_rc rc);

#endif
