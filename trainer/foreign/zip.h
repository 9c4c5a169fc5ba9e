/*
 * The zip files of torch.save: entries are stored, not compressed. The directory is checked whole
 * when a file is opened; bytes are read where they lie. An entry's CRC-32 is compared when asked;
 * it is 0 where torch was told to leave it out. Source: PKWARE, APPNOTE.TXT 6.3, sections 4.3
 * and 4.5.3 (zip64).
 */
#ifndef TR_FOREIGN_ZIP_H
#define TR_FOREIGN_ZIP_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_zip_entry {
    struct fr_str name;
    int64_t at, bytes; /* where its bytes begin in the file, and how many there are */
    uint32_t crc;      /* 0: it was left out */
    bool whole;        /* its bytes have been found to be those of the CRC */
};

struct tr_zip;

/* FR_USAGE: it is no zip file. FR_CORRUPT: it is cut, or an entry lies outside of it. */
enum fr_rc tr_zip_open(const char *path, struct tr_zip **out, struct fr_err *err);
void tr_zip_close(struct tr_zip *z);

const char *tr_zip_path(const struct tr_zip *z);
/* The entry "FOLDER/name": torch puts all entries into one folder. NULL: there is none. */
const struct tr_zip_entry *tr_zip_find(const struct tr_zip *z, const char *name);

/* FR_CORRUPT: the bytes of an entry of z are not those that were written. Each is read once. */
enum fr_rc tr_zip_check(struct tr_zip *z, const struct tr_zip_entry *e, struct fr_err *err);

/* Reads bytes [at, at+n) of the file. FR_CORRUPT: the file is or became shorter. */
enum fr_rc tr_zip_read(const struct tr_zip *z, int64_t at, void *dst, size_t n, struct fr_err *err);

#endif
