/* Inside of showing a run: shared by show.c, live.c, json.c and closing.c. */
#ifndef FR_CLI_SHOW_H
#define FR_CLI_SHOW_H

#include "engine/cli/cli.h"

/* Output of one instance that is not yet a whole line. */
struct show_line {
    struct fr_buf text;
    int64_t wall_ms;
    enum fr_state_of state; /* as last said */
    bool away;
};

struct cli_show {
    struct cli_show_opts opts;
    const struct fr_run *run;
    bool live; /* a terminal: the table is redrawn in place */
    bool color;
    struct show_line *lines; /* one an instance */
    struct fr_timer *timer;  /* live: the next redraw */
    bool armed;
    int64_t drawn_ms;
    unsigned drawn;    /* lines of the table now on the screen */
    struct fr_buf out; /* owns: bytes of one screen update */
};

/* One line for a person, control bytes already made visible. */
void show_print(struct cli_show *show, int64_t wall_ms, const char *text);

/* live.c */
void live_erase(struct cli_show *show);
void live_draw(struct cli_show *show);
void live_soon(struct cli_show *show);
void live_on_timer(void *arg);

/* json.c */
void json_note(struct cli_show *show, const struct fr_note *note);
void json_line(struct cli_show *show, uint32_t inst, int64_t wall_ms, struct fr_str text);
void json_begin(struct cli_show *show);

/* closing.c: how a state looks, how long an instance took, and the table at the end. */
const char *show_color(const struct cli_show *show, enum fr_state_of state);
const char *show_plain(const struct cli_show *show); /* ends a colour */
void show_took(const struct fr_run_inst *in, char out[24]);
void show_closing(struct cli_show *show);
/* Columns of text on a terminal. */
size_t show_width(const char *text);
/* Appends text cut or filled to width columns. */
void show_cell(struct fr_buf *out, const char *text, size_t width);
/* Width and height of the terminal on stdout. */
void show_size(unsigned *columns, unsigned *rows);

#endif
