-- What a database of the newest schema would be, had flowrun known the first one alone
-- (schema/state.sql, @version 1): attempts and events by a key of their own.
DROP TRIGGER notice_late;
DROP TRIGGER notice_begun;
DROP TRIGGER notice_run;
DROP TRIGGER notice_task;
DROP TRIGGER notice_node;
DROP TRIGGER notice_missed;
DROP TRIGGER notice_paused;
ALTER TABLE instance DROP COLUMN chained;
DROP TABLE item_list;
DROP TABLE allocation;
DROP TABLE shipped;
DROP TABLE notice;
DROP TABLE delivery;
DROP TABLE channel_off;
DROP TABLE drained;
ALTER TABLE run DROP COLUMN notify;
ALTER TABLE run DROP COLUMN who;
ALTER TABLE run DROP COLUMN late_wall;
ALTER TABLE run DROP COLUMN pool;
ALTER TABLE home DROP COLUMN notifies;
DROP INDEX run_word;
DROP INDEX run_list;
DROP INDEX run_of_name;
DROP TABLE answer;
DROP TABLE token;
DROP TABLE session;
DROP TRIGGER fire_outcome;
DROP TABLE fire;
DROP TABLE audit;
DROP TABLE backfill;
DROP TABLE schedule;
DROP TABLE schedule_file;
DROP INDEX run_instant;
ALTER TABLE run DROP COLUMN backfill;
ALTER TABLE run DROP COLUMN schedule;
ALTER TABLE run DROP COLUMN at_ms;
DROP INDEX run_rerun;
ALTER TABLE run DROP COLUMN retry_of;
ALTER TABLE run DROP COLUMN reruns;
ALTER TABLE run DROP COLUMN rerun_wall;
ALTER TABLE run DROP COLUMN rerun_from;
DROP INDEX run_open;
DROP INDEX run_unfetched;
DROP INDEX run_spec;
DROP INDEX run_inventory;
DROP INDEX file_hash;
ALTER TABLE home DROP COLUMN last_no;
UPDATE node SET epoch = (SELECT epoch FROM home);
ALTER TABLE home DROP COLUMN epoch;
ALTER TABLE run DROP COLUMN host;
ALTER TABLE run DROP COLUMN origin;
ALTER TABLE run DROP COLUMN priority;
ALTER TABLE run DROP COLUMN queued_wall;
ALTER TABLE run DROP COLUMN not_before_wall;
ALTER TABLE run DROP COLUMN pinned;
BEGIN;
CREATE TABLE attempt1 (
    id          BLOB PRIMARY KEY,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    idx         INTEGER NOT NULL,
    no          INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    node        TEXT NOT NULL,
    rank        INTEGER NOT NULL,
    home_id     BLOB,
    boot_id     TEXT NOT NULL DEFAULT '',
    state       TEXT NOT NULL,
    cause       TEXT NOT NULL DEFAULT '',
    code        INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    address     TEXT NOT NULL DEFAULT '',
    port        INTEGER NOT NULL DEFAULT 0,
    log         TEXT NOT NULL,
    started_wall INTEGER NOT NULL,
    ended_wall  INTEGER NOT NULL DEFAULT 0,
    done        INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO attempt1 SELECT id, run, idx, no, generation, node, rank, home_id, boot_id, state, cause,
    code, reason, address, port, log, started_wall, ended_wall, done FROM attempt;
DROP TABLE attempt;
ALTER TABLE attempt1 RENAME TO attempt;
CREATE INDEX attempt_of_run ON attempt(run, idx, no);

CREATE TABLE event1 (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    wall        INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    attempt_no  INTEGER NOT NULL DEFAULT 0,
    cause       TEXT NOT NULL DEFAULT '',
    code        INTEGER NOT NULL DEFAULT 0,
    text        TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO event1 SELECT seq, run, wall, idx, kind, attempt_no, cause, code, text FROM event;
DROP TABLE event;
ALTER TABLE event1 RENAME TO event;
CREATE INDEX event_of_run ON event(run, seq);
CREATE TABLE request (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    kind        TEXT NOT NULL,
    arg         TEXT NOT NULL DEFAULT '',
    asked_wall  INTEGER NOT NULL,
    done        INTEGER NOT NULL DEFAULT 0,
    answer      TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX request_open ON request(run, done);
PRAGMA user_version = 1;
COMMIT;
