#include "trainer/report/tensorboard.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* CRC-32C (Castagnoli), masked as TFRecord has it. */
static uint32_t masked_crc(const char *p, size_t n)
{
    uint32_t c = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        c ^= (unsigned char)p[i];
        for (int k = 0; k < 8; k++)
            c = c & 1 ? (c >> 1) ^ 0x82f63b78 : c >> 1;
    }
    c = ~c;
    return ((c >> 15) | (c << 17)) + 0xa282ead8;
}

void tr_events_frame(struct fr_buf *out, struct fr_str event)
{
    uint64_t n = event.n;
    uint32_t crc;

    fr_buf_add(out, &n, sizeof(n));
    crc = masked_crc((const char *)&n, sizeof(n));
    fr_buf_add(out, &crc, sizeof(crc));
    fr_buf_add(out, event.p, event.n);
    crc = masked_crc(event.p, event.n);
    fr_buf_add(out, &crc, sizeof(crc));
}

/* Protobuf: a key is field << 3 | wire type; 0 varint, 1 eight bytes, 2 length and bytes, 5 four.
 */
static void varint(struct fr_buf *out, uint64_t v)
{
    while (v >= 0x80) {
        unsigned char b = (unsigned char)(v | 0x80);
        fr_buf_add(out, &b, 1);
        v >>= 7;
    }
    unsigned char b = (unsigned char)v;
    fr_buf_add(out, &b, 1);
}

static void bytes_field(struct fr_buf *out, unsigned field, const void *p, size_t n)
{
    varint(out, field << 3 | 2);
    varint(out, n);
    fr_buf_add(out, p, n);
}

static void text_field(struct fr_buf *out, unsigned field, const char *s)
{
    bytes_field(out, field, s, strlen(s));
}

static void event_head(struct fr_buf *out, double wall, int64_t step)
{
    varint(out, 1 << 3 | 1);
    fr_buf_add(out, &wall, sizeof(wall));
    if (step != 0) {
        varint(out, 2 << 3 | 0);
        varint(out, (uint64_t)step);
    }
}

/* Event.summary (5) { value (1) { … } } */
static void summary(struct fr_buf *out, const struct fr_buf *value)
{
    struct fr_buf sum = {0};

    bytes_field(&sum, 1, value->p, value->n);
    bytes_field(out, 5, sum.p, sum.n);
    fr_buf_finish(&sum);
}

void tr_events_version_event(struct fr_buf *out, double wall)
{
    event_head(out, wall, 0);
    text_field(out, 3, "brain.Event:2");
}

void tr_events_scalar_event(struct fr_buf *out, double wall, int64_t step, const char *tag,
                            float value)
{
    struct fr_buf v = {0};

    event_head(out, wall, step);
    text_field(&v, 1, tag);
    varint(&v, 2 << 3 | 5);
    fr_buf_add(&v, &value, sizeof(value));
    summary(out, &v);
    fr_buf_finish(&v);
}

void tr_events_text_event(struct fr_buf *out, double wall, const char *tag, struct fr_str text)
{
    static const char one_string[] = {0x08, 7, 0x12, 4,
                                      0x12, 2, 0x08, 1}; /* DT_STRING, shape [1] */
    struct fr_buf v = {0}, tensor = {0}, plugin = {0}, meta = {0};

    event_head(out, wall, 0);
    text_field(&v, 1, tag);
    fr_buf_add(&tensor, one_string, sizeof(one_string));
    bytes_field(&tensor, 8, text.p, text.n);
    bytes_field(&v, 8, tensor.p, tensor.n);
    text_field(&plugin, 1, "text");
    bytes_field(&meta, 1, plugin.p, plugin.n);
    bytes_field(&v, 9, meta.p, meta.n);
    summary(out, &v);
    fr_buf_finish(&v);
    fr_buf_finish(&tensor);
    fr_buf_finish(&plugin);
    fr_buf_finish(&meta);
}

/* One write a record, so that a crash leaves at most one torn record at the end. */
static void append(struct tr_events *e, struct fr_buf *event)
{
    struct fr_buf record = {0};

    tr_events_frame(&record, (struct fr_str){event->p, event->n});
    if (e->fd >= 0 && (record.bad || !fr_write_full(e->fd, record.p, record.n))) {
        fr_log(FR_LOG_WARN, "tensorboard",
               "cannot write events (%s); none are written from here on", strerror(errno));
        tr_events_close(e);
    }
    fr_buf_finish(&record);
    fr_buf_finish(event);
}

static double wall_now(void)
{
    return (double)fr_sys.wall_ms() / 1000;
}

void tr_events_open(struct tr_events *e, const char *dir, int64_t resume_step)
{
    char path[PATH_MAX], host[65] = "host";
    struct fr_err err;
    struct fr_buf event = {0};

    e->fd = -1;
    gethostname(host, sizeof(host) - 1);
    if (fr_mkdirs(dir, 0755, &err) != FR_OK) {
        fr_log(FR_LOG_WARN, "tensorboard", "no events are written: %s", err.msg);
        return;
    }
    for (int n = 0; e->fd < 0 && n < 1000; n++) {
        snprintf(path, sizeof(path), "%s/events.out.tfevents.%010lld.%s.%d.%d", dir,
                 (long long)(fr_sys.wall_ms() / 1000), host, (int)getpid(), n);
        e->fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0644);
        if (e->fd < 0 && errno != EEXIST)
            break;
    }
    if (e->fd < 0) {
        fr_log(FR_LOG_WARN, "tensorboard", "no events are written: cannot make %s: %s", path,
               strerror(errno));
        return;
    }
    tr_events_version_event(&event, wall_now());
    append(e, &event);
    if (resume_step >= 0) {
        static const char start[] = {0x3a, 2, 0x08, 1}; /* session_log { status: START } */
        event_head(&event, wall_now(), resume_step);
        fr_buf_add(&event, start, sizeof(start));
        append(e, &event);
    }
}

void tr_events_scalar(struct tr_events *e, const char *tag, double value, int64_t step)
{
    struct fr_buf event = {0};

    tr_events_scalar_event(&event, wall_now(), step, tag, (float)value);
    append(e, &event);
}

void tr_events_text(struct tr_events *e, const char *tag, struct fr_str markdown)
{
    struct fr_buf event = {0};

    tr_events_text_event(&event, wall_now(), tag, markdown);
    append(e, &event);
}

void tr_events_close(struct tr_events *e)
{
    if (e->fd >= 0)
        fr_sys.close(e->fd);
    e->fd = -1;
}
