/*
 * Errors of the host's interface, as application/problem+json (RFC 9457). They are written and read
 * here alone, so a client reports what the host found in the same words.
 *
 * code is the name of an enum fr_rc, type is "/problems/" + code, title the phrase of the status
 * (RFC 9110), detail the text of the error, instance the path of the request. issues are the
 * mistakes of a pipeline: {file, line, col, text}, or {text} alone.
 */
#ifndef FR_API_PROBLEM_H
#define FR_API_PROBLEM_H

#include "engine/api/api.h"
#include "engine/spec/spec.h"

/* Makes *out the answer for err; what out held is freed. status 0: the one of err->rc. instance
 * and issues may be NULL. */
void fr_problem(struct fr_api_response *out, int status, const char *instance,
                const struct fr_err *err, const struct fr_issues *issues);

/* Adds to the problem that out is when the request may be sent again; the header, too. */
void fr_problem_retry(struct fr_api_response *out, int64_t after_ms);

/* Fills err, and issues unless NULL, from the answer to a request; returns err's rc. An answer that
 * is no problem+json is FR_PROTO. */
enum fr_rc fr_problem_read(int status, struct fr_str body, struct fr_issues *issues,
                           struct fr_err *err);

/* A mistake as issues has it, of "file:line:col: text". NULL: no memory. */
json_t *fr_problem_issue(const char *line);

/* "Not Found"; "Error" for a status that is not used here. */
const char *fr_status_phrase(int status);

#endif
