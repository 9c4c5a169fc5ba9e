/* The commands: arguments, options, help and function of each. */
#include "engine/cli/cli.h"

#include <string.h>

#define OPTS(...)                                                                                  \
    (const struct cli_opt[])                                                                       \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .name = NULL                                                                           \
        }                                                                                          \
    }
#define FLAG(name, letter, help)                                                                   \
    {                                                                                              \
        name, letter, NULL, help, NULL                                                             \
    }
#define VALUE(name, letter, meta, help)                                                            \
    {                                                                                              \
        name, letter, meta, help, NULL                                                             \
    }
#define WORD(name, letter, meta, words, help)                                                      \
    {                                                                                              \
        name, letter, meta, help, words                                                            \
    }
/* Options of several commands. */
#define JSON(help) FLAG("--json", 0, help)
#define PARAM(help) VALUE("--param", 'p', "NAME=VALUE", help)
#define NODES VALUE("--nodes", 0, "FILE", "inventory: the same as -p nodes=FILE")
#define PRIORITY(help) VALUE("--priority", 0, "N", help)
#define SHOWN                                                                                      \
    JSON("one JSON object an event"),                                                              \
        FLAG("--quiet", 'q', "show failures and the end alone; with --json no task output"),       \
        FLAG("--verbose", 'v', "show also when tasks start, run and are stopped")

static const struct cli_opt no_opts[] = {{.name = NULL}};

static const struct cli_command commands[] = {
    {"run", "FILE", "run a pipeline; the word `run` may be left out",
     "A task's end is one line, behind the task's output. On a terminal a table of what goes on\n"
     "stays below. Whoever reads slowly, or not at all, holds nothing: lines beyond a bound are\n"
     "counted, and 'flowrun logs' has them.\n"
     "Ctrl-C once stops all tasks and ends the run as cancelled; twice within a second, or a\n"
     "closed terminal, leaves the tasks running: 'flowrun resume' goes on with them.\n",
     OPTS(PARAM("set a parameter of the pipeline"), NODES,
          PRIORITY("in the queue the larger goes first (default 0)"),
          VALUE("--at", 0, "TIME",
                "logical time of the run, for schedule.*: 2026-12-24T02:00 (default now)"),
          SHOWN),
     .run = cli_run},
    {"resume", "[RUN]", "go on with a run whose flowrun ended",
     "Without RUN it takes the run that no flowrun looks after; when there are several it asks\n"
     "on a terminal, and lists them elsewhere. Tasks that went on meanwhile are found again and\n"
     "their output is fetched; nothing runs twice. Ends as the run does, with its exit code; so\n"
     "it does, at once, where RUN is over already.\n",
     OPTS(VALUE("--file", 0, "FILE", "go on with a changed pipeline file"),
          VALUE("--abandon", 0, "NODE",
                "give a lost node up: its attempts end as node_lost; also of a run that another "
                "flowrun drives"),
          SHOWN),
     .run = cli_resume},
    {"attach", "[RUN]", "show a run that another flowrun looks after, as that one shows it",
     "Shows what happened so far, then what happens; ends as the run does, with its exit code.\n"
     "Ctrl-C leaves the following alone: the run goes on. Without RUN it takes the run that is\n"
     "not over; when there are several it asks on a terminal, and lists them elsewhere.\n",
     OPTS(SHOWN), .run = cli_attach},
    {"watch", "[RUN]", "show a run's curves of loss and speed, above its tasks",
     "Of tasks with metrics, such as train. Elsewhere than on a terminal: a line when a task has\n"
     "new steps. Ends as the run does, with its exit code; Ctrl-C leaves the watching alone.\n",
     no_opts, .run = cli_watch},
    {"serve", "[FOLDER…]",
     "drive the home's runs until it is stopped, and start those of schedules",
     "Takes the runs that other shells submit, and goes on with those that the host before drove,\n"
     "followed or not. Pipelines in the folders that have a schedule: are started by it; 'flowrun\n"
     "schedules' shows when, and what became of the times before. Files NAME.yaml and NAME.yml of\n"
     "the folders count, those of folders below them do not; a changed one counts at once.\n"
     "SIGTERM and Ctrl-C end it: tasks go on, and the next host or follower finds them; it says\n"
     "which jobs of Slurm are left. SIGHUP makes it read config.yaml again.\n",
     OPTS(VALUE("--log", 0, "FILE",
                "write to FILE, which is begun anew at 8 MiB; FILE.1 to FILE.4 are older"),
          FLAG("--standby", 0, "wait while another flowrun is the host, and be the next one"),
          VALUE("--http", 0, "ADDRESS:PORT",
                "pages for browsers there; port 0 takes a free one; may be given again"),
          VALUE("--host", 0, "NAME",
                "a name that browsers call this host by, beside localhost and its address"),
          VALUE("--base", 0, "PATH", "the pages lie below PATH, as a proxy in front has it"),
          VALUE("--proxy", 0, "ADDRESS",
                "a proxy with that address says who asks (X-Forwarded-For and -Proto)"),
          VALUE("--metrics", 0, "ADDRESS:PORT",
                "figures for Prometheus there, without a token: GET /metrics; may be given again"),
          FLAG("--open-view", 0, "whoever reaches the pages may view them without a login")),
     .run = cli_serve},
    {"web", "", "print a link that opens the pages of the home's host, logged in",
     "'flowrun serve --http 127.0.0.1:8470' is a host with pages. The link is good once, for a\n"
     "minute; the browser is logged in as the home's owner. Others log in with a token.\n",
     no_opts, .run = cli_web},
    {"api", "[METHOD] PATH", "ask the home's host by its interface, and print its answer",
     "PATH is below /api/v1 unless it begins with '/': 'flowrun api runs?state=failed',\n"
     "'flowrun api POST runs/41/cancel'. It is asked over the home's socket, as its owner;\n"
     "'flowrun api openapi.json' says what there is.\n",
     OPTS(VALUE("--data", 'd', "JSON", "the body; makes the method POST unless it is said")),
     .run = cli_api},
    {"token", "[new NAME | list | rm NAME]",
     "make, list and remove what others log in with, and programs",
     "A token is shown once, by new. Its role: view sees all but secrets, operate starts and "
     "stops\n"
     "runs, admin also removes runs and makes tokens. Programs send it as a header:\n"
     "  curl -H 'Authorization: Bearer frt_…' http://127.0.0.1:8470/api/v1/runs\n",
     OPTS(WORD("--role", 0, "ROLE", "view operate admin", "new: view (default), operate or admin"),
          VALUE("--days", 0, "N", "new: how long it is good, 90 days unless said"),
          JSON("new, list: one JSON object a token")),
     .run = cli_token},
    {"retry", "[RUN]", "run again what failed in a run that is over, and what waits for it",
     "Ends as the run does, with its exit code; where nothing of it failed nothing is done, with\n"
     "exit code 0.\n",
     OPTS(VALUE("--from", 0, "TASK", "this task and all that waits for it, also what succeeded"),
          VALUE("--file", 0, "FILE", "use a changed pipeline file"), SHOWN),
     .run = cli_retry},
    {"rerun", "RUN", "make a run that is over again, as a new run, also with other parameters",
     "The new run has the pipeline and the files as RUN kept them, its parameters but for those\n"
     "of -p, and its logical time: what changed there since plays no part, and the files may be\n"
     "gone. Folders, and files above 1 MiB, are not kept: they are as they lie there now,\n"
     "and where they differ the run says so. 'flowrun FILE' takes the pipeline as it is now,\n"
     "'flowrun retry' goes on with what failed in the same run.\n",
     OPTS(PARAM("another value of a parameter"), NODES,
          PRIORITY("in the queue the larger goes first (default 0)"), SHOWN),
     .run = cli_rerun},
    {"status", "[RUN]", "show the tasks of a run", NULL,
     OPTS(FLAG("--failed", 0, "show only the tasks that failed"), JSON("one JSON object")),
     .run = cli_status},
    {"runs", "", "list the runs of this home, the newest first", NULL,
     OPTS(VALUE("--limit", 'n', "N", "at most so many (default 20, 0: all)"),
          JSON("one JSON object a run")),
     .run = cli_runs},
    {"queue", "[clear [PIPELINE] | RUN --priority N]",
     "list the queued runs in the order in which they start, and what each waits for",
     "A run beyond max_active_runs, of its pipeline or of this home (limits: in config.yaml), is\n"
     "queued. The larger --priority starts first, then the smaller number. A run whose pipeline\n"
     "or pool (pools: in config.yaml) has no room holds up no other. clear cancels those that\n"
     "wait, of PIPELINE or all; with RUN that run gets another priority first.\n",
     OPTS(PRIORITY("what RUN has from now on; the larger goes first"),
          JSON("one JSON object a run")),
     .run = cli_queue},
    {"schedules", "[NAME | pause NAME | resume NAME]",
     "show when pipelines run by themselves, and what became of the times before",
     "NAME is PIPELINE/SCHEDULE, a schedule's name that no other has, or a pipeline or file for "
     "all\n"
     "of its schedules. Each time of a schedule is decided once: ran, skipped (a run was in its\n"
     "way), missed (no host was there in time), dropped (more than catchup_limit), superseded,\n"
     "paused, invalid (the file could not be loaded). The times while a schedule is paused start\n"
     "nothing, also after its resume, unless that says --catchup. Its runs that wait in the queue "
     "go\n"
     "on, unless the pause says --queued: then they are cancelled. pause_after: of a schedule "
     "pauses\n"
     "it by itself. 'flowrun serve FOLDER' is what starts the runs.\n",
     OPTS(JSON("one JSON object a schedule"),
          FLAG("--all", 0, "of pause and resume: all schedules"),
          VALUE("--note", 0, "TEXT", "of pause: why"),
          FLAG("--queued", 0, "of pause: its runs that wait in the queue are cancelled"),
          FLAG("--catchup", 0,
               "of resume: what passed meanwhile is judged by the schedule's catchup:")),
     .run = cli_schedules},
    {"logs", "[RUN] [TASK]", "show the output of a run's tasks, merged by time",
     "TASK is a task's name, the key of an instance (task@node, task[lr=1e-05,rank=8]), or a\n"
     "pattern of either: '*' is any text, '?' any character. With --follow it ends when\n"
     "the run does, or says that no flowrun looks after it.\n",
     OPTS(FLAG("--follow", 'f', "go on as more comes, until the run ends"),
          VALUE("--tail", 'n', "N", "begin with the last N lines"),
          FLAG("--failed", 0, "only of tasks that failed"),
          FLAG("--times", 't', "show when each line was written")),
     .run = cli_logs},
    {"backfill", "FILE", "make runs for instants of a schedule that are past",
     "From --from on, before --to, one behind the other, by a 'flowrun serve' of the file's\n"
     "folder; the schedule may be paused. What becomes of an instant that has a run already,\n"
     "--existing says; one whose run is not over stays as it is. 'flowrun backfills' shows how\n"
     "far it is.\n",
     OPTS(VALUE("--from", 0, "TIME",
                "first instant, in the schedule's zone: 2026-12-24T02:00, 2026-12-24"),
          VALUE("--to", 0, "TIME", "the instants before this one; a date is its midnight"),
          VALUE("--schedule", 0, "NAME", "which of the file's schedules"),
          VALUE("--max-active", 0, "N", "runs at a time (default 1)"),
          WORD("--order", 0, "WORD", "oldest newest", "oldest (default) or newest first"),
          WORD("--existing", 0, "WORD", "skip failed all",
               "skip (default): not where a run succeeded; failed: only where one failed; all"),
          PRIORITY("in the queue the larger goes first (default -10)"),
          PARAM("set a parameter of its runs"),
          FLAG("--dry-run", 'n', "say what would be done with each instant"),
          JSON("one JSON object an instant of a dry run, and one for all")),
     .run = cli_backfill},
    {"backfills", "[pause | resume | cancel N]", "list backfills, or change one", NULL,
     OPTS(JSON("one JSON object a backfill")), .run = cli_backfills},
    {"cancel", "[RUN]", "stop all tasks of a run, from any shell",
     "Without RUN it takes the run that is not over; when there are several it asks on a\n"
     "terminal, and lists them elsewhere.\n"
     "Returns when they have ended, within their grace periods, and says what it found: what\n"
     "cannot be proven gone is named, and the exit code is 1 then. A run that is over already "
     "needs\n"
     "no cancelling: exit code 0. Left by Ctrl-C it still happens.\n",
     OPTS(JSON(
         "what was found as a JSON object, behind one an event when it stops the tasks itself")),
     .run = cli_cancel},
    {"rm", "RUN…", "remove runs that are over, with their logs",
     "A run that goes on is cancelled first, a pinned one unpinned.\n",
     OPTS(JSON("one JSON object a run")), .run = cli_rm},
    {"gc", "", "remove the runs that the configuration does not keep, and what no run needs",
     "keep: in config.yaml (see 'flowrun help config') says which stay. Pinned runs always stay,\n"
     "and of each pipeline the newest that succeeded and the newest that failed.\n",
     OPTS(FLAG("--dry-run", 'n', "say what would go and remove nothing"),
          JSON("one JSON object a run, and one for all")),
     .run = cli_gc},
    {"pin", "RUN…", "keep these runs: neither rm nor gc removes them", NULL, no_opts,
     .run = cli_pin},
    {"unpin", "RUN…", "let pinned runs go", NULL, no_opts, .run = cli_unpin},
    {"validate", "FILE", "check a pipeline file and say all that is wrong with it",
     "Looks for the files, keys and secrets that it names on this machine, too; nothing is\n"
     "reached or changed, and no command of a secret runs.\n",
     OPTS(PARAM("set a parameter of the pipeline"), NODES), .run = cli_validate},
    {"graph", "FILE", "draw the graph of a pipeline as text, dot or svg", NULL,
     OPTS(WORD("--format", 'f', "FORMAT", "text dot svg", "text (default), dot or svg"),
          FLAG("--show-nodes", 0, "name the nodes of each task"),
          PARAM("set a parameter of the pipeline"), NODES),
     .run = cli_graph},
    {"nodes", "FILE", "show the nodes of a pipeline or inventory, and reach them with --check",
     "Of an inventory with slurm:, --check asks Slurm, too: whether its version, and the "
     "partitions of\n"
     "the allocations, are fit for what the file says. No job is submitted.\n",
     OPTS(FLAG("--check", 'c', "reach each of them"), JSON("one JSON object"),
          FLAG("--verbose", 'v', "with --check: ssh's directives in force for each"),
          PARAM("set a parameter of the pipeline")),
     .run = cli_nodes},
    {"drain", "[NODE]", "let nothing new start on a node, or list the nodes where it is so",
     "What runs there goes on to its end. Tasks of all runs that need the node wait and say so,\n"
     "until 'flowrun undrain NODE'; a gang with such a node keeps no others from the rest. NODE\n"
     "is its name in an inventory: the node that the newest run reached by it, for all runs,\n"
     "whatever they call it.\n",
     OPTS(VALUE("--note", 0, "TEXT", "why: whoever waits for the node reads it"),
          JSON("without NODE: one JSON object a drained node")),
     .run = cli_drain},
    {"undrain", "NODE", "let tasks start on a node again", NULL, no_opts, .run = cli_undrain},
    {"config", "[FILE]", "check the configuration of this home and show what is in force",
     "It stands in config.yaml in the home (see 'flowrun help'); 'flowrun schema config' tells\n"
     "all of it. Without that file there is no limit and no run is removed. FILE: check that one.\n"
     "  keep: {runs: 100, days: 30, failed_days: 90, bytes: 20GiB}\n"
     "leaves the newest 100 runs of each pipeline, those that ended in the last 30 days (failed\n"
     "ones: 90), and 20 GiB of their logs; 'flowrun gc', and a 'flowrun serve' by itself, removes\n"
     "what is beyond any of these. keep_runs: of a pipeline says the same of its runs, and wins.\n",
     OPTS(JSON("one JSON object; 0 is no limit")), .run = cli_show_config},
    {"notify", "[list | test CHANNEL | again DELIVERY]",
     "show which messages of notify: were sent, try a channel, send one again",
     "channels: of the home's config.yaml says where messages go, notify: there and in pipelines\n"
     "which events are told. A message is sent at least once, by the home's host: after a failure\n"
     "again 5 s, 30 s, 2 min, 10 min, 1 h, 3 h, 8 h and 24 h later. States: waiting, sent, dead\n"
     "(it is not tried any more), held (throttle: of its rule), quiet (it waits for the end of\n"
     "quiet: of its rule). test sends a message from this shell.\n",
     OPTS(VALUE("--channel", 0, "NAME", "list: of that channel alone"),
          WORD("--state", 0, "STATE", &(FR_DELIVERY_STATES(FR_WORD_SPACED))[1],
               "list: waiting, sent, dead, held or quiet"),
          JSON("list: one JSON object a delivery"), FLAG("--deliver", 0, NULL)),
     .run = cli_notify},
    {"trace", "[RUN]", "print a run as a trace of OpenTelemetry",
     "A line of JSON for each 512 spans, as OTLP/HTTP takes them (POST to /v1/traces). With\n"
     "OTEL_EXPORTER_OTLP_ENDPOINT set, or a channel of kind otlp in config.yaml, the home's host\n"
     "sends the trace of each run that is over.\n",
     no_opts, .run = cli_trace},
    {"schema", "[pipeline | config]", "print the JSON schema of pipeline files, or of config.yaml",
     NULL, no_opts, .run = cli_schema},
    {"completion", "bash | zsh | fish", "print what completes flowrun's words in a shell",
     "Installed packages have it in place already. Else:\n"
     "  bash: source <(flowrun completion bash)                       in ~/.bashrc\n"
     "  zsh:  source <(flowrun completion zsh)                        in ~/.zshrc, after compinit\n"
     "  fish: flowrun completion fish > ~/.config/fish/completions/flowrun.fish\n",
     no_opts, .run = cli_completion},
    {"complete", "[WORD…]", "print what the last WORD may become, for the scripts of completion",
     NULL, no_opts, .run = cli_complete, .hidden = true, .raw = true},
    {"man", "", "print this program's page for man(1)", NULL, no_opts, .run = cli_man,
     .hidden = true},
    {"version", "", "print the version, and of which commit and how it was built", NULL,
     OPTS(FLAG("--verbose", 'v', "also of the kernel and of libraries")), .run = cli_version},
    {"help", "[COMMAND | exit-codes | causes]", "explain a command, or list one of these", NULL,
     no_opts, .run = cli_help},
    {.name = NULL},
};

const struct cli_command *cli_command_table(void)
{
    return commands;
}

const struct cli_command *cli_command_find(const char *name)
{
    for (const struct cli_command *c = commands; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}
