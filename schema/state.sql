-- The state of one home, in SQLite (WAL, synchronous=FULL). Each "-- @version N" section is a
-- migration: a home is brought from its PRAGMA user_version to the newest by running, in one
-- transaction, every section above it. Never edit a released section; add one behind it.
--
-- Times *_wall are milliseconds since 1970 and only for display and due times; durations are *_ms.
-- Ids are 16 random bytes. A row changes once a transition: no table holds progress, log bytes or
-- metrics. Spec, inventory and staged files lie in blobs/<sha256> beside this database.

-- @version 1

CREATE TABLE home (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    id      BLOB NOT NULL,               -- made once; marks this home's attempts on nodes
    made_wall INTEGER NOT NULL
) STRICT;

CREATE TABLE run (
    id          BLOB PRIMARY KEY,
    no          INTEGER NOT NULL UNIQUE, -- 1, 2, … in this home, for people
    name        TEXT NOT NULL,           -- of the pipeline
    source      TEXT NOT NULL,           -- absolute path of the pipeline file
    folder      TEXT NOT NULL,           -- where flowrun was started: paths in params count from it
    spec_hash   TEXT NOT NULL,
    inventory_hash TEXT NOT NULL,        -- "" when nodes are inline or absent
    inventory   TEXT NOT NULL,           -- its path, "" likewise
    params      TEXT NOT NULL,           -- JSON: {"params": ["name=value"], "env": {"X": "…"}, "folder": "/…", "rules": 2}
    state       TEXT NOT NULL,           -- queued | running | cancelling | hooks | over | removed
    outcome     TEXT NOT NULL DEFAULT '', -- succeeded | failed | cancelled, once known
    reason      TEXT NOT NULL DEFAULT '',
    started_wall INTEGER NOT NULL,
    ended_wall  INTEGER NOT NULL DEFAULT 0,
    round       INTEGER NOT NULL DEFAULT 1 -- one more each time the user retries
) STRICT;

-- One row a task instance, with its newest attempt; idx is its place in the plan of spec + params,
-- which is deterministic.
CREATE TABLE instance (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    idx         INTEGER NOT NULL,
    key         TEXT NOT NULL,           -- "train@n1"
    task        TEXT NOT NULL,
    node        TEXT NOT NULL,
    hook        TEXT NOT NULL,           -- "" or on_success, on_failure, on_cancel, on_exit
    state       TEXT NOT NULL,
    attempt_no  INTEGER NOT NULL DEFAULT 0,
    attempt     BLOB,
    attempt_state TEXT NOT NULL DEFAULT '',
    live        INTEGER NOT NULL DEFAULT 0, -- the attempt may live: not yet ended and proven
    go          INTEGER NOT NULL DEFAULT 0, -- gang: go is committed
    generation  INTEGER NOT NULL DEFAULT 0, -- of its gang
    retries     INTEGER NOT NULL DEFAULT 0, -- used of retry.times
    cause       TEXT NOT NULL DEFAULT '',   -- how the attempt ended
    code        INTEGER NOT NULL DEFAULT 0,
    stop_cause  TEXT NOT NULL DEFAULT '',   -- stopping: why
    reason      TEXT NOT NULL DEFAULT '',   -- for people
    due_wall    INTEGER NOT NULL DEFAULT 0, -- retrying: the back-off ends at due_wall, …
    due_delay_ms INTEGER NOT NULL DEFAULT 0, -- … but never later than this after it is loaded
    unreachable_wall INTEGER NOT NULL DEFAULT 0, -- since when, 0 not
    started_wall INTEGER NOT NULL DEFAULT 0, -- of the first attempt
    ended_wall  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
    id          BLOB PRIMARY KEY,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    idx         INTEGER NOT NULL,        -- instance
    no          INTEGER NOT NULL,        -- 1, 2, …
    generation  INTEGER NOT NULL,
    node        TEXT NOT NULL,
    rank        INTEGER NOT NULL,        -- place in its gang, 0 otherwise
    home_id     BLOB,                    -- the node's, when it was started
    boot_id     TEXT NOT NULL DEFAULT '',
    state       TEXT NOT NULL,           -- as instance.attempt_state
    cause       TEXT NOT NULL DEFAULT '',
    code        INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    address     TEXT NOT NULL DEFAULT '', -- rendezvous of its gang, committed with go
    port        INTEGER NOT NULL DEFAULT 0,
    log         TEXT NOT NULL,           -- file below runs/<id>/: the copy of its output
    started_wall INTEGER NOT NULL,
    ended_wall  INTEGER NOT NULL DEFAULT 0,
    done        INTEGER NOT NULL DEFAULT 0  -- 1: all of its log is here, the node may forget it
) STRICT;
CREATE INDEX attempt_of_run ON attempt(run, idx, no);

CREATE TABLE output (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    idx         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    value       TEXT NOT NULL,
    PRIMARY KEY (run, idx, key)
) STRICT, WITHOUT ROWID;

-- What the run knows of each of its nodes.
CREATE TABLE node (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    epoch       INTEGER NOT NULL DEFAULT 0, -- not used since version 3: see home.epoch
    home_id     BLOB,
    boot_id     TEXT NOT NULL DEFAULT '',
    folder      TEXT NOT NULL DEFAULT '',   -- its work folder, as it answered
    unreachable_wall INTEGER NOT NULL DEFAULT 0,
    abandoned   INTEGER NOT NULL DEFAULT 0, -- 1: --abandon was given
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

-- Control-side files of a run, staged by content.
CREATE TABLE file (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    path        TEXT NOT NULL,           -- absolute, on control
    hash        TEXT NOT NULL,           -- of the copy in blobs/
    mode        INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- What other processes ask of the owner of a run.
CREATE TABLE request (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    kind        TEXT NOT NULL,           -- cancel | retry | abandon
    arg         TEXT NOT NULL DEFAULT '',
    asked_wall  INTEGER NOT NULL,
    done        INTEGER NOT NULL DEFAULT 0,
    answer      TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX request_open ON request(run, done);

-- The story of a run: one row a transition, in the order of their commits. Views follow it by seq.
CREATE TABLE event (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    wall        INTEGER NOT NULL,
    idx         INTEGER NOT NULL,        -- instance, -1: the run itself
    kind        TEXT NOT NULL,           -- the new state, or unreachable, reachable, note
    attempt_no  INTEGER NOT NULL DEFAULT 0,
    cause       TEXT NOT NULL DEFAULT '',
    code        INTEGER NOT NULL DEFAULT 0,
    text        TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX event_of_run ON event(run, seq);

-- @version 2

-- Rows that change together lie together: a commit writes whole pages, so no key is random.
CREATE TABLE attempt2 (
    id          BLOB NOT NULL,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    idx         INTEGER NOT NULL,        -- instance, -1: the plan has it no more
    no          INTEGER NOT NULL,        -- 1, 2, …
    generation  INTEGER NOT NULL,
    node        TEXT NOT NULL,
    rank        INTEGER NOT NULL,        -- place in its gang, 0 otherwise
    home_id     BLOB,                    -- the node's, when it was started
    boot_id     TEXT NOT NULL DEFAULT '',
    state       TEXT NOT NULL,           -- as instance.attempt_state
    cause       TEXT NOT NULL DEFAULT '',
    code        INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    address     TEXT NOT NULL DEFAULT '', -- rendezvous of its gang, committed with go
    port        INTEGER NOT NULL DEFAULT 0,
    log         TEXT NOT NULL,           -- file below runs/<id>/: the copy of its output, none when empty
    started_wall INTEGER NOT NULL,
    ended_wall  INTEGER NOT NULL DEFAULT 0,
    done        INTEGER NOT NULL DEFAULT 0, -- 1: all of its log is here, the node may forget it
    PRIMARY KEY (run, idx, no, id)
) STRICT, WITHOUT ROWID;
INSERT INTO attempt2 SELECT id, run, idx, no, generation, node, rank, home_id, boot_id, state, cause,
    code, reason, address, port, log, started_wall, ended_wall, done FROM attempt;
DROP TABLE attempt;
ALTER TABLE attempt2 RENAME TO attempt;

CREATE TABLE event2 (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,        -- grows within the run
    wall        INTEGER NOT NULL,
    idx         INTEGER NOT NULL,        -- instance, -1: the run itself
    kind        TEXT NOT NULL,           -- the new state, or unreachable, reachable, note
    attempt_no  INTEGER NOT NULL DEFAULT 0,
    cause       TEXT NOT NULL DEFAULT '',
    code        INTEGER NOT NULL DEFAULT 0,
    text        TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO event2 SELECT run, seq, wall, idx, kind, attempt_no, cause, code, text FROM event;
DROP TABLE event;
ALTER TABLE event2 RENAME TO event;

-- @version 3

DROP TABLE request; -- requests go to the host

ALTER TABLE home ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0; -- of the newest host; it fences those before
UPDATE home SET epoch = coalesce((SELECT max(epoch) FROM node), 0); -- above all connections so far
ALTER TABLE run ADD COLUMN host INTEGER NOT NULL DEFAULT 0;   -- epoch of the host that drives it; 0: nobody
ALTER TABLE run ADD COLUMN origin TEXT NOT NULL DEFAULT 'cli'; -- cli | api | schedule | backfill | retry
ALTER TABLE run ADD COLUMN priority INTEGER NOT NULL DEFAULT 0; -- the larger first
ALTER TABLE run ADD COLUMN queued_wall INTEGER NOT NULL DEFAULT 0; -- submitted
ALTER TABLE run ADD COLUMN not_before_wall INTEGER NOT NULL DEFAULT 0; -- queued until then
ALTER TABLE run ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0; -- 1: never removed by gc or rm
-- What a view shows of a transition (idx -2: the plan has the instance no more). The cause of a row
-- of the run is its outcome, once known.
ALTER TABLE event ADD COLUMN stop_cause TEXT NOT NULL DEFAULT '';  -- stopping: why
ALTER TABLE event ADD COLUMN delay_ms INTEGER NOT NULL DEFAULT 0;  -- retrying: until it is ready
ALTER TABLE event ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0; -- an attempt's end: output it wrote
-- Removed runs are found, and the blobs that no other run names, without reading all rows.
ALTER TABLE home ADD COLUMN last_no INTEGER NOT NULL DEFAULT 0; -- highest number of a removed run
CREATE INDEX run_open ON run(state) WHERE state <> 'over';
CREATE INDEX run_spec ON run(spec_hash);
CREATE INDEX run_inventory ON run(inventory_hash) WHERE inventory_hash <> '';
CREATE INDEX file_hash ON file(hash);
-- What an attempt holds of its node, also while no host drives its run.
ALTER TABLE attempt ADD COLUMN slots INTEGER NOT NULL DEFAULT 1;

-- @version 4

-- Pipelines that run by themselves. A schedule is one of a file, by the file's path and its own name.
CREATE TABLE schedule (
    id          INTEGER PRIMARY KEY,
    source      TEXT NOT NULL,           -- absolute path of the pipeline file
    name        TEXT NOT NULL,           -- of the schedule in it
    pipeline    TEXT NOT NULL,           -- name of the pipeline
    rule        TEXT NOT NULL,           -- in words, for people
    fingerprint TEXT NOT NULL,           -- of rule and zone: with another one it is a new schedule
    state       TEXT NOT NULL,           -- active | paused
    state_wall  INTEGER NOT NULL,        -- since then
    note        TEXT NOT NULL DEFAULT '', -- paused: why
    gone_wall   INTEGER NOT NULL DEFAULT 0, -- since when no served file has it; 0: one has
    seen_ms     INTEGER NOT NULL,        -- every instant up to here is decided, those of fire besides
    since_ms    INTEGER NOT NULL,        -- first sight, resume, change of the rule: seen is not below
    UNIQUE (source, name)
) STRICT;

-- What became of the instants of a schedule: a row decides one, or all of them from first_ms to
-- at_ms. The key lets none make two runs.
CREATE TABLE fire (
    schedule    INTEGER NOT NULL REFERENCES schedule(id) ON DELETE CASCADE,
    at_ms       INTEGER NOT NULL,
    first_ms    INTEGER NOT NULL,
    count       INTEGER NOT NULL,        -- of instants
    decision    TEXT NOT NULL,           -- ran | missed | dropped | skipped | superseded | paused | invalid
    run         INTEGER NOT NULL DEFAULT 0, -- number of the run that it made, or that was in its way
    outcome     TEXT NOT NULL DEFAULT '', -- of the run that it made; stays when that is removed
    decided_wall INTEGER NOT NULL,
    note        TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (schedule, at_ms)
) STRICT, WITHOUT ROWID;

-- Files with schedules in the folders that the host serves.
CREATE TABLE schedule_file (
    path        TEXT PRIMARY KEY,
    text        TEXT NOT NULL,           -- the newest that could be used; '': none could
    error       TEXT NOT NULL,           -- why the file of now cannot be; '': it can
    error_wall  INTEGER NOT NULL         -- since then
) STRICT, WITHOUT ROWID;

-- Of a run that a schedule made (origin schedule, catchup or backfill): its schedule, and its instant.
ALTER TABLE run ADD COLUMN schedule INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER fire_outcome AFTER UPDATE OF outcome ON run
WHEN new.schedule <> 0 AND new.outcome <> old.outcome BEGIN
    UPDATE fire SET outcome = new.outcome WHERE schedule = new.schedule AND at_ms = new.at_ms;
END;

-- Runs for instants of a schedule that are past, made one behind the other.
CREATE TABLE backfill (
    id          INTEGER PRIMARY KEY,
    schedule    INTEGER NOT NULL REFERENCES schedule(id) ON DELETE CASCADE,
    from_ms     INTEGER NOT NULL,        -- from_ms <= instant < to_ms
    to_ms       INTEGER NOT NULL,
    newest      INTEGER NOT NULL,        -- 1: the newest first
    existing    TEXT NOT NULL,           -- skip | failed | all
    params      TEXT NOT NULL,           -- JSON: ["name=value"], beside those of the schedule
    max_active  INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    state       TEXT NOT NULL,           -- active | paused | over | cancelled
    note        TEXT NOT NULL DEFAULT '', -- paused: why
    cursor_ms   INTEGER NOT NULL,        -- the instant decided last, in its order
    total       INTEGER NOT NULL,        -- instants
    made        INTEGER NOT NULL DEFAULT 0, -- runs
    kept        INTEGER NOT NULL DEFAULT 0, -- instants that were left as they are
    made_wall   INTEGER NOT NULL
) STRICT;
ALTER TABLE run ADD COLUMN backfill INTEGER NOT NULL DEFAULT 0; -- that made it
CREATE INDEX run_instant ON run(schedule, at_ms) WHERE schedule <> 0;

-- What was removed, and why.
CREATE TABLE audit (
    id          INTEGER PRIMARY KEY,
    wall        INTEGER NOT NULL,
    what        TEXT NOT NULL,           -- removed
    run         INTEGER NOT NULL,        -- number
    name        TEXT NOT NULL,           -- of its pipeline
    outcome     TEXT NOT NULL,
    ended_wall  INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_of_run ON audit(run);

-- Runs that are repeated: as a new run, or, by rerun: of their pipeline, by themselves.
ALTER TABLE run ADD COLUMN retry_of INTEGER NOT NULL DEFAULT 0;   -- number of the run that it repeats
ALTER TABLE run ADD COLUMN reruns INTEGER NOT NULL DEFAULT 0;     -- by themselves, that led to it
ALTER TABLE run ADD COLUMN rerun_wall INTEGER NOT NULL DEFAULT 0; -- over: the next one is due; 0: none
ALTER TABLE run ADD COLUMN rerun_from TEXT NOT NULL DEFAULT '';   -- of that one: failed | start
CREATE INDEX run_rerun ON run(rerun_wall) WHERE rerun_wall <> 0;
-- An event of kind rerun says what became of that: the run stays over.

-- @version 5

-- A run that is over keeps its host until its output is here, or its host gave up: what is missing
-- where that host was killed, the next one fetches.
UPDATE run SET host = 0 WHERE state = 'over';
CREATE INDEX run_unfetched ON run(host) WHERE state = 'over' AND host <> 0;

-- Who may use the host over TCP. Of each secret only its SHA-256 is stored, in hexadecimal digits.
CREATE TABLE token (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    role        TEXT NOT NULL,           -- view | operate | admin
    hash        TEXT NOT NULL UNIQUE,
    made_wall   INTEGER NOT NULL,
    ends_wall   INTEGER NOT NULL,
    used_wall   INTEGER NOT NULL DEFAULT 0 -- within some minutes; 0: never
) STRICT;

-- Browsers that are logged in.
CREATE TABLE session (
    hash        TEXT PRIMARY KEY,
    token       INTEGER NOT NULL,        -- it came by; 0: by a link of the home's owner
    made_wall   INTEGER NOT NULL,
    used_wall   INTEGER NOT NULL         -- within some minutes
) STRICT, WITHOUT ROWID;

-- Beside what was removed, what was asked of the host and changes something: what is 'asked', name
-- is the method and path, outcome the status of the answer.
ALTER TABLE audit ADD COLUMN who TEXT NOT NULL DEFAULT '';     -- name of a token, "uid 1000"
ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT ''; -- "": over the host's socket

CREATE INDEX run_of_name ON run(name, no, state); -- runs of a pipeline, the newest first

-- What was answered to a request that changes something, by the key that it came with: once more,
-- it is answered so again.
CREATE TABLE answer (
    who         TEXT NOT NULL,           -- name of a token, "uid 1000"
    key         TEXT NOT NULL,
    wall        INTEGER NOT NULL,        -- it goes a day later
    request     TEXT NOT NULL,           -- SHA-256 of method, path and body, in hexadecimal digits
    status      INTEGER NOT NULL,
    location    TEXT NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (who, key)
) STRICT, WITHOUT ROWID;

-- @version 6

-- Lists of runs by what became of them, the newest first; and what other filters of a list look at,
-- so that of 100,000 runs only those that fit are read.
CREATE INDEX run_word ON run(CASE WHEN state = 'over' THEN outcome ELSE state END, no);
CREATE INDEX run_list ON run(no, state, outcome, name, origin, schedule, started_wall, queued_wall, reason);

-- @version 7

-- Notifications. Rules of a pipeline stand with its runs; home.notifies: config.yaml has rules.
ALTER TABLE run ADD COLUMN notify TEXT NOT NULL DEFAULT '';  -- JSON: a list of rules; '': none
ALTER TABLE home ADD COLUMN notifies INTEGER NOT NULL DEFAULT 0;

-- What happened that a rule may ask for: written in the commit that made it true, removed in the
-- commit that writes its deliveries.
CREATE TABLE notice (
    id          INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: keys of deliveries name it
    kind        TEXT NOT NULL,           -- as on: of a rule has it
    wall        INTEGER NOT NULL,
    run         INTEGER NOT NULL,        -- number; 0: of none
    name        TEXT NOT NULL,           -- of the pipeline
    subject     TEXT NOT NULL,           -- instance, node or schedule; '': the run itself
    text        TEXT NOT NULL
) STRICT;

CREATE TRIGGER notice_begun AFTER INSERT ON run
WHEN new.state IN ('running', 'over') AND (new.notify <> '' OR (SELECT notifies FROM home) <> 0) BEGIN
    INSERT INTO notice(kind, wall, run, name, subject, text)
        VALUES(iif(new.state = 'over', new.outcome, 'started'),
               max(new.queued_wall, new.started_wall, new.ended_wall), new.no, new.name, '', new.reason);
END;
CREATE TRIGGER notice_run AFTER UPDATE OF state ON run
WHEN new.state <> old.state AND
     (new.state = 'running' OR new.state = 'over' AND old.state <> 'removed') AND
     (new.notify <> '' OR (SELECT notifies FROM home) <> 0) BEGIN
    INSERT INTO notice(kind, wall, run, name, subject, text)
        VALUES(iif(new.state = 'over', new.outcome, 'started'),
               max(new.queued_wall, new.started_wall, new.ended_wall), new.no, new.name, '', new.reason);
END;
CREATE TRIGGER notice_task AFTER INSERT ON event
WHEN new.kind IN ('stalled', 'not_finite') BEGIN
    INSERT INTO notice(kind, wall, run, name, subject, text)
        SELECT new.kind, new.wall, run.no, run.name,
               coalesce((SELECT key FROM instance WHERE run = new.run AND idx = new.idx), ''), new.text
        FROM run, home WHERE run.id = new.run AND (run.notify <> '' OR home.notifies <> 0);
END;
CREATE TRIGGER notice_node AFTER UPDATE OF unreachable_wall ON node
WHEN old.unreachable_wall = 0 AND new.unreachable_wall <> 0 BEGIN
    INSERT INTO notice(kind, wall, run, name, subject, text)
        SELECT 'node_unreachable', new.unreachable_wall, run.no, run.name, new.name, ''
        FROM run, home WHERE run.id = new.run AND (run.notify <> '' OR home.notifies <> 0);
END;
CREATE TRIGGER notice_missed AFTER INSERT ON fire
WHEN new.decision = 'missed' AND (SELECT notifies FROM home) <> 0 BEGIN
    INSERT INTO notice(kind, wall, run, name, subject, text)
        SELECT 'schedule_missed', new.decided_wall, 0, pipeline, name,
               iif(new.count = 1, 'one instant', new.count || ' instants') || ' passed without a run'
        FROM schedule WHERE id = new.schedule;
END;
CREATE TRIGGER notice_paused AFTER UPDATE OF state ON schedule
WHEN new.state = 'paused' AND old.state <> 'paused' AND (SELECT notifies FROM home) <> 0 BEGIN
    INSERT INTO notice(kind, wall, run, name, subject, text)
        VALUES('schedule_paused', new.state_wall, 0, new.pipeline, new.name, new.note);
END;

-- Messages, each for one channel of config.yaml. No column holds a secret or an address.
CREATE TABLE delivery (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT NOT NULL UNIQUE,    -- of the message: the same in each try
    channel     TEXT NOT NULL,
    rule        TEXT NOT NULL,           -- "config.yaml 1", "pipeline 2"
    kind        TEXT NOT NULL,
    run         INTEGER NOT NULL,        -- number; 0: of none
    name        TEXT NOT NULL,           -- of the pipeline
    body        TEXT NOT NULL,           -- JSON
    state       TEXT NOT NULL,           -- waiting | sent | dead | held (throttle: of its rule)
    made_wall   INTEGER NOT NULL,
    due_wall    INTEGER NOT NULL,        -- waiting: the next try
    tried_wall  INTEGER NOT NULL DEFAULT 0, -- 0: never
    tries       INTEGER NOT NULL DEFAULT 0,
    answer      TEXT NOT NULL DEFAULT '' -- of the newest try, in words
) STRICT;
CREATE INDEX delivery_waiting ON delivery(channel, id) WHERE state = 'waiting';
CREATE INDEX delivery_of_rule ON delivery(rule, name, kind, id);

-- Channels that are not used any more, until a delivery of theirs is sent again by hand.
CREATE TABLE channel_off (
    name        TEXT PRIMARY KEY,
    wall        INTEGER NOT NULL,
    note        TEXT NOT NULL            -- why
) STRICT, WITHOUT ROWID;

-- @version 8

-- Who asked for a run: the name of a token, of the schedule that made it; '': the home's owner.
ALTER TABLE run ADD COLUMN who TEXT NOT NULL DEFAULT '';

-- Runs that take longer than their pipeline says.
ALTER TABLE run ADD COLUMN late_wall INTEGER NOT NULL DEFAULT 0; -- not over then: late; 0: never, or it was told
CREATE TRIGGER notice_late AFTER INSERT ON event
WHEN new.kind = 'late' BEGIN
    UPDATE run SET late_wall = 0 WHERE id = new.run;
    INSERT INTO notice(kind, wall, run, name, subject, text)
        SELECT 'late', new.wall, run.no, run.name, '', new.text
        FROM run, home WHERE run.id = new.run AND (run.notify <> '' OR home.notifies <> 0);
END;

-- A delivery whose rule has quiet hours waits for their end: state quiet, until due_wall.
CREATE INDEX delivery_quiet ON delivery(due_wall) WHERE state = 'quiet';

-- @version 9

-- Of the run's pipeline: its active runs take a place there each (pools: in config.yaml). "": in none.
ALTER TABLE run ADD COLUMN pool TEXT NOT NULL DEFAULT '';

-- @version 10

-- Nodes where nothing new starts until somebody lets it.
CREATE TABLE drained (
    home        BLOB PRIMARY KEY,        -- id of the node's own home, whatever inventories call it
    name        TEXT NOT NULL,
    wall        INTEGER NOT NULL,        -- since when
    note        TEXT NOT NULL,           -- why
    who         TEXT NOT NULL            -- name of a token; "": the home's owner
) STRICT, WITHOUT ROWID;

-- @version 11

-- What runs shipped of which no copy is kept: folders, and files that are too large.
CREATE TABLE shipped (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    path        TEXT NOT NULL,           -- absolute, on control
    exclude     TEXT NOT NULL,           -- patterns of what was left out, a line each
    hash        TEXT NOT NULL,           -- of all names, modes and contents, when it was shipped first
    PRIMARY KEY (run, path, exclude)
) STRICT, WITHOUT ROWID;

-- @version 12

-- Allocations that runs take of clusters under Slurm.
CREATE TABLE allocation (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    name        TEXT NOT NULL,           -- of the inventory
    no          INTEGER NOT NULL,        -- 1, 2, … of that run and name
    tag         TEXT NOT NULL UNIQUE,    -- 32 digits: the job's name is fr-TAG
    folder      TEXT NOT NULL,           -- shared with its nodes
    path        TEXT NOT NULL,           -- of Slurm's commands; "": PATH
    rpc         INTEGER NOT NULL,        -- commands a minute
    program     TEXT NOT NULL DEFAULT '', -- flownode, on the folder that is shared
    state       TEXT NOT NULL,           -- wanted | submitting | looking | queued | starting | up | releasing | over
    job         INTEGER NOT NULL DEFAULT 0, -- Slurm's id, 0 until known
    submits     INTEGER NOT NULL DEFAULT 0, -- how often sbatch was started
    slurm       TEXT NOT NULL DEFAULT '', -- Slurm's word for its state
    reason      TEXT NOT NULL DEFAULT '', -- Slurm's word for why it waits or has ended
    hosts       TEXT NOT NULL DEFAULT '', -- of its places, a word each
    estimate_wall INTEGER NOT NULL DEFAULT 0,
    submitted_wall INTEGER NOT NULL DEFAULT 0,
    start_wall  INTEGER NOT NULL DEFAULT 0,
    end_wall    INTEGER NOT NULL DEFAULT 0, -- its limit
    ended_wall  INTEGER NOT NULL DEFAULT 0,
    cause       TEXT NOT NULL DEFAULT '', -- of the attempts that lived in it
    proven      INTEGER NOT NULL DEFAULT 0, -- no process of it is left
    note        TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX allocation_run ON allocation(run, id);
CREATE INDEX allocation_open ON allocation(id) WHERE state <> 'over';

-- @version 13

-- Used of the chain: of its allocation.
ALTER TABLE instance ADD COLUMN chained INTEGER NOT NULL DEFAULT 0;

-- @version 14

-- What an allocation had, of Slurm's accounting.
ALTER TABLE allocation ADD COLUMN elapsed_ms INTEGER NOT NULL DEFAULT 0; -- without accounting of squeue
ALTER TABLE allocation ADD COLUMN accounting TEXT NOT NULL DEFAULT ''; -- '' | wanted | known | missing
ALTER TABLE allocation ADD COLUMN exit_state TEXT NOT NULL DEFAULT ''; -- 'CANCELLED by 1000'
ALTER TABLE allocation ADD COLUMN max_rss INTEGER NOT NULL DEFAULT 0; -- bytes, of the largest task
ALTER TABLE allocation ADD COLUMN energy_j INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocation ADD COLUMN tres TEXT NOT NULL DEFAULT ''; -- 'cpu=2,gres/gpu=4,node=2'

-- @version 15

-- The login node where Slurm's commands of the allocation run, as JSON. "": they run on this machine.
ALTER TABLE allocation ADD COLUMN login TEXT NOT NULL DEFAULT '';

-- @version 16

-- Of copies: which one, and 1 + its index in the array that Slurm has of them.
ALTER TABLE allocation ADD COLUMN copy INTEGER NOT NULL DEFAULT 0; -- 0: it is no copy
ALTER TABLE allocation ADD COLUMN element INTEGER NOT NULL DEFAULT 0; -- 0: it is a job by itself

-- @version 17

-- What an allocation asks for, and of which cluster; of older rows this is not known.
ALTER TABLE allocation ADD COLUMN cluster TEXT NOT NULL DEFAULT ''; -- ClusterName, once it is known
ALTER TABLE allocation ADD COLUMN nodes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocation ADD COLUMN time_ms INTEGER NOT NULL DEFAULT 0; -- its limit
ALTER TABLE allocation ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 0;

-- @version 18

-- Lists of tasks with foreach: that got known in a run.
CREATE TABLE item_list (
    run         BLOB NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    no          INTEGER NOT NULL,        -- 1, 2, … in the order in which they were known
    task        TEXT NOT NULL,           -- each once
    list        TEXT NOT NULL,           -- JSON
    PRIMARY KEY (run, no)
) STRICT;
