/* What each statement of the store says. */
#include "engine/store/sql.h"

#define RUNS "SELECT $run FROM run "
#define BACKFILLS "SELECT $backfill FROM backfill "
#define DELIVERIES "SELECT $delivery FROM delivery "
#define FIRES "SELECT $fire FROM fire "

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
    [SQL_RUN_ADD] =
        "INSERT INTO run(no, $run-no) VALUES((SELECT max(coalesce((SELECT max(no) FROM run), 0), "
        "last_no) + 1 FROM home), :$run-no)",
    [SQL_RUN_NO] = "SELECT no FROM run WHERE id = ?",
    [SQL_RUN_SET] =
        "UPDATE run SET state = :state, outcome = :outcome, reason = :reason, ended_wall = "
        ":ended_wall, "
        "round = :round, source = :source, spec_hash = :spec_hash, inventory = :inventory, "
        "inventory_hash = :inventory_hash, params = :params, started_wall = :started_wall, "
        "queued_wall = :queued_wall, reruns = :reruns, rerun_wall = :rerun_wall, rerun_from = "
        ":rerun_from, "
        "notify = :notify, pool = :pool, late_wall = :late_wall WHERE id = :id",
    [SQL_RUN_HOST] = "UPDATE run SET host = ? WHERE id = ?",
    [SQL_RUN_LIST] = RUNS "WHERE state <> 'removed' ORDER BY no DESC LIMIT ?",
    [SQL_RUN_OPEN] = RUNS "INDEXED BY run_open WHERE state <> 'over' AND "
                          "state <> 'removed' ORDER BY no DESC",
    [SQL_RUN_BY_NO] = RUNS "WHERE no = ? AND state <> 'removed'",
    [SQL_RUN_BY_ID] = RUNS "WHERE id BETWEEN coalesce(?, zeroblob(16)) AND ? "
                           "AND state <> 'removed' ORDER BY no DESC",
    [SQL_RUN_OVER] = "SELECT id, no, name, outcome, ended_wall, pinned FROM run "
                     "WHERE state = 'over' AND rerun_wall = 0 AND NOT EXISTS(SELECT 1 FROM "
                     "backfill WHERE backfill.id = run.backfill AND backfill.state IN ('active', "
                     "'paused')) ORDER BY no DESC",
    [SQL_RUN_UNFETCHED] = "SELECT id AS run, no FROM run INDEXED BY run_unfetched "
                          "WHERE state = 'over' AND host <> 0 ORDER BY no",
    [SQL_RUN_LIVE] =
        RUNS "WHERE id IN (SELECT id FROM run INDEXED BY run_open WHERE state <> 'over' AND "
             "state <> 'removed' UNION ALL SELECT id FROM run INDEXED BY run_rerun "
             "WHERE rerun_wall <> 0) ORDER BY no DESC",
    [SQL_RERUNS] = RUNS "INDEXED BY run_rerun WHERE rerun_wall <> 0 ORDER BY rerun_wall, no",
    [SQL_RERUN_DROP] = "UPDATE run SET rerun_wall = 0, rerun_from = '' WHERE id = ?",
    [SQL_RUN_PIN] = "UPDATE run SET pinned = ? WHERE id = ? AND state <> 'removed'",
    [SQL_RUN_PRIORITY] = "UPDATE run SET priority = ? WHERE id = ? AND state = 'queued'",
    [SQL_RUN_REMOVE] =
        "UPDATE run SET state = 'removed' WHERE id = ? AND state = 'over' AND pinned = 0 "
        "AND rerun_wall = 0",
    [SQL_RUN_REMOVED] = "SELECT id FROM run INDEXED BY run_open "
                        "WHERE state = 'removed' AND state <> 'over' AND "
                        "id > coalesce(?, x'') ORDER BY id LIMIT 1",
    [SQL_RUN_HASHES] = "SELECT spec_hash AS path, inventory_hash AS hash FROM run WHERE id = ?",
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
    [SQL_INST_PUT] = "INSERT OR REPLACE INTO instance(run, $instance) VALUES(:run, :$instance)",
    [SQL_INST_LIST] = "SELECT $instance FROM instance WHERE run = ? ORDER BY idx",
    [SQL_INST_FAILED] = "SELECT $instance FROM instance WHERE run = ? AND "
                        "state IN ('failed', 'timed_out', 'lost', 'stop_unproven') AND "
                        "cause <> 'gang_peer' ORDER BY hook <> '', ended_wall, idx LIMIT 1",
    [SQL_INST_READY] = "SELECT DISTINCT task FROM instance WHERE run = ? AND state = 'ready' "
                       "AND live = 0 ORDER BY task",
    [SQL_INST_ANY_READY] =
        "SELECT EXISTS (SELECT 1 FROM instance WHERE run = ? AND state = 'ready')",
    [SQL_INST_CLEAR] = "DELETE FROM instance WHERE run = ?",
    [SQL_OUTPUT_CLEAR_ALL] = "DELETE FROM output WHERE run = ?",
    [SQL_ATTEMPT_PUT] = "INSERT OR REPLACE INTO attempt(run, $attempt) VALUES(:run, :$attempt)",
    [SQL_ATTEMPT_HELD] =
        "SELECT a.run AS run, a.id AS attempt, a.home_id AS home, a.slots AS slots, r.no AS no, "
        "i.key AS key, i.state AS state FROM run r "
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
    [SQL_ATTEMPT_LIST] = "SELECT $attempt FROM attempt WHERE run = ? ORDER BY idx, no",
    [SQL_OUTPUT_PUT] = "INSERT OR REPLACE INTO output(run, $output) VALUES(:run, :$output)",
    [SQL_OUTPUT_CLEAR] = "DELETE FROM output WHERE run = ? AND idx = ?",
    [SQL_OUTPUT_LIST] = "SELECT $output FROM output WHERE run = ? ORDER BY idx, key",
    [SQL_NODE_PUT] =
        "INSERT INTO node(run, $node) VALUES(:run, :$node) ON CONFLICT(run, name) DO UPDATE SET "
        "home_id = excluded.home_id, boot_id = excluded.boot_id, folder = excluded.folder, "
        "unreachable_wall = excluded.unreachable_wall, abandoned = excluded.abandoned",
    [SQL_NODE_HOME] = /* the runs from the newest one on */
    "SELECT home FROM (SELECT home, 0 AS last FROM drained WHERE name = ?1 UNION ALL "
    "SELECT * FROM (SELECT node.home_id, 1 FROM run CROSS JOIN node ON node.run = run.id AND "
    "node.name = ?1 WHERE node.home_id IS NOT NULL AND run.state <> 'removed' ORDER BY run.no DESC "
    "LIMIT 1)) ORDER BY last LIMIT 1",
    [SQL_NODE_KNOWN] = /* home_id is that of the row with the largest number */
    "SELECT name, home_id AS home, wall FROM (SELECT node.name, node.home_id, max(r.no), "
    "CASE r.ended_wall WHEN 0 THEN r.started_wall ELSE r.ended_wall END AS wall FROM (SELECT id, "
    "no, started_wall, ended_wall FROM run WHERE state <> 'removed' ORDER BY no DESC LIMIT ?) AS r "
    "CROSS JOIN node ON node.run = r.id WHERE node.home_id IS NOT NULL GROUP BY node.name) "
    "ORDER BY name",
    [SQL_DRAINED] = "SELECT $drained FROM drained ORDER BY name, home",
    [SQL_DRAIN] = "INSERT OR REPLACE INTO drained($drained) VALUES(:$drained)",
    [SQL_UNDRAIN] = "DELETE FROM drained WHERE home = ?",
    [SQL_NODE_LIST] = "SELECT $node FROM node WHERE run = ? ORDER BY name",
    [SQL_EVENT_ADD] = /* again after a commit that failed: the same row */
    "INSERT OR REPLACE INTO event(run, seq, $event-seq) VALUES(:run, coalesce(nullif(:seq, 0), "
    "(SELECT coalesce(max(seq), 0) + 1 FROM event WHERE run = :run)), :$event-seq)",
    [SQL_EVENT_MOVE] = "UPDATE event SET idx = ? WHERE run = ? AND seq = ?",
    [SQL_EVENT_TOLD] = "SELECT $event FROM event WHERE run = ? AND "
                       "kind IN ('stalled', 'progress', 'not_finite') ORDER BY seq",
    [SQL_EVENT_LIST] = "SELECT $event FROM event WHERE run = ? AND seq > ? ORDER BY seq "
                       "LIMIT 1000",
    [SQL_OUTPUT_OF] = "SELECT $output FROM output WHERE run = ? AND idx = ? ORDER BY key",
    [SQL_RUN_SPEC] = "SELECT spec_hash FROM run WHERE id = ?",
    [SQL_EVENT_LAST] = "SELECT coalesce(max(seq), 0) FROM event WHERE run = ?",
    [SQL_ROUND_BEGAN] = "SELECT wall FROM event WHERE run = ? AND idx = -1 AND kind = 'running' "
                        "ORDER BY seq DESC LIMIT 1",
    [SQL_FILE_PUT] = "INSERT OR REPLACE INTO file(run, $file) VALUES(:run, :$file)",
    [SQL_FILE_LIST] = "SELECT $file FROM file WHERE run = ? ORDER BY path",
    [SQL_SHIPPED_PUT] = "INSERT OR REPLACE INTO shipped(run, $shipped) VALUES(:run, :$shipped)",
    [SQL_SHIPPED_LIST] = "SELECT $shipped FROM shipped WHERE run = ? ORDER BY path",
    [SQL_SCHEDULE_ADD] = /* no run of one that was dropped names its id */
    "INSERT INTO schedule(id, $schedule-id) VALUES(1 + max((SELECT coalesce(max(id), 0) FROM "
    "schedule), (SELECT coalesce(max(schedule), 0) FROM run WHERE schedule <> 0)), :$schedule-id)",
    [SQL_SCHEDULE_SET] =
        "UPDATE schedule SET pipeline = :pipeline, rule = :rule, fingerprint = :fingerprint, "
        "state = :state, state_wall = :state_wall, note = :note, gone_wall = :gone_wall, "
        "seen_ms = :seen_ms, since_ms = :since_ms WHERE id = :id",
    [SQL_SCHEDULE_SEEN] = "UPDATE schedule SET seen_ms = ? WHERE id = ?",
    [SQL_SCHEDULE_LIST] = "SELECT $schedule FROM schedule ORDER BY source, name",
    [SQL_SCHEDULE_DROP] = "DELETE FROM schedule WHERE id = ?",
    [SQL_FIRE_ADD] = "INSERT INTO fire($fire-outcome) VALUES(:$fire-outcome)",
    [SQL_FIRE_SET] = "UPDATE fire SET decision = :decision, run = :run, note = :note WHERE "
                     "schedule = :schedule AND at_ms = :at_ms",
    [SQL_FIRE_DROP] = "DELETE FROM fire WHERE schedule = ? AND at_ms = ?",
    [SQL_FIRE_SUCCEEDED] = "SELECT at_ms FROM fire WHERE schedule = ? AND at_ms < ? AND "
                           "outcome = 'succeeded' ORDER BY at_ms DESC LIMIT 1",
    [SQL_FIRE_NEWER] = "SELECT run FROM fire WHERE schedule = ? AND at_ms > ? AND "
                       "outcome = 'succeeded' ORDER BY at_ms LIMIT 1",
    [SQL_FIRES_AFTER] = FIRES "WHERE schedule = ? AND at_ms > ? ORDER BY at_ms",
    [SQL_FIRES_BEFORE] = FIRES "WHERE schedule = ? AND at_ms < ? ORDER BY at_ms DESC LIMIT ?",
    [SQL_FIRES_ENDED] = FIRES "WHERE schedule = ? AND at_ms < ? AND outcome <> '' "
                              "ORDER BY at_ms DESC LIMIT ?",
    [SQL_FIRES_PRUNE] =
        "DELETE FROM fire WHERE (schedule, at_ms) IN (SELECT schedule, at_ms FROM fire "
        "WHERE schedule = ? AND at_ms < ? LIMIT ?)",
    [SQL_SCHEDULE_FILE_PUT] =
        "INSERT OR REPLACE INTO schedule_file($schedule_file) VALUES(:$schedule_file)",
    [SQL_SCHEDULE_FILE_DROP] = "DELETE FROM schedule_file WHERE path = ?",
    [SQL_SCHEDULE_FILES] = "SELECT $schedule_file FROM schedule_file ORDER BY path",
    [SQL_BACKFILL_ADD] =
        "INSERT INTO backfill(id, $backfill-id) VALUES(1 + max((SELECT coalesce(max(id), 0) FROM "
        "backfill), (SELECT coalesce(max(backfill), 0) FROM run)), :$backfill-id)",
    [SQL_BACKFILL_SET] =
        "UPDATE backfill SET state = :state, note = :note, cursor_ms = :cursor_ms, made = :made, "
        "kept = :kept WHERE id = :id",
    [SQL_BACKFILL_LIST] = BACKFILLS "ORDER BY id DESC",
    [SQL_BACKFILL_OPEN] = BACKFILLS "WHERE state = 'active' ORDER BY id",
    [SQL_BACKFILL_GET] = BACKFILLS "WHERE id = ?",
    [SQL_BACKFILL_LIVE] =
        "SELECT (SELECT count(*) FROM run INDEXED BY run_open WHERE state <> 'over' AND "
        "state <> 'removed' AND backfill = ?1) + (SELECT count(*) FROM run INDEXED BY run_rerun "
        "WHERE rerun_wall <> 0 AND backfill = ?1)",
    [SQL_INSTANT_RUN] =
        "SELECT no AS run, CASE WHEN state = 'over' AND rerun_wall = 0 THEN outcome ELSE 'live' "
        "END "
        "word FROM run WHERE schedule <> 0 AND schedule = ? AND at_ms = ? AND state <> 'removed' "
        "ORDER BY word = 'live' DESC, word = 'succeeded' DESC, no DESC LIMIT 1",
    [SQL_INSTANT_FIRE] =
        "SELECT run, outcome AS word FROM fire WHERE schedule = ? AND at_ms = ? AND outcome <> ''",
    [SQL_FIRE_FILL] = "INSERT OR IGNORE INTO fire(schedule, at_ms, first_ms, count, decision, run, "
                      "decided_wall) VALUES(?1, ?2, ?2, 1, 'ran', ?3, ?4)",
    [SQL_KEPT_GET] = "SELECT $answer FROM answer WHERE who = ? AND key = ? AND wall > ?",
    [SQL_KEPT_PUT] =
        "INSERT OR REPLACE INTO answer(who, key, wall, request, status, location, body) "
        "VALUES(?, ?, ?, ?, ?, ?, ?)",
    [SQL_KEPT_PRUNE] = "DELETE FROM answer WHERE wall <= ?",
    [SQL_RUN_WHERE] = RUNS RUN_ALL,
    [SQL_RUN_WHERE_WORD] = RUNS RUN_OF_WORD,
    [SQL_RUN_WHERE_LIVE] = RUNS RUN_LIVE,
    [SQL_RUN_WHERE_NAME] = RUNS RUN_OF_NAME,
    [SQL_RUN_SORTED] =
        RUNS "WHERE " RUN_FITS " AND (?10 NOT IN (2, 3) OR started_wall <> 0) AND "
             "(?10 <> 4 OR state = 'over') AND (?13 = 0 OR " RUN_KEY " > ?12 OR (" RUN_KEY
             " = ?12 AND no < ?13)) ORDER BY " RUN_KEY ", no DESC LIMIT ?9",
    [SQL_RUN_COUNT] = RUN_COUNT(RUN_ALL),
    [SQL_RUN_COUNT_WORD] = RUN_COUNT(RUN_OF_WORD),
    [SQL_RUN_COUNT_LIVE] = RUN_COUNT(RUN_LIVE),
    [SQL_RUN_COUNT_NAME] = RUN_COUNT(RUN_OF_NAME),
    [SQL_RUN_NEWEST] = RUNS "WHERE no IN (SELECT max(no) FROM run WHERE state <> 'removed' "
                            "GROUP BY name) ORDER BY name",
    [SQL_RUN_SUCCESSES] =
        "WITH RECURSIVE names(name) AS (SELECT min(name) FROM run UNION ALL SELECT (SELECT "
        "min(name) FROM run WHERE name > names.name) FROM names WHERE names.name IS NOT NULL) "
        "SELECT name, (SELECT ended_wall FROM run INDEXED BY run_of_name WHERE run.name = "
        "names.name AND state = 'over' AND outcome = 'succeeded' ORDER BY no DESC LIMIT 1) "
        "AS ended_wall FROM names WHERE name IS NOT NULL LIMIT ?",
    [SQL_RUN_MEDIAN] =
        "WITH last AS (SELECT outcome, ended_wall - started_wall ms FROM run WHERE name = ? AND "
        "state = 'over' ORDER BY no DESC LIMIT ?), took AS (SELECT ms FROM last WHERE "
        "outcome = 'succeeded') SELECT ms FROM took "
        "ORDER BY ms LIMIT 1 OFFSET (SELECT count(*) / 2 FROM took)",
    [SQL_INST_STATES] = "SELECT task, state, hook FROM instance WHERE run = ? ORDER BY idx",
    [SQL_TOKEN_ADD] =
        "INSERT INTO token($token-id) VALUES(:$token-id) ON CONFLICT(name) DO NOTHING",
    [SQL_TOKEN_LIST] = "SELECT $token FROM token ORDER BY name",
    [SQL_TOKEN_USED] = "UPDATE token SET used_wall = ? WHERE id = ?",
    [SQL_TOKEN_DROP] = "DELETE FROM token WHERE name = ?",
    [SQL_SESSION_PUT] = "INSERT OR REPLACE INTO session($session) VALUES(:$session)",
    [SQL_SESSION_LIST] = "SELECT $session FROM session ORDER BY used_wall",
    [SQL_SESSION_DROP] = "DELETE FROM session WHERE hash = ?",
    [SQL_SESSION_DROP_OF] =
        "DELETE FROM session WHERE token IN (SELECT id FROM token WHERE name = ?)",
    [SQL_ASKED_ADD] = "INSERT INTO audit(what, ended_wall, wall, run, name, outcome, who, address) "
                      "VALUES('asked', 0, :wall, :run, :name, :outcome, :who, :address)",
    [SQL_AUDIT_LIST] = "SELECT $audit FROM audit "
                       "WHERE id < ? ORDER BY id DESC LIMIT ?",
    [SQL_AUDIT_ASKED] = "SELECT $audit FROM audit "
                        "WHERE run = ? AND what = 'asked' ORDER BY id DESC LIMIT ?",
    [SQL_NOTIFIES] = "SELECT notifies FROM home",
    [SQL_NOTIFIES_SET] = "UPDATE home SET notifies = ?",
    [SQL_NOTICE_LIST] = "SELECT $notice FROM notice ORDER BY id LIMIT ?",
    [SQL_NOTICE_DROP] = "DELETE FROM notice WHERE id = ?",
    [SQL_DELIVERY_ADD] = "INSERT OR IGNORE INTO delivery($delivery-id) VALUES(:$delivery-id)",
    [SQL_DELIVERY_PRUNE] =
        "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery ORDER BY id LIMIT 10) AND "
        "state <> 'waiting' AND made_wall < ?",
    [SQL_DELIVERY_SET] =
        "UPDATE delivery SET state = :state, made_wall = :made_wall, due_wall = :due_wall, "
        "tried_wall = :tried_wall, tries = :tries, answer = :answer WHERE id = :id",
    [SQL_NOTICE_ADD] = "INSERT INTO notice(kind, wall, run, name, subject, text) "
                       "SELECT ?, ?, 0, '', ?, ? FROM home WHERE notifies <> 0",
    [SQL_DELIVERY_QUIET] = "SELECT min(due_wall) FROM delivery INDEXED BY delivery_quiet "
                           "WHERE state = 'quiet'",
    [SQL_DELIVERY_WAKE] = "UPDATE delivery INDEXED BY delivery_quiet SET state = 'waiting' "
                          "WHERE state = 'quiet' AND due_wall <= ?",
    [SQL_DELIVERY_NEXT] =
        DELIVERIES "WHERE id IN (SELECT min(id) FROM delivery INDEXED BY delivery_waiting "
                   "WHERE state = 'waiting' GROUP BY channel) ORDER BY id",
    [SQL_DELIVERY_LIST] =
        DELIVERIES "WHERE id < ?1 AND (?2 = 0 OR run = ?2) AND (?3 = '' OR channel = ?3) AND "
                   "(?4 = '' OR state = ?4) ORDER BY id DESC LIMIT ?5",
    [SQL_DELIVERY_GET] = DELIVERIES "WHERE id = ?",
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
