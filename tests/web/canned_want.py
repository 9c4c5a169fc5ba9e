"""What the pages say of the answers of canned.py, word by word."""
FILE = "%s | {%s}%s | <api/v1/runs/90/artifacts/%s>Download%s"
KEPT_WANT = ["Task | Name | Value", "last@n1 | z | ‹202E›9", "prep@n1 | k | v", "Task | Name | Value", "fit@n1 | _result | {}", "File | Size | SHA-256 | "] + [
    FILE % (what, 32 * two, 8 * two, 32 * two, show) for what, two, show in (("out/a.txt | 1.5 KiB", "ab", "Show"), ("big.bin | 256 KiB", "cd", ""),
                                                                            ("big.PNG | 300 KiB", "ef", "Show"), ("nul | 256 KiB", "01", "Show"))]
SIDE_WANT = "×bye1 succeededhookon exit(st-succeeded)✓succeeded<runs/90?tab=logs&i=bye%40n3>{Log of bye@n3}n31.0s<runs/90?tab=logs&i=bye>LogsRetry from here …"
NODES_WANT = [
    "Allocation | State | Slurm job | Nodes | Begins | Ends | Run",
    "traintrain1 to train2 | (st-running)▶up | 4711hpc | nid1 nid2 | 3h ago | in 9h | <runs/41>#41",
    "prepprep1 | (st-ready)○queuedothers come first (Priority) | 4712hpc | 1 node | in 1h | after 12h 00m | <runs/42>#42",
    "wide2 copies | (st-running)▶up | 4713hpc | 2 nodes | 1m ago | after 12h 00m | <runs/43>#43",
    "wide4 copies | (st-ready)○queuednodes are busy (Resources) | 4713hpc | 4 nodes | – | after 12h 00m | <runs/43>#43",
    "nextnext1 to next4 | (st-waiting)·wanted |  | 4 nodes | – | after 12h 00m | <runs/44>#44",
    "Node | State | Runs now | GPUs | CPU | Memory | Disk | Network | Clock | Machine | ",
    "n2 | (st-succeeded)✓up 2d ago{uid 0}(warn)drained 1h ago a disk | {stopping}(st-stopping)◫stopping <runs/3?tab=logs&i=fit%40n3>fit@n3 of #3 | {H100, 61 °C, 350 W}0 (high)[91%] 91 % [25%] 20 GiB{H100}1 – {H100, 61 °C, 350 W}2 [90%] 90 % (high)[100%] 80 GiB | (high)[95%] load 60.0 of 64 | – |  |  | {of its clock to this one}+20ms | {kernel}6.8{arch}x86_64{cpus}64 CPUs | Take in …",
    "n3 | (st-waiting)◌not in use 3h ago |  |  | – | – |  |  | {of its clock to this one} | {kernel}6.8{cpus}64 CPUs | Drain …",
    "n10ssh | (st-stopping)⚠unreachable 5m ago | {running}(st-running)▶running <runs/1?tab=logs&i=fit%40n1>fit@n1 of #1{running}(st-running)▶running <runs/2?tab=logs&i=fit%40n2>fit@n2 of #2{running}(st-running)▶running <runs/3?tab=logs&i=fit%40n3>fit@n3 of #3{running}(st-running)▶running <runs/4?tab=logs&i=fit%40n4>fit@n4 of #4{running}(st-running)▶running <runs/5?tab=logs&i=fit%40n5>fit@n5 of #5and 2 more |  | [50%] load 4.3 of 8 | [75%] 3.0 GiB of 4.0 GiB | 1.0 TiB free | ↓ 1.5 KiB/s↑ 100 B/s | {of its clock to this one}−1.5s | {another kernel than most nodes have}(warn)6.1{arch}x86_64{another cpus than most nodes have}(warn)8 CPUs | Drain …",
    "old | (st-waiting)◌not in use |  |  | [7%] 7 % | – |  |  | {of its clock to this one} |  | Drain …",
]
QUEUE_WANT = [
    " | Run | Pipeline | Priority | Since | Waits for | ",
    "1. | <runs/13>#13 | first | 10 | 2h ago | max_active_runs 1 of 1 | Priority …",
    "2. | <runs/12>#12 | later | -1 | 30s ago | its turn | Priority …",
    "Task | Run | Waits for",
    "fit@n1 | <runs/3>#3 | a slot on n1",
    "fit@n2 | <runs/4>#4 | its turn",
    "Pool | Taken | By | Wait",
    "gpus | 3 of 8 | <runs/3>#3 <runs/41>#41  | 2",
    "free | 0 of 1 |  | 0",
]
SCHEDULES_WANT = [
    "Schedule | Rule | Next | ",
    "<pipelines/p%2F1>p/1/nightly | 30 2 * * * | 2025-06-16 05:06 Asia/Tokyo = 2025-06-15 20:06 UTC in 5h2025-06-17 05:06 Asia/Tokyo = 2025-06-16 20:06 UTC | Decisions<runs?schedule=7>RunsRun nowBackfill …Pause",
    "<pipelines/q>q/hourly | @hourly | paused 4d ago: moving | Decisions<runs?schedule=8>RunsRun nowBackfill …(primary)Resume",
    "<pipelines/q>q/gone(error)line 3: no such day | @daily | its file is gone | Decisions<runs?schedule=9>RunsRun nowBackfill …Pause",
    "<pipelines/r>r/due | @daily | 2025-06-15 16:07 UTC in 1h | Decisions<runs?schedule=10>RunsRun nowBackfill …Pause",
    "Backfill | From | To | Made | State | ",
    "#1 | 2025-06-14 00:00:00 | 2025-06-15 00:00:00 | 3 of 12 [25%] | active | Pause(danger)Cancel",
    "#2 | 2025-06-14 00:00:00 | 2025-06-15 00:00:00 | 12 of 12 [100%] | paused too many failed | Resume(danger)Cancel",
    "#3 | 2025-06-14 00:00:00 | 2025-06-15 00:00:00 | 0 of 0 [0%] | over | ",
]
FIRES_WANT = [
    "Time | Decision | Run | Decided | Note",
    "2025-06-15 23:06 Asia/Tokyo = 2025-06-15 14:06 UTC | (st-succeeded)ran failed | <runs/41>#41 | 59m ago | ",
    "2025-06-15 22:06 Asia/Tokyo = 2025-06-15 13:06 UTC | (st-failed)missed × 3 |  | 30m ago | nobody was there",
    "2025-06-15 00:06 Asia/Tokyo = 2025-06-14 15:06 UTC | (st-skipped)skipped |  | now | ",
    "2025-06-15 00:06 Asia/Tokyo = 2025-06-14 15:06 UTC | (st-skipped)dropped |  | now | ",
    "2025-06-15 00:06 Asia/Tokyo = 2025-06-14 15:06 UTC | (st-skipped)superseded |  | now | ",
    "2025-06-15 00:06 Asia/Tokyo = 2025-06-14 15:06 UTC | (st-cancelled)paused |  | now | ",
    "2025-06-15 00:06 Asia/Tokyo = 2025-06-14 15:06 UTC | (st-failed)invalid |  | now | ",
    "2025-06-15 00:06 Asia/Tokyo = 2025-06-14 15:06 UTC | (st-waiting)due |  | now | ",
]
RUNS_WANT = [
    "State | Run | Pipeline | Tasks | Took | Started | Origin | Reason",
    "(st-ready)○queued | <runs/12>#12 | <runs/12>later |  | – | 30s ago | cli | {no}no",
    "(st-running)▶running | <runs/11>#11 | <runs/11>p/1 |  | 1m 01s{the median of its last runs is 1m 01s}· | {2025-06-15 15:05:39}1m ago | cli | ",
    "(st-running)▶running hooks | <runs/10>#10 | <runs/10>p/1 |  | 2h 00m | {2025-06-15 13:06:40}2h ago | cli | ",
    "(st-failed)✗failed | <runs/41>#41 | <runs/41>{/x/p.yaml}p/1 | {2 succeeded, 1 failed, 1 waiting}(st-succeeded)(st-failed)(st-waiting) | 1h 00m{1.5 × the median of its last runs, 39m 00s}▲ | {2025-06-15 13:06:40}2h ago | cli ann | {one task failed}one task failed",
    "(st-succeeded)✓succeeded | <runs/40>#40 | <runs/40>p/1{This run is kept}pinned |  | 1h 00m{1.0 × the median of its last runs, 1h 00m}· | {2025-06-15 13:06:40}2h ago | schedule | ",
    "(st-cancelled)■cancelled | <runs/39>#39 | <runs/39>p/1 |  | 1h 00m{0.5 × the median of its last runs, 2h 00m}▼ | {2025-06-15 13:06:40}2h ago | cli | ",
]
SETTINGS_WANT = [
    "Name | Role | Ends | Last use | ",
    "ci | operate | {2025-06-18 15:06:40}in 3d | never | (danger)Remove …",
    "a b | view | {2025-06-14 15:06:40}1d ago | 1m ago | (danger)Remove …",
    "Channel | Kind | State | ",
    "pager | command | used | Send a test",
    "mail | smtp | no secret | Send a test",
    "Events | Pipelines | To | At most",
    "failed, succeeded | p* | pager | one in 1m 00s, quiet 22:00–07:05",
    "failed | all | mail, pager | ",
    "Event | Run | Channel | State | Tries | Answer | ",
    "{2025-06-15 15:06:39}failed now |  p | pager | (st-ready)○waiting | 0 | said 0 | ",
    "{2025-06-15 14:06:39}failed 1h ago | <runs/41>#41 p | pager | (st-ready)○waiting next try in 10m | 1 | said 1 | ",
    "{2025-06-15 13:06:39}failed 2h ago | <runs/42>#42 p | pager | (st-succeeded)✓sent | 2 | said 2 | Send again",
    "{2025-06-15 12:06:39}failed 3h ago | <runs/43>#43 p | pager | (st-failed)✗dead | 0 | said 3 | Send again",
    "{2025-06-15 11:06:39}failed 4h ago | <runs/44>#44 p | pager | (st-skipped)–held | 1 | said 4 | Send again",
    "{2025-06-15 10:06:39}failed 5h ago | <runs/45>#45 p | pager | (st-ready)○quiet next try in 10m | 2 | said 5 | Send again",
    "5s ago | ci | 10.0.0.7 | POST /api/v1/runs | 201",
    "1m ago | uid 0 | socket | cancel run 3 | ",
]
PIPELINES_WANT = [
    "Pipeline | Last run | Next | File",
    "<pipelines/alone>alone | (st-ready)○queued <runs/12>#12 30s ago | – | ",
    "<pipelines/p%2F1>p/1 | (st-failed)✗failed <runs/41>#41 2h ago | in 5h | /s/p.yaml",
    "<pipelines/q>q | never ran | paused | /s/q.yaml",
]
PIPELINE_WANT = [
    "Schedule | Rule | Next | ",
    "<pipelines/p%2F1>p/1/nightly | 30 2 * * * | 2025-06-16 05:06 Asia/Tokyo = 2025-06-15 20:06 UTC in 5h2025-06-17 05:06 Asia/Tokyo = 2025-06-16 20:06 UTC | Decisions<runs?schedule=7>RunsRun nowBackfill …Pause",
    "<pipelines/q>q/hourly | @hourly | paused 4d ago: moving | Decisions<runs?schedule=8>RunsRun nowBackfill …(primary)Resume",
    "<pipelines/r>r/due | @daily | 2025-06-15 16:07 UTC in 1h | Decisions<runs?schedule=10>RunsRun nowBackfill …Pause",
    "Parameter | Default | Type | What it is",
    "lr | 0.1 | float | how fast",
    "mode | a | a | b | ",
    "dry | false | bool | ",
    "key | ••• |  | ",
    "who |  | string | whom",
    "Backfill | From | To | Made | State | ",
    "#1 | 2025-06-14 00:00:00 | 2025-06-15 00:00:00 | 3 of 12 [25%] | active | Pause(danger)Cancel",
    "#2 | 2025-06-14 00:00:00 | 2025-06-15 00:00:00 | 12 of 12 [100%] | paused too many failed | Resume(danger)Cancel",
    "#3 | 2025-06-14 00:00:00 | 2025-06-15 00:00:00 | 0 of 0 [0%] | over | ",
    "(st-failed)✗failed | <runs/41>#41 | {2 succeeded, 1 failed, 1 waiting}(st-succeeded)(st-failed)(st-waiting) | 2h ago | cli | one task failed",
    "(st-succeeded)✓succeeded | <runs/40>#40 |  | 2h ago | schedule | ",
    "(st-cancelled)■cancelled | <runs/39>#39 |  | 2h ago | cli | ",
    "(st-ready)○queued | <runs/12>#12 |  | 30s ago | cli | no",
    "(st-running)▶running | <runs/11>#11 |  | 1m ago | cli | ",
    "(st-running)▶running hooks | <runs/10>#10 |  | 2h ago | cli | ",
]
SPANS_WANT = [
    "Task | Attempt | State | Started | Waited | Took",
    "prep@n1 | 1 | succeeded | 13:06:41.000 | 1.0s | 11s",
    "fit@n1 | 1 | timed out | 13:06:53.000 | 1.0s | 7.0s",
    "fit@n2 | 1 | failed | 13:06:53.000 | 1.0s | 7.0s",
    "fit@n1 | 2 | failed | 13:07:05.500 | 500ms | 6.5s",
    "fit@n2 | 2 | failed | 13:07:05.500 | 250ms | 7.0s",
    "bye@n3 | 1 | succeeded | 13:07:13.000 | – | 1.0s",
]
EVENTS_WANT = [
    "Time | After | Task | What | Why",
    "{2025-06-15 13:07:15}13:07:15.000 | +1.0s | run | retry | by bob: refused (409)",
    "{2025-06-15 13:07:14}13:07:14.000 | +0ms | run | run over | fit failed",
    "{2025-06-15 13:07:14}13:07:14.000 | +900ms | <runs/90?tab=logs&i=bye%40n3>bye@n3 | (st-succeeded)✓succeeded | ",
    "{2025-06-15 13:07:13}13:07:13.100 | +100ms | <runs/90?tab=logs&i=bye%40n3>bye@n3 | (st-running)▶running | ",
    "{2025-06-15 13:07:13}13:07:13.000 | +500ms | <runs/90?tab=logs&i=bye%40n3>bye@n3 | (st-starting)◔starting | ",
    "{2025-06-15 13:07:12}13:07:12.500 | +0ms | <runs/90?tab=logs&i=last%40n1>last@n1 | (st-skipped)–upstream failed | ",
    "{2025-06-15 13:07:12}13:07:12.500 | +500ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 attempt 2 | (st-failed)✗failed | {another member of its gang failed}",
    "{2025-06-15 13:07:12}13:07:12.000 | +2.0s | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | (st-failed)✗failed | {the command ended with another status than 0}exit code 3",
    "{2025-06-15 13:07:10}13:07:10.000 | +1.0s | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | (st-stopping)◫stopping | {a signal ended it}signal 9",
    "{2025-06-15 13:07:09}13:07:09.000 | +1.0s | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | reachable | ",
    "{2025-06-15 13:07:08}13:07:08.000 | +1.5s | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | unreachable | ",
    "{2025-06-15 13:07:06}13:07:06.500 | +500ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 attempt 2 | (st-running)▶running | ",
    "{2025-06-15 13:07:06}13:07:06.000 | +500ms | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | (st-running)▶running | ",
    "{2025-06-15 13:07:05}13:07:05.500 | +0ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 attempt 2 | (st-starting)◔starting | ",
    "{2025-06-15 13:07:05}13:07:05.500 | +250ms | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | (st-starting)◔starting | ",
    "{2025-06-15 13:07:05}13:07:05.250 | +250ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 attempt 2 | (st-ready)○ready | ",
    "{2025-06-15 13:07:05}13:07:05.000 | +5.0s | <runs/90?tab=logs&i=fit%40n1>fit@n1 attempt 2 | (st-ready)○ready | ",
    "{2025-06-15 13:07:00}13:07:00.000 | +0ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 | (st-retrying)↻retrying | {another member of its gang failed}",
    "{2025-06-15 13:07:00}13:07:00.000 | +5.5s | <runs/90?tab=logs&i=fit%40n1>fit@n1 | (st-retrying)↻retrying | {it ran longer than timeout:}timeout",
    "{2025-06-15 13:06:54}13:06:54.500 | +500ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 | (st-running)▶running | ",
    "{2025-06-15 13:06:54}13:06:54.000 | +1.0s | <runs/90?tab=logs&i=fit%40n1>fit@n1 | (st-running)▶running | ",
    "{2025-06-15 13:06:53}13:06:53.000 | +0ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 | (st-starting)◔starting | ",
    "{2025-06-15 13:06:53}13:06:53.000 | +1.0s | <runs/90?tab=logs&i=fit%40n1>fit@n1 | (st-starting)◔starting | ",
    "{2025-06-15 13:06:52}13:06:52.000 | +0ms | <runs/90?tab=logs&i=fit%40n2>fit@n2 | (st-ready)○ready | ",
    "{2025-06-15 13:06:52}13:06:52.000 | +0ms | <runs/90?tab=logs&i=fit%40n1>fit@n1 | (st-ready)○ready | ",
    "{2025-06-15 13:06:52}13:06:52.000 | +10s | <runs/90?tab=logs&i=prep%40n1>prep@n1 | (st-succeeded)✓succeeded | ",
    "{2025-06-15 13:06:42}13:06:42.000 | +1.0s | <runs/90?tab=logs&i=prep%40n1>prep@n1 | (st-running)▶running | ",
    "{2025-06-15 13:06:41}13:06:41.000 | +1.0s | <runs/90?tab=logs&i=prep%40n1>prep@n1 | (st-starting)◔starting | ",
    "{2025-06-15 13:06:40}13:06:40.000 | +1.0s | <runs/90?tab=logs&i=prep%40n1>prep@n1 | (st-ready)○ready | ",
    "{2025-06-15 13:06:39}13:06:39.000 |  | run | begun | by ann from 10.0.0.7",
]
CURVES_WANT = [["step | loss | loss eval_loss | lr | acc",
                "250 | 3 | 2.5 | 0.001 | 0.25",
                "500 | 2 | 2.5 | 0.001 | 0.25",
                "500 | 2 | 2.5 | 0.001 | 0.25",
                "750 | NaN | 2.5 | 1.00e−4 | 0.25"], ["step | loss | loss eval_loss | lr | acc",
                "0 | 4 | 2.5 | 0.001 | 0.25",
                "250 | 3 | 2.5 | 0.001 | 0.25",
                "500 | 2 | 2.5 | 0.001 | 0.25",
                "500 | 2 | 2.5 | 0.001 | 0.25",
                "750 | NaN | 2.5 | 1.00e−4 | 0.25",
                "1000 | 1 | 1.5 | 1.00e−4 | 12.35k"]]
CSV_WANT = [
    "run90-metrics.csv",
    "run,key,step,value,lost",
    "90,loss,510,2,1",
    "90,loss,600,9,1",
    "90,loss,0,4,0",
    "90,loss,250,3,0",
    "90,loss,500,2,0",
    "90,loss,500,2,0",
    "90,loss,750,NaN,0",
    "90,loss,1000,1,0",
    "90,eval_loss,500,2.5,0",
    "90,eval_loss,1000,1.5,0",
    "90,lr,0,0.001,0",
    "90,lr,1000,0.0001,0",
    "90,step,0,0,0",
    "90,step,1000,1000,0",
    "90,acc,500,0.25,0",
    "90,acc,1000,12345,0",
]
FACTS_WANT = ["Nameuid 0Roleadmin", "Version1.2, licence Apache-2.0Hosts so far4Runs it drives2Turns of its loop12,345Over 100 ms3Longest1.2s, held by a sweep"]
FIT = "fit@n%d; state%s; gangstarts and ends with 1 more; waited for a slot1.0s; started13:06:53.000; ran%s"
TIPS = [(6000, 1, "prep@n1; statesucceeded; waited for a slot1.0s; started13:06:41.000; ran10s"), (6000, 0, ""), (16000, 2, FIT % (1, "timed out", "6.0s")), (1000, 2, ""),
        (28500, 2, "fit@n1;  attempt 2; statefailed; afterprep@n1; gangstarts and ends with 1 more; waited for a slot500ms; started13:07:05.500; ran4.0s; "
         "stopping2.0s; node away1 ×"), (14000, 4, FIT % (2, "failed", "5.5s")), (33500, 6, "bye@n3; statesucceeded; started13:07:13.000; ran900ms")]
MENU = "Run again …{The run is not over yet}#Retry from a task …Let it go by age{The run is not over yet}#Remove …"
HEAD_WANT = ["(st-failed)(st-failed)✗failed#90 <pipelines/p%2F1>p/1(primary)Retry failedActions ▾Run again …Retry from a task …Keep this runRemove …"
             "{2 succeeded, 2 failed, 1 upstream failed}(st-succeeded)(st-failed)(st-skipped){2 succeeded, 2 failed, 1 upstream failed}5 of 5took 34s"
             "started 2h ago{2025-06-15 13:07:14}ended 1h agoby cli annrepeats <runs/41>#41runs again in 1hlr 0.5mode b",
             "(st-running)(st-running)▶running#91 <pipelines/p%2F1>p/1(danger)Cancel(primary)ResumeActions ▾" + MENU + "{1 succeeded, 2 running, 2 waiting}"
             "(st-succeeded)(st-running)(st-waiting){1 succeeded, 2 running, 2 waiting}1 of 5took 2h 00mstarted 2h agoby clipinned(warn)parked: nobody drives itlr 0.5mode b"]
SMOOTH_WANT = ["loss: loss 1.191  eval_loss 1.575", "lr: 1.00e−4", "acc: 11.42k"]
OTHER_WANT = ["loss: #90 loss 1  ┄ #90 eval_loss 1.5  #41 2", "lr: 1.00e−4", "acc: 12.35k"]
SINCE_WANT = ["loss: #91 loss 1  ┄ #91 eval_loss 1.5  #41 2", "lr: 1.00e−4", "acc: 12.35k"]
TIME_WANT = ["loss: loss 1  eval_loss 1.5", "lr: 1.00e−4", "acc: 12.35k", "GPU, %: 50", "GPU memory, GiB: 2", "CPU, %: 25", "memory, GiB: 4", "received, MB/s: 2", "sent, MB/s: 0"]
BARS_WANT = ["✓succeeded #1  1.0s  2025-06-15 13:06:40", "✗failed #2  1m 30s  2025-06-15 13:06:40  it failed", "dropped 2025-06-15 13:06:40 one went on",
             "✓succeeded #3  2.0s  2025-06-15 13:06:40", "▶running #4  5.0s  2025-06-15 15:06:35"]
