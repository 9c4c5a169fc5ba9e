/*
 * For tests of the built-in tasks: a folder, and the real flownode (argv[1]), which runs a task as
 * a supervisor would.
 */
#ifndef TESTS_UNIT_TASKS_BED_H
#define TESTS_UNIT_TASKS_BED_H

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tasks/command.h"
#include "tasks/job.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <unistd.h>

static const char bed_path[] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"; /* PATH */

struct bed { /* one folder and the program under test */
    const char *flownode;
    char dir[64];
    struct fr_arena arena;
};

struct said { /* what a task printed */
    int code;
    struct fr_buf out, err;
};

/* fmt has two %s: the folder, and more. */
char *text_at(struct bed *b, const char *fmt, const char *more);
void put(const char *path, const char *text);
struct said run_task(const struct bed *b, const char *name, const char *with);
bool says(const struct fr_buf *b, const char *text);
void said_finish(struct said *s);
/* The last line is one JSON object; the caller's. */
json_t *last_json(const struct said *s);
/* false: there is no flownode, and it is said. */
bool bed_begin(struct bed *b, int argc, char **argv);
void bed_end(struct bed *b);

#endif
