/* The filter and the order of lists.h as SQL: parts of statements.h. */
#ifndef FR_STORE_FILTER_H
#define FR_STORE_FILTER_H

#define RUN_WORD "CASE WHEN state = 'over' THEN outcome ELSE state END"

/* Runs as fr_run_filter says; index has those that fit first. */
#define RUN_WHERE(index, first)                                                                    \
    "INDEXED BY " index " WHERE " first RUN_FITS " ORDER BY no DESC LIMIT ?9"
#define RUN_FITS                                                                                   \
    "no < ?1 AND state <> 'removed' AND (?2 = '' OR name = ?2) AND (?3 = '' OR " RUN_WORD          \
    " = ?3 OR (?3 = 'live' AND state <> 'over')) AND (?4 = '' OR origin = ?4) AND "                \
    "(?5 = 0 OR schedule = ?5) AND "                                                               \
    "(?6 = 0 OR coalesce(nullif(started_wall, 0), queued_wall) >= ?6) AND "                        \
    "(?7 = 0 OR coalesce(nullif(started_wall, 0), queued_wall) < ?7) AND "                         \
    "(?8 = '' OR instr(lower(name), lower(?8)) > 0 OR instr(lower(reason), lower(?8)) > 0 OR "     \
    "no = CAST(?8 AS INTEGER))"
#define RUN_ALL RUN_WHERE("run_list", "")
#define RUN_OF_WORD RUN_WHERE("run_word", RUN_WORD " = ?3 AND ")
#define RUN_LIVE RUN_WHERE("run_open", "state <> 'over' AND ")
#define RUN_OF_NAME RUN_WHERE("run_of_name", "name = ?2 AND ")
/* As fr_run_key(); by ?10, now ?11. */
#define RUN_MS "(CASE state WHEN 'over' THEN ended_wall ELSE ?11 END - started_wall)"
#define RUN_KEY                                                                                    \
    "(CASE ?10 WHEN 1 THEN no WHEN 2 THEN -" RUN_MS " WHEN 3 THEN " RUN_MS " ELSE -ended_wall "    \
    "END)"
#define RUN_COUNT(where) "SELECT count(*) FROM (SELECT 1 FROM run " where ")"

#endif
