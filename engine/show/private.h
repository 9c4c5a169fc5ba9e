/* How a run is shown: what show.c, order.c, live.c, json.c and closing.c share. */
#ifndef FR_SHOW_PRIVATE_H
#define FR_SHOW_PRIVATE_H

#include "engine/show/show.h"
#include "engine/show/curves.h"
#include "engine/show/model.h"

/* A state that waits for the output written before it. */
struct show_held {
    struct show_held *next;
    struct fr_note note; /* its text follows the struct */
};

struct show_line {      /* of one instance */
    struct fr_buf text; /* output: not yet a whole line, or written before the launch was shown */
    int64_t wall_ms;
    uint32_t no;            /* the attempt that wrote the text */
    enum fr_state_of state; /* as last shown */
    bool away;
    uint32_t held; /* the attempt whose end is among show->held, and what follows it; 0: none */
};

/* The table below the lines, as the terminal shows it. The cursor is in the row below. */
struct show_table {
    struct fr_buf text; /* owns: rows, each with its newline */
    unsigned rows;
    unsigned columns; /* of the terminal at that time */
};

struct cli_show {
    struct cli_show_opts opts;
    struct cli_model model;
    bool live; /* a terminal: a table is kept below the lines */
    bool color;
    struct show_line *lines; /* one an instance */
    struct show_said {       /* of a node */
        uint64_t hash;       /* what was said of it last */
        bool moved;          /* by another host */
    } * said;                /* owns */
    size_t n_said;
    struct show_held *held; /* owns: in order: ends, what follows them, the run's end */
    struct fr_timer *timer; /* live: the next frame */
    bool armed;
    bool ending;                          /* the next frame is the last one, without a table */
    int64_t begun_ms, drawn_ms, pause_ms; /* pause: between two frames */
    struct show_table table;
    struct cli_curves *curves; /* owns; NULL: none are shown */
};

/* One line for a person, control bytes already made visible. */
void show_print(struct cli_show *show, enum cli_out_kind kind, int64_t wall_ms,
                struct fr_buf *text);

/* show.c: a state or a change of the run, in words. */
void show_state(struct cli_show *show, const struct fr_note *note);
/* It waits for somebody: the text says for what. */
bool show_waits(const struct fr_note *note);
void show_run(struct cli_show *show, const struct fr_note *note);

/* order.c: shows output line by line, and each state after the output that was written before. */
void order_output(struct cli_show *show, const struct fr_note *note);
void order_state(struct cli_show *show, const struct fr_note *note);
void order_run(struct cli_show *show, const struct fr_note *note);
/* After trouble with an instance or a node, held states no longer wait for output. */
void order_trouble(struct cli_show *show, const struct fr_note *note);
void order_release(struct cli_show *show); /* shows all that is held */
void order_finish(struct cli_show *show);  /* and the rest of output */

/* Adds rows with the curves to a table, at most so many; show.c. */
void show_curves(const struct cli_show *show, struct show_table *to, unsigned rows);

/* live.c */
enum fr_rc live_start(struct cli_show *show, struct fr_err *err);
void live_soon(struct cli_show *show);
void live_end(struct cli_show *show);

/* json.c */
void json_note(struct cli_show *show, const struct fr_note *note);
void json_line(struct cli_show *show, uint32_t inst, int64_t wall_ms, struct fr_str text);
void json_begin(struct cli_show *show);

/* closing.c: colours, cells, and the table at the end. */
const char *show_color(const struct cli_show *show, enum fr_state_of state);
const char *show_plain(const struct cli_show *show); /* ends a colour */
void show_closing(struct cli_show *show);
/* Columns of text on a terminal. */
size_t show_width(const char *text);
/* Rows of a terminal of so many columns that a line takes; colours in it take no column. */
unsigned show_rows(struct fr_str line, unsigned columns);
/* Appends text cut or filled to width columns. */
void show_cell(struct fr_buf *out, const char *text, size_t width);
/* Appends a list of words between commas and a newline: those at its beginning that fit. */
void show_words(struct fr_buf *out, struct fr_buf *list, size_t width);
/* Width and height of the terminal on stdout. */
void show_size(unsigned *columns, unsigned *rows);

#endif
