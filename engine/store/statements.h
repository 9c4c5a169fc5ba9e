/*
 * Every statement of the store, as SQL(name, text): whoever includes this file says before
 * what becomes of one. In a text, $run stands for the columns of the table run, :$run for a
 * parameter of the name of each, $run= for the assignments of those that an UPDATE writes; $run-no
 * leaves out the column no.
 */
#include "engine/store/filter.h"
#include "engine/store/statements_plan.h"

#define RUNS "SELECT $run FROM run "
#define BACKFILLS "SELECT $backfill FROM backfill "
#define DELIVERIES "SELECT $delivery FROM delivery "
#define OCCURRENCES "SELECT $fire FROM fire "

/* At most ?2 rows of run ?1. */
#define CUT(table, key)                                                                            \
    "DELETE FROM " table " WHERE (" key ") IN (SELECT " key " FROM " table                         \
    " WHERE run = ?1 LIMIT ?2)"

SQL(BEGIN, "BEGIN IMMEDIATE")
SQL(COMMIT, "COMMIT")
SQL(ROLLBACK, "ROLLBACK")
SQL(HOME_GET, "SELECT id FROM home")
SQL(HOST_GET, "SELECT epoch FROM home")
SQL(HOST_SET, "UPDATE home SET epoch = ?")
SQL(HOME_PUT, "INSERT INTO home(one, id, made_wall) VALUES(1, ?, ?)")
SQL(RUN_ADD,
    "INSERT INTO run(no, $run-no) VALUES((SELECT max(coalesce((SELECT max(no) FROM run), 0), "
    "last_no) + 1 FROM home), :$run-no)")
SQL(RUN_NO, "SELECT no FROM run WHERE id = ?")
SQL(RUN_SET, "UPDATE run SET $run= WHERE id = :id")
SQL(RUN_HOST, "UPDATE run SET host = ? WHERE id = ?")
SQL(RUN_LIST, RUNS "WHERE state <> 'removed' ORDER BY no DESC LIMIT ?")
SQL(RUN_OPEN,
    RUNS "INDEXED BY run_open WHERE state <> 'over' AND state <> 'removed' ORDER BY no DESC")
SQL(RUN_BY_NO, RUNS "WHERE no = ? AND state <> 'removed'")
SQL(RUN_BY_ID,
    RUNS "WHERE id BETWEEN coalesce(?, zeroblob(16)) AND ? AND state <> 'removed' ORDER BY no DESC")
SQL(RUN_OVER,
    "SELECT id, no, name, outcome, ended_wall, pinned FROM run WHERE state = 'over' AND "
    "rerun_wall = 0 AND NOT EXISTS(SELECT 1 FROM backfill WHERE backfill.id = run.backfill AND "
    "backfill.state IN ('active', 'paused')) ORDER BY no DESC")
SQL(RUN_UNFETCHED,
    "SELECT id AS run, no FROM run INDEXED BY run_unfetched WHERE state = 'over' AND host <> 0 "
    "ORDER BY no")
SQL(RUN_LIVE, RUNS
    "WHERE id IN (SELECT id FROM run INDEXED BY run_open WHERE state <> 'over' AND state <> "
    "'removed' UNION ALL SELECT id FROM run INDEXED BY run_rerun WHERE rerun_wall <> 0) ORDER BY "
    "no DESC")
SQL(RERUNS, RUNS "INDEXED BY run_rerun WHERE rerun_wall <> 0 ORDER BY rerun_wall, no")
SQL(RERUN_DROP, "UPDATE run SET rerun_wall = 0, rerun_from = '' WHERE id = ?")
SQL(RUN_PIN, "UPDATE run SET pinned = ? WHERE id = ? AND state <> 'removed'")
SQL(RUN_PRIORITY, "UPDATE run SET priority = ? WHERE id = ? AND state = 'queued'")
SQL(RUN_REMOVE,
    "UPDATE run SET state = 'removed' WHERE id = ? AND state = 'over' AND pinned = 0 AND "
    "rerun_wall = 0")
SQL(RUN_REMOVED,
    "SELECT id FROM run INDEXED BY run_open WHERE state = 'removed' AND state <> 'over' AND id > "
    "coalesce(?, x'') ORDER BY id LIMIT 1")
SQL(RUN_GET, RUNS "WHERE id = ?")
SQL(RUN_FORGET, "DELETE FROM run WHERE id = ?")
SQL(RUN_REMOVE_OLD, /* unless its backfill goes on */
    "UPDATE run SET state = 'removed' WHERE id = ? AND ended_wall = ? AND state = 'over' AND "
    "pinned = 0 AND rerun_wall = 0 AND NOT EXISTS(SELECT 1 FROM backfill WHERE backfill.id = "
    "run.backfill AND backfill.state IN ('active', 'paused'))")
SQL(AUDIT_ADD,
    "INSERT INTO audit(wall, what, run, name, outcome, ended_wall) SELECT ?1, 'removed', no, "
    "name, outcome, ended_wall FROM run WHERE id = ?2")
SQL(AUDIT_PRUNE,
    "DELETE FROM audit WHERE id IN (SELECT id FROM audit ORDER BY id LIMIT 10) AND wall < ?")
SQL(AUDIT_OF, "SELECT wall, name, outcome FROM audit WHERE run = ? AND what = 'removed'")
SQL(LAST_NO, "UPDATE home SET last_no = max(last_no, (SELECT no FROM run WHERE id = ?))")
SQL(CUT_EVENTS, CUT("event", "run, seq"))
SQL(CUT_ATTEMPTS, CUT("attempt", "run, idx, no, id"))
SQL(CUT_INSTS, CUT("instance", "run, idx"))
SQL(CUT_OUTPUTS, CUT("output", "run, idx, key"))
SQL(CUT_NODES, CUT("node", "run, name"))
SQL(FILE_NEXT, "SELECT $file FROM file WHERE run = ? LIMIT ?")
SQL(FILE_FORGET, "DELETE FROM file WHERE run = ? AND path = ?")
SQL(PAGES, "PRAGMA page_count")
SQL(PAGES_FREE, "PRAGMA freelist_count")
SQL(TRIM, "PRAGMA incremental_vacuum(256)")
SQL(TRIMMED, "PRAGMA auto_vacuum = INCREMENTAL")
SQL(VACUUM, "VACUUM")
SQL(CHECKPOINT, "PRAGMA wal_checkpoint(TRUNCATE)")
SQL(BLOB_NAMED,
    "SELECT EXISTS(SELECT 1 FROM run WHERE spec_hash = ?1 AND state <> 'removed') OR "
    "EXISTS(SELECT 1 FROM run WHERE inventory_hash = ?1 AND inventory_hash <> '' AND state <> "
    "'removed') OR EXISTS(SELECT 1 FROM file JOIN run ON run.id = file.run WHERE hash = ?1 AND "
    "state <> 'removed')")
SQL(INST_PUT, "INSERT OR REPLACE INTO instance(run, $instance) VALUES(:run, :$instance)")
SQL(INST_LIST, "SELECT $instance FROM instance WHERE run = ? ORDER BY idx")
SQL(INST_OF, "SELECT $instance FROM instance WHERE run = ?1 AND ?2 IN ('', task, key) AND ?3 IN "
             "('', node) AND "
             "?4 IN ('', state) ORDER BY idx")
SQL(INST_FAILED,
    "SELECT $instance FROM instance WHERE run = ? AND state IN ('failed', 'timed_out', 'lost', "
    "'stop_unproven') AND cause <> 'gang_peer' ORDER BY hook <> '', ended_wall, idx LIMIT 1")
SQL(INST_READY,
    "SELECT DISTINCT task FROM instance WHERE run = ? AND state = 'ready' AND live = 0 ORDER BY "
    "task")
SQL(INST_ANY_READY, "SELECT EXISTS (SELECT 1 FROM instance WHERE run = ? AND state = 'ready')")
SQL(INST_CLEAR, "DELETE FROM instance WHERE run = ?")
SQL(OUTPUT_CLEAR_ALL, "DELETE FROM output WHERE run = ?")
SQL(ATTEMPT_PUT, "INSERT OR REPLACE INTO attempt(run, $attempt) VALUES(:run, :$attempt)")
SQL(ATTEMPT_HELD,
    "SELECT a.run AS run, a.id AS attempt, a.home_id AS home, a.slots AS slots, r.no AS no, i.key "
    "AS key, i.state AS state FROM run r INDEXED BY run_open JOIN instance i ON i.run = r.id JOIN "
    "attempt a ON a.run = i.run AND a.idx = i.idx AND a.no = i.attempt_no AND a.id = i.attempt "
    "WHERE r.state <> 'over' AND r.state <> 'removed' AND i.live <> 0 AND a.home_id IS NOT NULL "
    "ORDER BY r.no, i.idx")
SQL(ATTEMPT_DONE, "UPDATE attempt SET done = 1 WHERE run = ? AND idx = ? AND no = ? AND id = ?")
SQL(LACKS_OUTPUT, /* what may live is stopped, not fetched */
    "SELECT 1 FROM attempt WHERE run = ? AND idx >= 0 AND done = 0 AND ended_wall <> 0 AND state "
    "<> 'stop_unproven' LIMIT 1")
SQL(ATTEMPT_CLEAR, "DELETE FROM attempt WHERE run = ?")
SQL(ATTEMPT_LIST, "SELECT $attempt FROM attempt WHERE run = ? ORDER BY idx, no")
SQL(ATTEMPT_OF, "SELECT $attempt FROM attempt WHERE run = ? AND idx = ? ORDER BY no")
SQL(ATTEMPT_FIND, "SELECT $attempt FROM attempt WHERE id = ? AND run = ?")
SQL(OUTPUT_PUT, "INSERT OR REPLACE INTO output(run, $output) VALUES(:run, :$output)")
SQL(OUTPUT_CLEAR, "DELETE FROM output WHERE run = ? AND idx = ?")
SQL(OUTPUT_LIST, "SELECT $output FROM output WHERE run = ? ORDER BY idx, key")
SQL(NODE_PUT,
    "INSERT INTO node(run, $node) VALUES(:run, :$node) ON CONFLICT(run, name) DO UPDATE SET $node=")
SQL(NODE_HOME, /* the runs from the newest one on */
    "SELECT home FROM (SELECT home, 0 AS last FROM drained WHERE name = ?1 UNION ALL SELECT * "
    "FROM (SELECT node.home_id, 1 FROM run CROSS JOIN node ON node.run = run.id AND node.name = "
    "?1 WHERE node.home_id IS NOT NULL AND run.state <> 'removed' ORDER BY run.no DESC LIMIT 1)) "
    "ORDER BY last LIMIT 1")
SQL(NODE_KNOWN, /* home_id is that of the row with the largest number */
    "SELECT name, home_id AS home, wall FROM (SELECT node.name, node.home_id, max(r.no), CASE "
    "r.ended_wall WHEN 0 THEN r.started_wall ELSE r.ended_wall END AS wall FROM (SELECT id, no, "
    "started_wall, ended_wall FROM run WHERE state <> 'removed' ORDER BY no DESC LIMIT ?) AS r "
    "CROSS JOIN node ON node.run = r.id WHERE node.home_id IS NOT NULL GROUP BY node.name) ORDER "
    "BY name")
SQL(DRAINED, "SELECT $drained FROM drained ORDER BY name, home")
SQL(DRAIN, "INSERT OR REPLACE INTO drained($drained) VALUES(:$drained)")
SQL(UNDRAIN, "DELETE FROM drained WHERE home = ?")
SQL(NODE_LIST, "SELECT $node FROM node WHERE run = ? ORDER BY name")
SQL(EVENT_ADD, /* again after a commit that failed: the same row */
    "INSERT OR REPLACE INTO event(run, seq, $event-seq) VALUES(:run, coalesce(nullif(:seq, 0), "
    "(SELECT coalesce(max(seq), 0) + 1 FROM event WHERE run = :run)), :$event-seq)")
SQL(EVENT_MOVE, "UPDATE event SET idx = ? WHERE run = ? AND seq = ?")
SQL(EVENT_TOLD,
    "SELECT $event FROM event WHERE run = ? AND kind IN ('stalled', 'progress', 'not_finite') "
    "ORDER BY seq")
SQL(EVENT_LIST, "SELECT $event FROM event WHERE run = ? AND seq > ? ORDER BY seq LIMIT 1000")
SQL(OUTPUT_OF, "SELECT $output FROM output WHERE run = ? AND idx = ? ORDER BY key")
SQL(EVENT_LAST, "SELECT coalesce(max(seq), 0) FROM event WHERE run = ?")
SQL(ROUND_BEGAN,
    "SELECT wall FROM event WHERE run = ? AND idx = -1 AND kind = 'running' ORDER BY seq DESC "
    "LIMIT 1")
SQL(FILE_PUT, "INSERT OR REPLACE INTO file(run, $file) VALUES(:run, :$file)")
SQL(FILE_LIST, "SELECT $file FROM file WHERE run = ? ORDER BY path")
SQL(SCHEDULE_ADD, /* no run of one that was dropped names its id */
    "INSERT INTO schedule(id, $schedule-id) VALUES(1 + max((SELECT coalesce(max(id), 0) FROM "
    "schedule), (SELECT coalesce(max(schedule), 0) FROM run WHERE schedule <> 0)), :$schedule-id)")
SQL(SCHEDULE_SET, "UPDATE schedule SET $schedule= WHERE id = :id")
SQL(SCHEDULE_SEEN, "UPDATE schedule SET seen_ms = ? WHERE id = ?")
SQL(SCHEDULE_LIST, "SELECT $schedule FROM schedule ORDER BY source, name")
SQL(SCHEDULE_DROP, "DELETE FROM schedule WHERE id = ?")
SQL(OCCURRENCE_ADD, "INSERT INTO fire($fire-outcome) VALUES(:$fire-outcome)")
SQL(OCCURRENCE_SET, "UPDATE fire SET $fire= WHERE schedule = :schedule AND at_ms = :at_ms")
SQL(OCCURRENCE_DROP, "DELETE FROM fire WHERE schedule = ? AND at_ms = ?")
SQL(OCCURRENCE_SUCCEEDED,
    "SELECT at_ms FROM fire WHERE schedule = ? AND at_ms < ? AND outcome = 'succeeded' ORDER BY "
    "at_ms DESC LIMIT 1")
SQL(OCCURRENCE_NEWER,
    "SELECT run FROM fire WHERE schedule = ? AND at_ms > ? AND outcome = 'succeeded' ORDER BY "
    "at_ms LIMIT 1")
SQL(OCCURRENCES_AFTER, OCCURRENCES "WHERE schedule = ? AND at_ms > ? ORDER BY at_ms")
SQL(OCCURRENCES_BEFORE, OCCURRENCES "WHERE schedule = ? AND at_ms < ? ORDER BY at_ms DESC LIMIT ?")
SQL(OCCURRENCES_ENDED,
    OCCURRENCES "WHERE schedule = ? AND at_ms < ? AND outcome <> '' ORDER BY at_ms DESC LIMIT ?")
SQL(OCCURRENCES_PRUNE,
    "DELETE FROM fire WHERE (schedule, at_ms) IN (SELECT schedule, at_ms FROM fire WHERE schedule "
    "= ? AND at_ms < ? LIMIT ?)")
SQL(SCHEDULE_FILE_PUT,
    "INSERT OR REPLACE INTO schedule_file($schedule_file) VALUES(:$schedule_file)")
SQL(SCHEDULE_FILE_DROP, "DELETE FROM schedule_file WHERE path = ?")
SQL(SCHEDULE_FILES, "SELECT $schedule_file FROM schedule_file ORDER BY path")
SQL(BACKFILL_ADD,
    "INSERT INTO backfill(id, $backfill-id) VALUES(1 + max((SELECT coalesce(max(id), 0) FROM "
    "backfill), (SELECT coalesce(max(backfill), 0) FROM run)), :$backfill-id)")
SQL(BACKFILL_SET, "UPDATE backfill SET $backfill= WHERE id = :id")
SQL(BACKFILL_LIST, BACKFILLS "ORDER BY id DESC")
SQL(BACKFILL_OPEN, BACKFILLS "WHERE state = 'active' ORDER BY id")
SQL(BACKFILL_GET, BACKFILLS "WHERE id = ?")
SQL(BACKFILL_LIVE,
    "SELECT (SELECT count(*) FROM run INDEXED BY run_open WHERE state <> 'over' AND state <> "
    "'removed' AND backfill = ?1) + (SELECT count(*) FROM run INDEXED BY run_rerun WHERE "
    "rerun_wall <> 0 AND backfill = ?1)")
SQL(INSTANT_RUN,
    "SELECT no AS run, CASE WHEN state = 'over' AND rerun_wall = 0 THEN outcome ELSE 'live' END "
    "word FROM run WHERE schedule <> 0 AND schedule = ? AND at_ms = ? AND state <> 'removed' "
    "ORDER BY word = 'live' DESC, word = 'succeeded' DESC, no DESC LIMIT 1")
SQL(INSTANT_OCCURRENCE,
    "SELECT run, outcome AS word FROM fire WHERE schedule = ? AND at_ms = ? AND outcome <> ''")
SQL(OCCURRENCE_FILL,
    "INSERT OR IGNORE INTO fire(schedule, at_ms, first_ms, count, decision, run, decided_wall) "
    "VALUES(?1, ?2, ?2, 1, 'ran', ?3, ?4)")
SQL(KEPT_GET, "SELECT $answer FROM answer WHERE who = ? AND key = ? AND wall > ?")
SQL(KEPT_PUT,
    "INSERT OR REPLACE INTO answer(who, key, wall, request, status, location, body) VALUES(?, ?, "
    "?, ?, ?, ?, ?)")
SQL(KEPT_PRUNE, "DELETE FROM answer WHERE wall <= ?")
SQL(RUN_WHERE, RUNS RUN_ALL)
SQL(RUN_WHERE_WORD, RUNS RUN_OF_WORD)
SQL(RUN_WHERE_LIVE, RUNS RUN_LIVE)
SQL(RUN_WHERE_NAME, RUNS RUN_OF_NAME)
SQL(RUN_SORTED,
    RUNS "WHERE " RUN_FITS " AND (?10 NOT IN (2, 3) OR started_wall <> 0) AND (?10 <> 4 OR state = "
         "'over') AND (?13 = 0 OR " RUN_KEY " > ?12 OR (" RUN_KEY
         " = ?12 AND no < ?13)) ORDER BY " RUN_KEY ", no DESC "
         "LIMIT ?9")
SQL(RUN_COUNT, RUN_COUNT(RUN_ALL))
SQL(RUN_COUNT_WORD, RUN_COUNT(RUN_OF_WORD))
SQL(RUN_COUNT_LIVE, RUN_COUNT(RUN_LIVE))
SQL(RUN_COUNT_NAME, RUN_COUNT(RUN_OF_NAME))
SQL(RUN_NEWEST,
    RUNS "WHERE no IN (SELECT max(no) FROM run WHERE state <> 'removed' GROUP BY name) ORDER BY "
         "name")
SQL(RUN_SUCCESSES,
    "WITH RECURSIVE names(name) AS (SELECT min(name) FROM run UNION ALL SELECT (SELECT min(name) "
    "FROM run WHERE name > names.name) FROM names WHERE names.name IS NOT NULL) SELECT name, "
    "(SELECT ended_wall FROM run INDEXED BY run_of_name WHERE run.name = names.name AND state = "
    "'over' AND outcome = 'succeeded' ORDER BY no DESC LIMIT 1) AS ended_wall FROM names WHERE "
    "name IS NOT NULL LIMIT ?")
SQL(RUN_MEDIAN,
    "WITH last AS (SELECT outcome, ended_wall - started_wall ms FROM run WHERE name = ? AND state "
    "= 'over' ORDER BY no DESC LIMIT ?), took AS (SELECT ms FROM last WHERE outcome = "
    "'succeeded') SELECT ms FROM took ORDER BY ms LIMIT 1 OFFSET (SELECT count(*) / 2 FROM took)")
SQL(INST_STATES, "SELECT task, state, hook FROM instance WHERE run = ? ORDER BY idx")
SQL(TOKEN_ADD, "INSERT INTO token($token-id) VALUES(:$token-id) ON CONFLICT(name) DO NOTHING")
SQL(TOKEN_LIST, "SELECT $token FROM token ORDER BY name")
SQL(TOKEN_USED, "UPDATE token SET used_wall = ? WHERE id = ?")
SQL(TOKEN_DROP, "DELETE FROM token WHERE name = ?")
SQL(SESSION_PUT, "INSERT OR REPLACE INTO session($session) VALUES(:$session)")
SQL(SESSION_LIST, "SELECT $session FROM session ORDER BY used_wall")
SQL(SESSION_DROP, "DELETE FROM session WHERE hash = ?")
SQL(SESSION_DROP_OF, "DELETE FROM session WHERE token IN (SELECT id FROM token WHERE name = ?)")
SQL(ASKED_ADD,
    "INSERT INTO audit(what, ended_wall, wall, run, name, outcome, who, address) VALUES('asked', "
    "0, :wall, :run, :name, :outcome, :who, :address)")
SQL(AUDIT_LIST, "SELECT $audit FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?")
SQL(AUDIT_ASKED,
    "SELECT $audit FROM audit WHERE run = ? AND what = 'asked' ORDER BY id DESC LIMIT ?")
SQL(NOTIFIES, "SELECT notifies FROM home")
SQL(NOTIFIES_SET, "UPDATE home SET notifies = ?")
SQL(NOTICE_LIST, "SELECT $notice FROM notice ORDER BY id LIMIT ?")
SQL(NOTICE_DROP, "DELETE FROM notice WHERE id = ?")
SQL(DELIVERY_ADD, "INSERT OR IGNORE INTO delivery($delivery-id) VALUES(:$delivery-id)")
SQL(DELIVERY_PRUNE,
    "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery ORDER BY id LIMIT 10) AND state <> "
    "'waiting' AND made_wall < ?")
SQL(DELIVERY_SET, "UPDATE delivery SET $delivery= WHERE id = :id")
SQL(NOTICE_ADD,
    "INSERT INTO notice(kind, wall, run, name, subject, text) SELECT ?, ?, 0, '', ?, ? FROM home "
    "WHERE notifies <> 0")
SQL(DELIVERY_QUIET,
    "SELECT min(due_wall) FROM delivery INDEXED BY delivery_quiet WHERE state = 'quiet'")
SQL(DELIVERY_WAKE,
    "UPDATE delivery INDEXED BY delivery_quiet SET state = 'waiting' WHERE state = 'quiet' AND "
    "due_wall <= ?")
SQL(DELIVERY_NEXT,
    DELIVERIES "WHERE id IN (SELECT min(id) FROM delivery INDEXED BY delivery_waiting WHERE state "
               "= 'waiting' GROUP BY channel) ORDER BY id")
SQL(DELIVERY_LIST,
    DELIVERIES "WHERE id < ?1 AND (?2 = 0 OR run = ?2) AND (?3 = '' OR channel = ?3) AND (?4 = '' "
               "OR state = ?4) ORDER BY id DESC LIMIT ?5")
SQL(DELIVERY_GET, DELIVERIES "WHERE id = ?")
SQL(DELIVERY_WAITING,
    "SELECT count(*) FROM delivery INDEXED BY delivery_waiting WHERE state = 'waiting' AND "
    "channel = ?")
SQL(DELIVERY_DEAD,
    "SELECT count(*) FROM delivery WHERE channel = ?1 AND state = 'dead' AND tries > 0 AND id > "
    "(SELECT coalesce(max(id), 0) FROM delivery WHERE channel = ?1 AND state = 'sent')")
SQL(THROTTLE,
    "WITH same AS (SELECT id, state, made_wall FROM delivery WHERE rule = ?1 AND name = ?2 AND "
    "kind = ?3 AND channel = ?4), last AS (SELECT coalesce(max(id), 0) id, "
    "coalesce(max(made_wall), 0) wall FROM same WHERE state <> 'held') SELECT wall, (SELECT "
    "count(*) FROM same WHERE same.id > last.id) FROM last")
SQL(OUTCOME_BEFORE,
    "SELECT outcome FROM run INDEXED BY run_of_name WHERE name = ? AND no < ? AND state = 'over' "
    "AND outcome <> 'cancelled' ORDER BY no DESC LIMIT 1")
SQL(CHANNEL_ON, "DELETE FROM channel_off WHERE name = ?")
SQL(CHANNEL_OFF, "INSERT INTO channel_off(name, wall, note) VALUES(?, ?, ?)")
SQL(CHANNEL_GIVE_UP,
    "UPDATE delivery SET state = 'dead', answer = ? WHERE channel = ? AND state = 'waiting'")
SQL(CHANNEL_NOTE, "SELECT note FROM channel_off WHERE name = ?")
SQL(HASH_LIST,
    "SELECT spec_hash FROM run UNION SELECT inventory_hash FROM run WHERE inventory_hash <> '' "
    "UNION SELECT hash FROM file ORDER BY 1")
SQL(ALLOCATION_ADD, "INSERT INTO allocation($allocation-id) VALUES(:$allocation-id)")
SQL(ALLOCATION_SET, "UPDATE allocation SET $allocation= WHERE id = :id")
SQL(ALLOCATIONS, "SELECT $allocation FROM allocation WHERE run = ? ORDER BY id")
SQL(ALLOCATIONS_OPEN, "SELECT $allocation FROM allocation WHERE state <> 'over' OR folder <> '' OR "
                      "accounting = 'wanted' ORDER BY id")
