/*
 * TensorBoard event files (documentation of tfevents): framed protobuf Events, one after the other,
 * for the scalar and text dashboards. A failed write does not stop the run: the failure is logged
 * once, and no more events are written.
 */
#ifndef TR_REPORT_TENSORBOARD_H
#define TR_REPORT_TENSORBOARD_H

#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_events {
    int fd; /* owns; -1: off */
};

/* Makes dir and a new file dir/events.out.tfevents.SECONDS.HOST.PID.N (the first free N from 0).
 * resume_step >= 0 makes readers forget points at that step and later. */
void tr_events_open(struct tr_events *e, const char *dir, int64_t resume_step);
void tr_events_scalar(struct tr_events *e, const char *tag, double value, int64_t step);
void tr_events_text(struct tr_events *e, const char *tag, struct fr_str markdown);
void tr_events_close(struct tr_events *e);

/* For tests. tr_events_frame() appends one record of the file with a serialized Event; the others
 * append an Event. wall: seconds since 1970. */
void tr_events_frame(struct fr_buf *out, struct fr_str event);
void tr_events_scalar_event(struct fr_buf *out, double wall, int64_t step, const char *tag,
                            float value);
void tr_events_text_event(struct fr_buf *out, double wall, const char *tag, struct fr_str text);
void tr_events_version_event(struct fr_buf *out, double wall);

#endif
