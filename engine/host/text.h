/* The rows of a run as the text of an answer: there may be many, so it is made in a thread. */
#ifndef FR_HOST_TEXT_H
#define FR_HOST_TEXT_H

#include "engine/base/err.h"
#include "engine/base/str.h"

struct host_text {
    struct fr_id run;
    uint32_t epoch;     /* of this host */
    bool insts;         /* all its instances; else the run with {task: {state: count}} */
    struct fr_buf json; /* out; owns */
    int64_t seq;        /* out: the run's newest event that it knows of */
};

/* Opens the store of home for itself. */
enum fr_rc host_text_read(const char *home, struct host_text *text, struct fr_err *err);

#endif
