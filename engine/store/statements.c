/* What each statement of the store says. */
#include "engine/store/sql.h"

#define RUN_COLUMNS                                                                                \
    "SELECT id, name, source, folder, spec_hash, inventory_hash, inventory, params, state, "       \
    "outcome, reason, started_wall, ended_wall, round, host, origin, priority, queued_wall, "      \
    "not_before_wall, pinned, schedule, at_ms, backfill, retry_of, reruns, rerun_wall, "           \
    "rerun_from, notify, pool, who, late_wall, no FROM "                                           \
    "run "

#define INST_COLUMNS                                                                               \
    "idx, key, task, node, hook, state, attempt_no, attempt, attempt_state, live, go, "            \
    "generation, retries, cause, code, stop_cause, reason, due_wall, due_delay_ms, "               \
    "unreachable_wall, started_wall, ended_wall"

#define ATTEMPT_COLUMNS                                                                            \
    "id, idx, no, generation, node, rank, home_id, boot_id, state, cause, code, reason, "          \
    "address, port, log, slots, started_wall, ended_wall, done"

#define EVENT_COLUMNS                                                                              \
    "wall, idx, kind, attempt_no, cause, code, text, stop_cause, delay_ms, log_bytes, seq"

#define FIRE_COLUMNS                                                                               \
    "SELECT schedule, at_ms, first_ms, count, decision, run, decided_wall, note, outcome FROM "    \
    "fire "

#define BACKFILL_COLUMNS                                                                           \
    "SELECT schedule, from_ms, to_ms, newest, existing, params, max_active, priority, state, "     \
    "note, cursor_ms, total, made, kept, made_wall, id FROM backfill "

#define DELIVERY_COLUMNS                                                                           \
    "SELECT key, channel, rule, kind, run, name, body, state, made_wall, due_wall, tried_wall, "   \
    "tries, answer, id FROM delivery "

#define RUN_WORD "CASE WHEN state = 'over' THEN outcome ELSE state END"

/* Runs as fr_run_filter says; index has those that fit first. */
#define RUN_WHERE(index, first)                                                                    \
    "INDEXED BY " index " WHERE " first RUN_FITS " ORDER BY no DESC LIMIT ?9"
#define RUN_FITS                                                                                   \
    "no < ?1 AND state <> 'removed' AND (?2 = '' OR name = ?2) AND (?3 = '' OR " RUN_WORD          \
    " = ?3 OR "                                                                                    \
    "(?3 = 'live' AND state <> 'over')) AND (?4 = '' OR origin = ?4) AND "                         \
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

/* At most ?2 rows of run ?1. */
#define CUT(table, key)                                                                            \
    "DELETE FROM " table " WHERE (" key ") IN (SELECT " key " FROM " table                         \
    " WHERE run = ?1 LIMIT ?2)"

const char *const store_statements[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_HOME_GET] = "SELECT id FROM home",
    [SQL_HOST_GET] = "SELECT epoch FROM home",
    [SQL_HOST_SET] = "UPDATE home SET epoch = ?",
    [SQL_HOME_PUT] = "INSERT INTO home(one, id, made_wall) VALUES(1, ?, ?)",
    [SQL_RUN_ADD] = /* the row has its id: ?1 is not used */
    "INSERT INTO run(id, no, name, source, folder, spec_hash, inventory_hash, inventory, "
    "params, state, outcome, reason, started_wall, ended_wall, round, host, origin, priority, "
    "queued_wall, not_before_wall, pinned, schedule, at_ms, backfill, retry_of, reruns, "
    "rerun_wall, "
    "rerun_from, notify, pool, who, late_wall) VALUES(?2, "
    "(SELECT max(coalesce((SELECT max(no) FROM run), 0), last_no) + 1 FROM home), ?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_RUN_NO] = "SELECT no FROM run WHERE id = ?",
    [SQL_RUN_SET] = "UPDATE run SET state = ?, outcome = ?, reason = ?, ended_wall = ?, "
                    "round = ?, source = ?, spec_hash = ?, inventory = ?, inventory_hash = ?, "
                    "params = ?, started_wall = ?, queued_wall = ?, reruns = ?, rerun_wall = ?, "
                    "rerun_from = ?, notify = ?, pool = ?, late_wall = ? "
                    "WHERE id = ?",
    [SQL_RUN_HOST] = "UPDATE run SET host = ? WHERE id = ?",
    [SQL_RUN_LIST] = RUN_COLUMNS "WHERE state <> 'removed' ORDER BY no DESC LIMIT ?",
    [SQL_RUN_OPEN] = RUN_COLUMNS "INDEXED BY run_open WHERE state <> 'over' AND "
                                 "state <> 'removed' ORDER BY no DESC",
    [SQL_RUN_BY_NO] = RUN_COLUMNS "WHERE no = ? AND state <> 'removed'",
    [SQL_RUN_BY_ID] = RUN_COLUMNS "WHERE id BETWEEN coalesce(?, zeroblob(16)) AND ? "
                                  "AND state <> 'removed' ORDER BY no DESC",
    [SQL_RUN_OVER] = "SELECT id, no, name, outcome, ended_wall, pinned FROM run "
                     "WHERE state = 'over' AND rerun_wall = 0 AND NOT EXISTS(SELECT 1 FROM "
                     "backfill WHERE backfill.id = run.backfill AND backfill.state IN ('active', "
                     "'paused')) ORDER BY no DESC",
    [SQL_RUN_UNFETCHED] = "SELECT id, no FROM run INDEXED BY run_unfetched "
                          "WHERE state = 'over' AND host <> 0 ORDER BY no",
    [SQL_RUN_LIVE] =
        RUN_COLUMNS "WHERE id IN (SELECT id FROM run INDEXED BY run_open WHERE state <> 'over' AND "
                    "state <> 'removed' UNION ALL SELECT id FROM run INDEXED BY run_rerun "
                    "WHERE rerun_wall <> 0) ORDER BY no DESC",
    [SQL_RERUNS] = RUN_COLUMNS "INDEXED BY run_rerun WHERE rerun_wall <> 0 ORDER BY rerun_wall, no",
    [SQL_RERUN_DROP] = "UPDATE run SET rerun_wall = 0, rerun_from = '' WHERE id = ?",
    [SQL_RUN_PIN] = "UPDATE run SET pinned = ? WHERE id = ? AND state <> 'removed'",
    [SQL_RUN_PRIORITY] = "UPDATE run SET priority = ? WHERE id = ? AND state = 'queued'",
    [SQL_RUN_REMOVE] =
        "UPDATE run SET state = 'removed' WHERE id = ? AND state = 'over' AND pinned = 0 "
        "AND rerun_wall = 0",
    [SQL_RUN_REMOVED] = "SELECT id FROM run INDEXED BY run_open "
                        "WHERE state = 'removed' AND state <> 'over' AND "
                        "id > coalesce(?, x'') ORDER BY id LIMIT 1",
    [SQL_RUN_HASHES] = "SELECT spec_hash, inventory_hash FROM run WHERE id = ?",
    [SQL_RUN_FORGET] = "DELETE FROM run WHERE id = ?",
    [SQL_RUN_REMOVE_OLD] = /* unless its backfill goes on */
    "UPDATE run SET state = 'removed' WHERE id = ? AND ended_wall = ? AND state = 'over' AND "
    "pinned = 0 AND rerun_wall = 0 AND NOT EXISTS(SELECT 1 FROM backfill WHERE "
    "backfill.id = run.backfill AND backfill.state IN ('active', 'paused'))",
    [SQL_AUDIT_ADD] = "INSERT INTO audit(wall, what, run, name, outcome, ended_wall) "
                      "SELECT ?1, 'removed', no, name, outcome, ended_wall FROM run WHERE id = ?2",
    [SQL_AUDIT_PRUNE] = "DELETE FROM audit WHERE id IN (SELECT id FROM audit ORDER BY id LIMIT 10) "
                        "AND wall < ?",
    [SQL_AUDIT_OF] = "SELECT wall, name, outcome FROM audit WHERE run = ? AND what = 'removed'",
    [SQL_LAST_NO] = "UPDATE home SET last_no = max(last_no, (SELECT no FROM run WHERE id = ?))",
    [SQL_CUT_EVENTS] = CUT("event", "run, seq"),
    [SQL_CUT_ATTEMPTS] = CUT("attempt", "run, idx, no, id"),
    [SQL_CUT_INSTS] = CUT("instance", "run, idx"),
    [SQL_CUT_OUTPUTS] = CUT("output", "run, idx, key"),
    [SQL_CUT_NODES] = CUT("node", "run, name"),
    [SQL_FILE_NEXT] = "SELECT path, hash FROM file WHERE run = ? LIMIT ?",
    [SQL_FILE_FORGET] = "DELETE FROM file WHERE run = ? AND path = ?",
    [SQL_PAGES] = "PRAGMA page_count",
    [SQL_PAGES_FREE] = "PRAGMA freelist_count",
    [SQL_TRIM] = "PRAGMA incremental_vacuum(256)",
    [SQL_TRIMMED] = "PRAGMA auto_vacuum = INCREMENTAL",
    [SQL_VACUUM] = "VACUUM",
    [SQL_CHECKPOINT] = "PRAGMA wal_checkpoint(TRUNCATE)",
    [SQL_BLOB_NAMED] =
        "SELECT EXISTS(SELECT 1 FROM run WHERE spec_hash = ?1 AND state <> 'removed') OR "
        "EXISTS(SELECT 1 FROM run WHERE inventory_hash = ?1 AND inventory_hash <> '' "
        "AND state <> 'removed') OR "
        "EXISTS(SELECT 1 FROM file JOIN run ON run.id = file.run WHERE hash = ?1 "
        "AND state <> 'removed')",
    [SQL_INST_PUT] = "INSERT OR REPLACE INTO instance(run, " INST_COLUMNS ") "
                     "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_INST_LIST] = "SELECT " INST_COLUMNS " FROM instance WHERE run = ? ORDER BY idx",
    [SQL_INST_FAILED] = "SELECT " INST_COLUMNS " FROM instance WHERE run = ? AND "
                        "state IN ('failed', 'timed_out', 'lost', 'stop_unproven') AND "
                        "cause <> 'gang_peer' ORDER BY hook <> '', ended_wall, idx LIMIT 1",
    [SQL_INST_READY] = "SELECT DISTINCT task FROM instance WHERE run = ? AND state = 'ready' "
                       "AND live = 0 ORDER BY task",
    [SQL_INST_ANY_READY] =
        "SELECT EXISTS (SELECT 1 FROM instance WHERE run = ? AND state = 'ready')",
    [SQL_INST_CLEAR] = "DELETE FROM instance WHERE run = ?",
    [SQL_OUTPUT_CLEAR_ALL] = "DELETE FROM output WHERE run = ?",
    [SQL_ATTEMPT_PUT] = "INSERT OR REPLACE INTO attempt(run, " ATTEMPT_COLUMNS ") "
                        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_ATTEMPT_HELD] =
        "SELECT a.run, a.id, a.home_id, a.slots, r.no, i.key, i.state FROM run r "
        "INDEXED BY run_open "
        "JOIN instance i ON i.run = r.id JOIN attempt a ON a.run = i.run AND a.idx = i.idx AND "
        "a.no = i.attempt_no AND a.id = i.attempt WHERE r.state <> 'over' AND "
        "r.state <> 'removed' AND i.live <> 0 AND a.home_id IS NOT NULL ORDER BY r.no, i.idx",
    [SQL_ATTEMPT_DONE] =
        "UPDATE attempt SET done = 1 WHERE run = ? AND idx = ? AND no = ? AND id = ?",
    [SQL_LACKS_OUTPUT] = /* what may live is stopped, not fetched */
    "SELECT 1 FROM attempt WHERE run = ? AND idx >= 0 AND done = 0 AND ended_wall <> 0 AND "
    "state <> 'stop_unproven' LIMIT 1",
    [SQL_ATTEMPT_CLEAR] = "DELETE FROM attempt WHERE run = ?",
    [SQL_ATTEMPT_LIST] = "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE run = ? ORDER BY idx, no",
    [SQL_OUTPUT_PUT] = "INSERT OR REPLACE INTO output(run, idx, key, value) VALUES(?, ?, ?, ?)",
    [SQL_OUTPUT_CLEAR] = "DELETE FROM output WHERE run = ? AND idx = ?",
    [SQL_OUTPUT_LIST] = "SELECT idx, key, value FROM output WHERE run = ? ORDER BY idx, key",
    [SQL_NODE_PUT] =
        "INSERT INTO node(run, name, home_id, boot_id, folder, unreachable_wall, abandoned) "
        "VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(run, name) DO UPDATE SET "
        "home_id = excluded.home_id, boot_id = excluded.boot_id, folder = excluded.folder, "
        "unreachable_wall = excluded.unreachable_wall, abandoned = excluded.abandoned",
    [SQL_NODE_HOME] = /* the runs from the newest one on */
    "SELECT home FROM (SELECT home, 0 AS last FROM drained WHERE name = ?1 UNION ALL "
    "SELECT * FROM (SELECT node.home_id, 1 FROM run CROSS JOIN node ON node.run = run.id AND "
    "node.name = ?1 WHERE node.home_id IS NOT NULL AND run.state <> 'removed' ORDER BY run.no DESC "
    "LIMIT 1)) ORDER BY last LIMIT 1",
    [SQL_NODE_KNOWN] = /* home_id is that of the row with the largest number */
    "SELECT name, home_id, wall FROM (SELECT node.name, node.home_id, max(r.no), "
    "CASE r.ended_wall WHEN 0 THEN r.started_wall ELSE r.ended_wall END AS wall FROM (SELECT id, "
    "no, started_wall, ended_wall FROM run WHERE state <> 'removed' ORDER BY no DESC LIMIT ?) AS r "
    "CROSS JOIN node ON node.run = r.id WHERE node.home_id IS NOT NULL GROUP BY node.name) "
    "ORDER BY name",
    [SQL_DRAINED] = "SELECT home, name, wall, note, who FROM drained ORDER BY name, home",
    [SQL_DRAIN] = "INSERT OR REPLACE INTO drained(home, name, wall, note, who) "
                  "VALUES(?, ?, ?, ?, ?)",
    [SQL_UNDRAIN] = "DELETE FROM drained WHERE home = ?",
    [SQL_NODE_LIST] = "SELECT name, home_id, boot_id, folder, unreachable_wall, abandoned "
                      "FROM node WHERE run = ? ORDER BY name",
    [SQL_EVENT_ADD] = /* again after a commit that failed: the same row */
    "INSERT OR REPLACE INTO event(run, " EVENT_COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, "
    "?8, ?9, ?10, ?11, "
    "coalesce(nullif(?12, 0), (SELECT coalesce(max(seq), 0) + 1 FROM event WHERE run = ?1)))",
    [SQL_EVENT_MOVE] = "UPDATE event SET idx = ? WHERE run = ? AND seq = ?",
    [SQL_EVENT_TOLD] = "SELECT " EVENT_COLUMNS " FROM event WHERE run = ? AND "
                       "kind IN ('stalled', 'progress', 'not_finite') ORDER BY seq",
    [SQL_EVENT_LIST] = "SELECT " EVENT_COLUMNS " FROM event WHERE run = ? AND seq > ? ORDER BY seq "
                       "LIMIT 1000",
    [SQL_OUTPUT_OF] = "SELECT idx, key, value FROM output WHERE run = ? AND idx = ? ORDER BY key",
    [SQL_RUN_SPEC] = "SELECT spec_hash FROM run WHERE id = ?",
    [SQL_EVENT_LAST] = "SELECT coalesce(max(seq), 0) FROM event WHERE run = ?",
    [SQL_ROUND_BEGAN] = "SELECT wall FROM event WHERE run = ? AND idx = -1 AND kind = 'running' "
                        "ORDER BY seq DESC LIMIT 1",
    [SQL_FILE_PUT] =
        "INSERT OR REPLACE INTO file(run, path, hash, mode, bytes) VALUES(?, ?, ?, ?, ?)",
    [SQL_FILE_LIST] = "SELECT path, hash, mode, bytes FROM file WHERE run = ? ORDER BY path",
    [SQL_SHIPPED_PUT] =
        "INSERT OR REPLACE INTO shipped(run, path, exclude, hash) VALUES(?, ?, ?, ?)",
    [SQL_SHIPPED_LIST] = "SELECT path, exclude, hash FROM shipped WHERE run = ? ORDER BY path",
    [SQL_SCHEDULE_ADD] = /* no run of one that was dropped names its id */
    "INSERT INTO schedule(id, source, name, pipeline, rule, fingerprint, state, state_wall, note, "
    "gone_wall, seen_ms, since_ms) VALUES(1 + max((SELECT coalesce(max(id), 0) FROM schedule), "
    "(SELECT coalesce(max(schedule), 0) FROM run WHERE schedule <> 0)), "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_SCHEDULE_SET] =
        "UPDATE schedule SET pipeline = ?, rule = ?, fingerprint = ?, state = ?, state_wall = ?, "
        "note = ?, gone_wall = ?, seen_ms = ?, since_ms = ? WHERE id = ?",
    [SQL_SCHEDULE_SEEN] = "UPDATE schedule SET seen_ms = ? WHERE id = ?",
    [SQL_SCHEDULE_LIST] =
        "SELECT source, name, pipeline, rule, fingerprint, state, state_wall, note, gone_wall, "
        "seen_ms, since_ms, id FROM schedule ORDER BY source, name",
    [SQL_SCHEDULE_DROP] = "DELETE FROM schedule WHERE id = ?",
    [SQL_FIRE_ADD] = "INSERT INTO fire(schedule, at_ms, first_ms, count, decision, run, "
                     "decided_wall, note) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_FIRE_SET] = "UPDATE fire SET decision = ?, run = ?, note = ? "
                     "WHERE schedule = ? AND at_ms = ?",
    [SQL_FIRE_DROP] = "DELETE FROM fire WHERE schedule = ? AND at_ms = ?",
    [SQL_FIRE_SUCCEEDED] = "SELECT at_ms FROM fire WHERE schedule = ? AND at_ms < ? AND "
                           "outcome = 'succeeded' ORDER BY at_ms DESC LIMIT 1",
    [SQL_FIRE_NEWER] = "SELECT run FROM fire WHERE schedule = ? AND at_ms > ? AND "
                       "outcome = 'succeeded' ORDER BY at_ms LIMIT 1",
    [SQL_FIRES_AFTER] = FIRE_COLUMNS "WHERE schedule = ? AND at_ms > ? ORDER BY at_ms",
    [SQL_FIRES_BEFORE] =
        FIRE_COLUMNS "WHERE schedule = ? AND at_ms < ? ORDER BY at_ms DESC LIMIT ?",
    [SQL_FIRES_ENDED] = FIRE_COLUMNS "WHERE schedule = ? AND at_ms < ? AND outcome <> '' "
                                     "ORDER BY at_ms DESC LIMIT ?",
    [SQL_FIRES_PRUNE] =
        "DELETE FROM fire WHERE (schedule, at_ms) IN (SELECT schedule, at_ms FROM fire "
        "WHERE schedule = ? AND at_ms < ? LIMIT ?)",
    [SQL_SCHEDULE_FILE_PUT] =
        "INSERT OR REPLACE INTO schedule_file(path, text, error, error_wall) VALUES(?, ?, ?, ?)",
    [SQL_SCHEDULE_FILE_DROP] = "DELETE FROM schedule_file WHERE path = ?",
    [SQL_SCHEDULE_FILES] = "SELECT path, text, error, error_wall FROM schedule_file ORDER BY path",
    [SQL_BACKFILL_ADD] =
        "INSERT INTO backfill(id, schedule, from_ms, to_ms, newest, existing, params, max_active, "
        "priority, state, cursor_ms, total, made_wall) VALUES(1 + max((SELECT coalesce(max(id), 0) "
        "FROM backfill), (SELECT coalesce(max(backfill), 0) FROM run)), "
        "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_BACKFILL_SET] = "UPDATE backfill SET state = ?, note = ?, cursor_ms = ?, made = ?, "
                         "kept = ? WHERE id = ?",
    [SQL_BACKFILL_LIST] = BACKFILL_COLUMNS "ORDER BY id DESC",
    [SQL_BACKFILL_OPEN] = BACKFILL_COLUMNS "WHERE state = 'active' ORDER BY id",
    [SQL_BACKFILL_GET] = BACKFILL_COLUMNS "WHERE id = ?",
    [SQL_BACKFILL_LIVE] =
        "SELECT (SELECT count(*) FROM run INDEXED BY run_open WHERE state <> 'over' AND "
        "state <> 'removed' AND backfill = ?1) + (SELECT count(*) FROM run INDEXED BY run_rerun "
        "WHERE rerun_wall <> 0 AND backfill = ?1)",
    [SQL_INSTANT_RUN] =
        "SELECT no, CASE WHEN state = 'over' AND rerun_wall = 0 THEN outcome ELSE 'live' END w "
        "FROM run WHERE schedule <> 0 AND schedule = ? AND at_ms = ? AND state <> 'removed' "
        "ORDER BY w = 'live' DESC, w = 'succeeded' DESC, no DESC LIMIT 1",
    [SQL_INSTANT_FIRE] =
        "SELECT run, outcome FROM fire WHERE schedule = ? AND at_ms = ? AND outcome <> ''",
    [SQL_FIRE_FILL] = "INSERT OR IGNORE INTO fire(schedule, at_ms, first_ms, count, decision, run, "
                      "decided_wall) VALUES(?1, ?2, ?2, 1, 'ran', ?3, ?4)",
    [SQL_KEPT_GET] =
        "SELECT request, status, location, body FROM answer WHERE who = ? AND key = ? AND wall > ?",
    [SQL_KEPT_PUT] =
        "INSERT OR REPLACE INTO answer(who, key, wall, request, status, location, body) "
        "VALUES(?, ?, ?, ?, ?, ?, ?)",
    [SQL_KEPT_PRUNE] = "DELETE FROM answer WHERE wall <= ?",
    [SQL_RUN_WHERE] = RUN_COLUMNS RUN_ALL,
    [SQL_RUN_WHERE_WORD] = RUN_COLUMNS RUN_OF_WORD,
    [SQL_RUN_WHERE_LIVE] = RUN_COLUMNS RUN_LIVE,
    [SQL_RUN_WHERE_NAME] = RUN_COLUMNS RUN_OF_NAME,
    [SQL_RUN_SORTED] =
        RUN_COLUMNS "WHERE " RUN_FITS " AND (?10 NOT IN (2, 3) OR started_wall <> 0) AND "
                    "(?10 <> 4 OR state = 'over') AND (?13 = 0 OR " RUN_KEY " > ?12 OR (" RUN_KEY
                    " = ?12 AND no < ?13)) ORDER BY " RUN_KEY ", no DESC LIMIT ?9",
    [SQL_RUN_COUNT] = RUN_COUNT(RUN_ALL),
    [SQL_RUN_COUNT_WORD] = RUN_COUNT(RUN_OF_WORD),
    [SQL_RUN_COUNT_LIVE] = RUN_COUNT(RUN_LIVE),
    [SQL_RUN_COUNT_NAME] = RUN_COUNT(RUN_OF_NAME),
    [SQL_RUN_NEWEST] = RUN_COLUMNS "WHERE no IN (SELECT max(no) FROM run WHERE state <> 'removed' "
                                   "GROUP BY name) ORDER BY name",
    [SQL_RUN_SUCCESSES] =
        "WITH RECURSIVE names(name) AS (SELECT min(name) FROM run UNION ALL SELECT (SELECT "
        "min(name) FROM run WHERE name > names.name) FROM names WHERE names.name IS NOT NULL) "
        "SELECT name, (SELECT ended_wall FROM run INDEXED BY run_of_name WHERE run.name = "
        "names.name AND state = 'over' AND outcome = 'succeeded' ORDER BY no DESC LIMIT 1) "
        "FROM names WHERE name IS NOT NULL LIMIT ?",
    [SQL_RUN_MEDIAN] =
        "WITH last AS (SELECT outcome, ended_wall - started_wall ms FROM run WHERE name = ? AND "
        "state = 'over' ORDER BY no DESC LIMIT ?), took AS (SELECT ms FROM last WHERE "
        "outcome = 'succeeded') SELECT ms FROM took "
        "ORDER BY ms LIMIT 1 OFFSET (SELECT count(*) / 2 FROM took)",
    [SQL_INST_STATES] = "SELECT task, state, hook FROM instance WHERE run = ? ORDER BY idx",
    [SQL_TOKEN_ADD] = "INSERT INTO token(name, role, hash, made_wall, ends_wall) "
                      "VALUES(?, ?, ?, ?, ?) ON CONFLICT(name) DO NOTHING",
    [SQL_TOKEN_LIST] =
        "SELECT name, role, hash, made_wall, ends_wall, used_wall, id FROM token ORDER BY name",
    [SQL_TOKEN_USED] = "UPDATE token SET used_wall = ? WHERE id = ?",
    [SQL_TOKEN_DROP] = "DELETE FROM token WHERE name = ?",
    [SQL_SESSION_PUT] =
        "INSERT OR REPLACE INTO session(hash, token, made_wall, used_wall) VALUES(?, ?, ?, ?)",
    [SQL_SESSION_LIST] = "SELECT hash, token, made_wall, used_wall FROM session ORDER BY used_wall",
    [SQL_SESSION_DROP] = "DELETE FROM session WHERE hash = ?",
    [SQL_SESSION_DROP_OF] =
        "DELETE FROM session WHERE token IN (SELECT id FROM token WHERE name = ?)",
    [SQL_ASKED_ADD] = "INSERT INTO audit(wall, what, run, name, outcome, ended_wall, who, address) "
                      "VALUES(?, 'asked', ?, ?, ?, 0, ?, ?)",
    [SQL_AUDIT_LIST] = "SELECT wall, what, run, name, outcome, who, address, id FROM audit "
                       "WHERE id < ? ORDER BY id DESC LIMIT ?",
    [SQL_AUDIT_ASKED] = "SELECT wall, what, run, name, outcome, who, address, id FROM audit "
                        "WHERE run = ? AND what = 'asked' ORDER BY id DESC LIMIT ?",
    [SQL_NOTIFIES] = "SELECT notifies FROM home",
    [SQL_NOTIFIES_SET] = "UPDATE home SET notifies = ?",
    [SQL_NOTICE_LIST] =
        "SELECT id, kind, wall, run, name, subject, text FROM notice ORDER BY id LIMIT ?",
    [SQL_NOTICE_DROP] = "DELETE FROM notice WHERE id = ?",
    [SQL_DELIVERY_ADD] =
        "INSERT OR IGNORE INTO delivery(key, channel, rule, kind, run, name, body, state, "
        "made_wall, due_wall, answer) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [SQL_DELIVERY_PRUNE] =
        "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery ORDER BY id LIMIT 10) AND "
        "state <> 'waiting' AND made_wall < ?",
    [SQL_DELIVERY_SET] = "UPDATE delivery SET state = ?, made_wall = ?, due_wall = ?, "
                         "tried_wall = ?, tries = ?, answer = ? WHERE id = ?",
    [SQL_NOTICE_ADD] = "INSERT INTO notice(kind, wall, run, name, subject, text) "
                       "SELECT ?, ?, 0, '', ?, ? FROM home WHERE notifies <> 0",
    [SQL_DELIVERY_QUIET] = "SELECT min(due_wall) FROM delivery INDEXED BY delivery_quiet "
                           "WHERE state = 'quiet'",
    [SQL_DELIVERY_WAKE] = "UPDATE delivery INDEXED BY delivery_quiet SET state = 'waiting' "
                          "WHERE state = 'quiet' AND due_wall <= ?",
    [SQL_DELIVERY_NEXT] =
        DELIVERY_COLUMNS "WHERE id IN (SELECT min(id) FROM delivery INDEXED BY delivery_waiting "
                         "WHERE state = 'waiting' GROUP BY channel) ORDER BY id",
    [SQL_DELIVERY_LIST] =
        DELIVERY_COLUMNS "WHERE id < ?1 AND (?2 = 0 OR run = ?2) AND (?3 = '' OR channel = ?3) AND "
                         "(?4 = '' OR state = ?4) ORDER BY id DESC LIMIT ?5",
    [SQL_DELIVERY_GET] = DELIVERY_COLUMNS "WHERE id = ?",
    [SQL_DELIVERY_WAITING] = "SELECT count(*) FROM delivery INDEXED BY delivery_waiting WHERE "
                             "state = 'waiting' AND channel = ?",
    [SQL_DELIVERY_DEAD] =
        "SELECT count(*) FROM delivery WHERE channel = ?1 AND state = 'dead' AND tries > 0 AND "
        "id > (SELECT coalesce(max(id), 0) FROM delivery WHERE channel = ?1 AND state = 'sent')",
    [SQL_THROTTLE] =
        "WITH same AS (SELECT id, state, made_wall FROM delivery WHERE rule = ?1 AND name = ?2 "
        "AND kind = ?3 AND channel = ?4), last AS (SELECT coalesce(max(id), 0) id, "
        "coalesce(max(made_wall), 0) wall FROM same WHERE state <> 'held') "
        "SELECT wall, (SELECT count(*) FROM same WHERE same.id > last.id) FROM last",
    [SQL_OUTCOME_BEFORE] =
        "SELECT outcome FROM run INDEXED BY run_of_name WHERE name = ? AND no < ? AND "
        "state = 'over' AND outcome <> 'cancelled' ORDER BY no DESC LIMIT 1",
    [SQL_CHANNEL_ON] = "DELETE FROM channel_off WHERE name = ?",
    [SQL_CHANNEL_OFF] = "INSERT INTO channel_off(name, wall, note) VALUES(?, ?, ?)",
    [SQL_CHANNEL_GIVE_UP] =
        "UPDATE delivery SET state = 'dead', answer = ? WHERE channel = ? AND state = 'waiting'",
    [SQL_CHANNEL_NOTE] = "SELECT note FROM channel_off WHERE name = ?",
    [SQL_HASH_LIST] = "SELECT spec_hash FROM run UNION "
                      "SELECT inventory_hash FROM run WHERE inventory_hash <> '' UNION "
                      "SELECT hash FROM file ORDER BY 1",
};
