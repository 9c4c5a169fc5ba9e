#include "tests/unit/tasks/tasks_bed.h"

char *text_at(struct bed *b, const char *fmt, const char *more)
{
    struct fr_buf t = {0};
    char *text;

    fr_buf_fmt(&t, fmt, b->dir, more);
    text = fr_arena_text(&b->arena, t.p, t.n);
    fr_buf_finish(&t);
    return text;
}

void put(const char *path, const char *text)
{
    CHECK(fr_file_write(path, text, strlen(text), 0755, NULL) == FR_OK);
}

struct said run_task(const struct bed *b, const char *name, const char *with)
{
    const char *argv[] = {b->flownode, "task", name, with, NULL};
    struct fr_command c = {.argv = argv, .timeout_ms = 60000};
    struct fr_err err;
    enum fr_rc rc = fr_command_run(&c, &err);

    if (!CHECK(rc == FR_OK))
        printf("%s\n", err.msg);
    return (struct said){c.signaled ? -1 : c.code, c.out, c.err};
}

bool says(const struct fr_buf *b, const char *text)
{
    return b->p != NULL && strstr(b->p, text) != NULL;
}

void said_finish(struct said *s)
{
    fr_buf_finish(&s->out);
    fr_buf_finish(&s->err);
}

json_t *last_json(const struct said *s)
{
    struct fr_str line = fr_last_line(&s->out);

    return json_loadb(line.p, line.n, 0, NULL);
}

bool bed_begin(struct bed *b, int argc, char **argv)
{
    *b = (struct bed){argc > 1 ? argv[1] : "", "/tmp/flowrun-tasks-XXXXXX", {0}};
    if (access(b->flownode, X_OK) != 0 || mkdtemp(b->dir) == NULL) {
        printf("usage: %s FLOWNODE\n", argv[0]);
        return false;
    }
    setenv("TMPDIR", b->dir, 1);
    setenv("PATH", bed_path, 1);
    return true;
}

void bed_end(struct bed *b)
{
    CHECK(fr_remove_tree(b->dir, NULL) == FR_OK);
    fr_arena_finish(&b->arena);
}
