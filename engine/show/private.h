/* What show.c, order.c, live.c, json.c and closing.c share. */
#ifndef FR_SHOW_PRIVATE_H
#define FR_SHOW_PRIVATE_H

#include "engine/show/show.h"
#include "engine/show/curves.h"
#include "engine/show/model.h"

/* A note that waits for output written before it. */
struct show_held {
    struct show_held *next;
    struct fr_note note; /* the text follows the struct */
};

struct show_line {      /* of one instance */
    struct fr_buf text; /* output not yet printed: no whole line, or the launch was not shown yet */
    int64_t wall_ms;
    uint32_t no;            /* the attempt that wrote the text */
    enum fr_state_of state; /* as last shown */
    bool away;
    uint32_t held; /* the attempt whose end, and later notes, are in show->held; 0: none */
};

/* The table on the terminal, below the lines. The cursor is in the row below the table. */
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
    struct show_said {       /* one a node */
        uint64_t hash;       /* of the newest note about the node */
        bool moved;          /* the note came from the previous host */
    } * said;                /* owns */
    size_t n_said;
    struct show_held *held; /* owns: notes in order, the run's end last */
    struct fr_timer *timer; /* live: the next frame */
    bool armed;
    bool ending;                          /* the next frame is the last, without a table */
    int64_t begun_ms, drawn_ms, pause_ms; /* pause: least time between two frames */
    struct show_table table;
    struct fr_buf line; /* the line that is made */
    char clock[16];     /* of second clock_s, as lines begin with it */
    int64_t clock_s;
    struct cli_curves *curves; /* owns; NULL: none are shown */
};

/* Prints text as a line with the time of wall_ms, and frees text; nothing if text is bad. Control
 * bytes in text are already visible. */
void show_print(struct cli_show *show, enum cli_out_kind kind, int64_t wall_ms,
                struct fr_buf *text);
/* The same of a line of an instance's output, whose control bytes are made visible. */
void show_output(struct cli_show *show, uint32_t inst, int64_t wall_ms, struct fr_str text);

/* show.c: a state or a change of the run, in words. */
void show_state(struct cli_show *show, const struct fr_note *note);
/* Whether the instance waits for a person; the text names the reason. */
bool show_waits(const struct cli_show *show, const struct fr_note *note);
void show_run(struct cli_show *show, const struct fr_note *note);

/* order.c: shows output line by line, and each state after the output written before it. */
void order_output(struct cli_show *show, const struct fr_note *note);
void order_state(struct cli_show *show, const struct fr_note *note);
void order_run(struct cli_show *show, const struct fr_note *note);
/* After a note about trouble: held states of that instance or node are shown. */
void order_trouble(struct cli_show *show, const struct fr_note *note);
void order_finish(struct cli_show *show); /* shows all held notes, and the rest of output */

/* show.c: adds at most so many rows with curves to a table. */
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
/* Appends as many of the comma-separated words of list as fit, and a newline. Cuts list. */
void show_words(struct fr_buf *out, struct fr_buf *list, size_t width);
/* Width and height of the terminal on stdout. */
void show_size(unsigned *columns, unsigned *rows);

#endif
