/* Built-in tasks: what each says of wrong inputs; train's command, gather-adapters, janitor. */
#include "tests/unit/tasks/tasks_bed.h"

#include "engine/spec/spec.h"

#include <signal.h>
#include <sys/wait.h>

static void test_wrong_inputs(struct bed *b)
{
    static const struct {
        const char *task, *with, *message;
        int code;
    } rows[] = {
        {"train", "[]", "inputs: expected a JSON object", FR_JOB_USAGE},
        {"train", "{", "inputs", FR_JOB_USAGE},
        {"train", "{\"output_dir\": \"/x\"}", "input 'model' is missing", FR_JOB_USAGE},
        {"train", "{\"output_dir\": \"/x\", \"nproc_per_node\": 0}", "'nproc_per_node' is 0",
         FR_JOB_USAGE},
        {"train", "{\"port\": 70000}", "port 70000 is not", FR_JOB_USAGE},
        {"train", "{\"dry_run\": \"yes\"}", "input 'dry_run' is not true or false", FR_JOB_USAGE},
        {"nccl-probe", "{\"iterations\": 0}", "'iterations' is 0", FR_JOB_USAGE},
        {"cleanup", "{\"globs\": [\"/etc/*\"]}", "not below /dev/shm, /tmp or ~/.nv", FR_JOB_USAGE},
        {"cleanup", "{\"globs\": [\"/tmp/../etc/x\"]}", "empty, . or ..", FR_JOB_USAGE},
        {"cleanup", "{\"globs\": \"/tmp/x\"}", "input 'globs' is not a list of texts",
         FR_JOB_USAGE},
        {"cleanup", "{\"processes\": [\"/bin/sh\"]}", "no name of a program", FR_JOB_USAGE},
        {"cleanup", "{\"owner\": \"nobody-like-this\"}", "no user 'nobody-like-this'", 1},
        {"cleanup", "{\"port\": 70000}", "'port' is 70000", FR_JOB_USAGE},
        {"preflight", "{\"ports\": 1000}", "expected at most", FR_JOB_USAGE},
        {"preflight", "{\"gpus\": 4}", "GPUs are wanted, and there is no nvidia-smi", 1},
        {"preflight", "{\"ports\": 0, \"commands\": [\"no-such-command\"]}", "is not in PATH", 1},
        {"preflight", "{\"ports\": 0, \"disk\": 4611686018427387904}", "free space in", 1},
        {"container", "{\"runtime\": \"podman\"}", "podman is not installed", 1},
        {"gather-adapters", "{}", "input 'from' is missing", FR_JOB_USAGE},
        {"gather-adapters", "{\"from\": \"/x\", \"files\": [\"../y\"]}", "not a path below",
         FR_JOB_USAGE},
        {"gather-adapters", "{\"from\": \"/nowhere\", \"to\": \"/tmp/flowrun-none/a\"}",
         "is not there", 1},
        {"publish", "{\"to\": \"/x\"}", "input 'from' is missing", FR_JOB_USAGE},
        {"publish", "{\"from\": \"/nowhere\", \"to\": \"/x\"}", "cannot publish /nowhere", 1},
        {"publish", "{\"from\": \"/x\", \"to\": \"/y\", \"version\": \"a/b\"}", "plain name",
         FR_JOB_USAGE},
        {"janitor", "{}", "input 'dir' is missing", FR_JOB_USAGE},
        {"janitor", "{\"dir\": \"/x\", \"interval\": 0}", "interval 0 ms", FR_JOB_USAGE},
    };

    setenv("PATH", text_at(b, "%s%s", "/empty"), 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct said s = run_task(b, rows[i].task, rows[i].with);
        json_t *line = last_json(&s);

        check_row(rows[i].with);
        CHECK_INT(s.code, rows[i].code);
        if (!CHECK(says(&s.err, rows[i].message)))
            printf("said: %s\n", s.err.p != NULL ? s.err.p : "");
        CHECK(json_is_false(json_object_get(line, "ok")));
        json_decref(line);
        said_finish(&s);
    }
    check_row("");
    setenv("PATH", bed_path, 1);
    fr_remove_tree("/tmp/flowrun-none", NULL);
}

static void test_train_command(struct bed *b)
{
    static const char with[] =
        "{\"dry_run\": true, \"model\": \"/m\", \"dataset\": \"d\", \"dataset_dir\": \"/d\","
        " \"output_dir\": \"out\", \"learning_rate\": 5e-05, \"bf16\": true, \"max_steps\": 40,"
        " \"ddp_timeout\": 120000, \"args\": [\"--plot_loss\"]}";
    static const char *const words[] = {
        "launch --nproc_per_node 2 --nnodes 3 --node_rank 1 --master_port 41234 "
        "--master_addr 10.0.0.1 --rdzv_id run1 -- train --do_train true",
        "--model_name_or_path /m",
        "--learning_rate 5e-05",
        "--bf16 true",
        "--max_steps 40",
        "--output_dir /w/out",
        "--ddp_timeout 120",
        "--plot_loss"};

    setenv("FLOWRUN_WORK", "/w", 1);
    setenv("FLOWRUN_RUN", "run1", 1);
    setenv("FLOWRUN_GPUS", "2", 1);
    setenv("NNODES", "3", 1);
    setenv("NODE_RANK", "1", 1);
    setenv("MASTER_ADDR", "10.0.0.1", 1);
    setenv("MASTER_PORT", "41234", 1);
    struct said first = run_task(b, "train", with);
    setenv("FLOWRUN_ATTEMPT_NO", "2", 1);
    struct said second = run_task(b, "train", with);
    unsetenv("FLOWRUN_ATTEMPT_NO");
    setenv("FLOWRUN_GENERATION", "2", 1);
    struct said third = run_task(b, "train", with);

    CHECK_INT(first.code, 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!CHECK(says(&first.out, words[i])))
            printf("missing: %s\n", words[i]);
    CHECK(!says(&second.out, "resume_from_checkpoint")); /* what lies there may be another run's */
    CHECK(says(&first.out, "--resume_run run1"));
    CHECK(says(&second.out, "--resume_run run1"));
    CHECK(says(&third.out, "--resume_run run1"));
    CHECK(access("/w", F_OK) != 0);
    static const char *const vars[] = {"FLOWRUN_WORK",       "FLOWRUN_RUN", "FLOWRUN_GPUS",
                                       "FLOWRUN_GENERATION", "NNODES",      "NODE_RANK",
                                       "MASTER_ADDR",        "MASTER_PORT"};
    for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
        unsetenv(vars[i]);
    said_finish(&first);
    said_finish(&second);
    said_finish(&third);
}

static void test_gather(struct bed *b)
{
    struct fr_buf with = {0};
    struct fr_err err;

    CHECK(fr_mkdirs(text_at(b, "%s/%s", "trained"), 0755, &err) == FR_OK);
    put(text_at(b, "%s/trained/%s", "one"), "1");
    put(text_at(b, "%s/trained/%s", "empty"), "");
    fr_buf_fmt(&with,
               "{\"from\": \"%s/trained\", \"to\": \"%s/adapter\", \"files\": [\"one\"], "
               "\"verify\": false}",
               b->dir, b->dir);
    for (int i = 0; i < 2; i++) {
        struct said s = run_task(b, "gather-adapters", with.p);
        CHECK_INT(s.code, 0);
        CHECK(access(text_at(b, "%s/adapter/%s", "one"), F_OK) == 0);
        said_finish(&s);
    }
    with.n = 0;
    fr_buf_fmt(&with,
               "{\"from\": \"%s/trained\", \"to\": \"%s/adapter\", \"files\": [\"empty\"], "
               "\"verify\": false}",
               b->dir, b->dir);
    struct said s = run_task(b, "gather-adapters", with.p);
    CHECK_INT(s.code, 1);
    CHECK(says(&s.err, "is empty"));
    CHECK(access(text_at(b, "%s/adapter/%s", "one"), F_OK) == 0); /* the old one stays */
    CHECK(access(text_at(b, "%s/%s", "adapter.gather-hand"), F_OK) != 0);
    said_finish(&s);
    fr_buf_finish(&with);
}

/* Gathers the model of the folder "model", unverified: its exit status; what it printed is in *s.
 */
static int gather_model(struct bed *b, struct said *s)
{
    struct fr_buf with = {0};

    fr_buf_fmt(
        &with,
        "{\"what\": \"model\", \"from\": \"%s/model\", \"to\": \"%s/gathered\", \"verify\": false}",
        b->dir, b->dir);
    *s = run_task(b, "gather-adapters", with.p);
    fr_buf_finish(&with);
    return s->code;
}

static void test_gather_model(struct bed *b)
{
    static const char index[] =
        "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\","
        " \"c\": \"one.safetensors\"}}";
    static const struct {
        const char *index; /* of the shards */
        const char *says;
    } wrong[] = {
        {"{\"weight_map\": {\"a\": \"../one\"}}", "'../one' is not a path below"},
        {"{\"weight_map\": {\"a\": \"three\"}}", "three is not there"},
        {"{\"weight_map\": {\"a\": 3}}", "weight_map has no file for 'a'"},
        {"{\"weight_map\": {}}", "names no tensors"},
    };
    struct fr_err err;
    struct said s;

    CHECK(fr_mkdirs(text_at(b, "%s/%s", "model"), 0755, &err) == FR_OK);
    put(text_at(b, "%s/model/%s", "config.json"), "{}");
    put(text_at(b, "%s/model/%s", "trainer_log.jsonl"), "{}");
    put(text_at(b, "%s/model/%s", "one.safetensors"), "1");
    put(text_at(b, "%s/model/%s", "two.safetensors"), "2");
    put(text_at(b, "%s/model/%s", "model.safetensors.index.json"), index);
    CHECK_INT(gather_model(b, &s), 0);
    CHECK(says(&s.out, "model_dir"));
    said_finish(&s);
    CHECK(access(text_at(b, "%s/gathered/%s", "one.safetensors"), F_OK) == 0);
    CHECK(access(text_at(b, "%s/gathered/%s", "two.safetensors"), F_OK) == 0);
    CHECK(access(text_at(b, "%s/gathered/%s", "model.safetensors.index.json"), F_OK) == 0);
    CHECK(access(text_at(b, "%s/gathered/%s", "trainer_log.jsonl"), F_OK) != 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        put(text_at(b, "%s/model/%s", "model.safetensors.index.json"), wrong[i].index);
        CHECK(gather_model(b, &s) != 0);
        CHECK(says(&s.err, wrong[i].says));
        said_finish(&s);
    }
    put(text_at(b, "%s/model/%s", "model.safetensors"), "3");
    CHECK(gather_model(b, &s) != 0);
    CHECK(says(&s.err, "remove those of the older model"));
    said_finish(&s);
    CHECK(access(text_at(b, "%s/gathered/%s", "two.safetensors"), F_OK) ==
          0); /* the old ones stay */
}

static void test_janitor(struct bed *b)
{
    static const int steps[] = {2, 10, 30};
    struct fr_buf with = {0};
    char name[64];

    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "out/checkpoint-%d", steps[i]);
        CHECK(fr_mkdirs(text_at(b, "%s/%s", name), 0755, NULL) == FR_OK);
        snprintf(name, sizeof(name), "out/checkpoint-%d/x", steps[i]); /* a folder may be free */
        CHECK(fr_file_write(text_at(b, "%s/%s", name), "x", 1, 0644, NULL) == FR_OK);
    }
    CHECK(fr_mkdirs(text_at(b, "%s/%s", "out/resume/step-1"), 0755, NULL) == FR_OK);
    fr_buf_fmt(&with,
               "{\"dir\": \"%s/out\", \"max_size\": 1, \"keep_checkpoints\": 2, "
               "\"dry_run\": true}",
               b->dir);
    struct said s = run_task(b, "janitor", with.p);
    CHECK_INT(s.code, 0);
    CHECK(says(&s.out, "would: remove") && says(&s.out, "checkpoint-2 ("));
    CHECK(!says(&s.out, "checkpoint-10") && !says(&s.out, "resume"));
    said_finish(&s);

    /* the same as a sidecar: it looks, and ends well when it is stopped */
    with.n = 0;
    fr_buf_fmt(&with,
               "{\"dir\": \"%s/out\", \"max_size\": 1, \"keep_checkpoints\": 2, "
               "\"interval\": 600000}",
               b->dir);
    int fds[2], status;
    char c;
    CHECK(pipe(fds) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], 1);
        execl(b->flownode, b->flownode, "task", "janitor", with.p, (char *)NULL);
        _exit(9);
    }
    close(fds[1]);
    CHECK(read(fds[0], &c, 1) == 1); /* its line about checkpoint-2 */
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(access(text_at(b, "%s/%s", "out/checkpoint-2"), F_OK) != 0);
    CHECK(access(text_at(b, "%s/%s", "out/checkpoint-10"), F_OK) == 0);
    CHECK(access(text_at(b, "%s/%s", "out/resume/step-1"), F_OK) == 0);
    close(fds[0]);
    fr_buf_finish(&with);
}

/* The name of the result is the engine's; a sidecar writes none, its task's outputs are not its. */
static void test_result(struct bed *b)
{
    static const char *const tasks[] = {"cleanup", "janitor"};
    const char *path = text_at(b, "%s/%s", "outputs");

    CHECK_TEXT(FR_JOB_RESULT, FR_RESULT);
    CHECK_INT(FR_JOB_USAGE, FR_EXIT_USAGE);
    setenv("FLOWRUN_OUTPUT", path, 1);
    for (int i = 0; i < 2; i++) {
        struct fr_buf given = {0};
        struct fr_err err = {0};

        check_row(tasks[i]);
        struct said s = run_task(b, tasks[i], "{\"dir\": 3}");
        CHECK_INT(s.code, i == 0 ? 0 : FR_JOB_USAGE);
        CHECK(s.out.p == NULL || !says(&s.out, "{"));
        said_finish(&s);
        (void)fr_file_read(path, 1 << 20, &given, &err);
        CHECK((given.n > 0) == (i == 0));
        CHECK(given.n == 0 || fr_has_prefix(given.p, FR_RESULT "={\"task\":\"cleanup\","));
        fr_buf_finish(&given);
        unlink(path);
    }
    unsetenv("FLOWRUN_OUTPUT");
    check_row("");
}

int main(int argc, char **argv)
{
    struct bed b;

    if (!bed_begin(&b, argc, argv))
        return EXIT_FAILURE;
    test_wrong_inputs(&b);
    test_train_command(&b);
    test_gather(&b);
    test_gather_model(&b);
    test_janitor(&b);
    test_result(&b);
    bed_end(&b);
    return check_done();
}
