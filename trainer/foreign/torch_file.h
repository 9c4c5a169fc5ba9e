/* A file of torch.save: its value, and where the bytes of its tensors lie. */
#ifndef TR_FOREIGN_TORCH_FILE_H
#define TR_FOREIGN_TORCH_FILE_H

#include "trainer/foreign/pickle.h"
#include "trainer/foreign/zip.h"

struct tr_torch_file {
    struct tr_zip *zip;
    const char *path; /* borrows */
    struct fr_arena arena;
    const struct tr_pv *root;
    bool check; /* the caller's: tensors are compared with their checksums when they are asked for,
                   which reads all of their storage; the pickle always is */
};

/* Zero *f before, but for check. FR_USAGE: a name of its pickle is refused, or the file is of a
 * machine with another order of bytes. */
enum fr_rc tr_torch_open(struct tr_torch_file *f, const char *path, struct fr_err *err);
void tr_torch_close(struct tr_torch_file *f);

/* Elements that lie together in a file. */
struct tr_run {
    const char *path; /* the caller's, of tr_torch_open */
    enum tr_st_type type;
    int64_t at, n; /* byte of the file; elements */
};

/* All elements of a tensor of f. FR_CORRUPT: the file lacks its bytes, or has others. */
enum fr_rc tr_torch_run(const struct tr_torch_file *f, const struct tr_pv *tensor,
                        struct tr_run *out, struct fr_err *err);

/* The elements of a tensor: runs of one type, one behind the other. */
struct tr_runs {
    const struct tr_run *p;
    size_t n;
};

/* The file that was read last. Zero it before; tr_runs_close after. */
struct tr_runs_file {
    const char *path; /* borrows; NULL: none is open */
    int fd;
};

/* Elements [range[0], range[0] + range[1]) in their own type. */
enum fr_rc tr_runs_read(struct tr_runs_file *f, const struct tr_runs *runs, const int64_t range[2],
                        void *dst, struct fr_err *err);
void tr_runs_close(struct tr_runs_file *f);

#endif
