/* Request headers: Range (RFC 9110, 14.1.2 and 14.2) says which bytes are wanted, If-None-Match
 * (13.1.2) which version the client has. Pure. */
#ifndef FR_API_RANGE_H
#define FR_API_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the header names the tag, which is quoted: a list, or "*". Weak tags count as others: a
 * proxy that packs an answer makes its tag a weak one. */
bool fr_etag_known(const char *if_none_match, const char *etag);

enum fr_range {
    FR_RANGE_WHOLE, /* no header, another unit, several ranges, not a range: answer 200 */
    FR_RANGE_PART,  /* answer 206 with *bytes > 0 from *offset */
    FR_RANGE_NONE   /* it lies outside of the whole: answer 416 */
};

/* "bytes=0-99", "bytes=100-", "bytes=-500". total: of the whole. The part ends within total. For
 * FR_RANGE_WHOLE *offset is 0 and *bytes is total. */
enum fr_range fr_range_parse(const char *header, uint64_t total, uint64_t *offset, uint64_t *bytes);

#endif
