#include "trainer/dataset/columns.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { STATE_MAX_BYTES = 16 << 20 };

/* Writes the records, or one line "!REASON". */
static const char script[] =
    "import json, sys\n"
    "def fail(why):\n"
    "    print('!' + str(why).replace('\\n', ' '))\n"
    "    sys.exit(0)\n"
    "try:\n"
    "    import pyarrow as pa\n"
    "    import pyarrow.ipc\n"
    "    import pyarrow.parquet\n"
    "except ImportError as e:\n"
    "    fail('?%s has no pyarrow (%s)' % (sys.executable, e))\n"
    "def of(t):\n"
    "    if isinstance(t, pa.BaseExtensionType):\n"
    "        if t.extension_name == 'arrow.json':\n"
    "            return lambda v: json.loads(v) if isinstance(v, str) else v\n"
    "        return of(t.storage_type)\n"
    "    if pa.types.is_struct(t):\n"
    "        parts = [(f.name, of(f.type)) for f in (t.field(i) for i in range(t.num_fields))]\n"
    "        parts = [p for p in parts if p[1]]\n"
    "        def whole(v):\n"
    "            for name, part in parts:\n"
    "                if v[name] is not None:\n"
    "                    v[name] = part(v[name])\n"
    "            return v\n"
    "        return whole if parts else None\n"
    "    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):\n"
    "        part = of(t.value_type)\n"
    "        return (lambda v: [x if x is None else part(x) for x in v]) if part else None\n"
    "    return None\n"
    "def batches(path):\n"
    "    if path.endswith('.parquet'):\n"
    "        f = pyarrow.parquet.ParquetFile(path)\n"
    "        return f.schema_arrow, f.iter_batches(1024)\n"
    "    source = pa.memory_map(path)\n"
    "    try:\n"
    "        f = pa.ipc.open_stream(source)\n"
    "        return f.schema, f\n"
    "    except pa.ArrowInvalid:\n"
    "        f = pa.ipc.open_file(pa.memory_map(path))\n"
    "        return f.schema, (f.get_batch(i) for i in range(f.num_record_batches))\n"
    "try:\n"
    "    schema, all = batches(sys.argv[1])\n"
    "    whole = of(pa.struct(list(schema))) or (lambda v: v)\n"
    "    for batch in all:\n"
    "        for row in batch.to_pylist():\n"
    "            print(json.dumps(whole(row), default=lambda v: {'type': type(v).__name__}))\n"
    "    sys.stdout.flush()\n"
    "except BrokenPipeError:\n"
    "    pass\n"
    "except Exception as e:\n"
    "    fail('%s: %s' % (type(e).__name__, e))\n";

bool tr_is_columns(struct fr_str name)
{
    return fr_str_ends(name, ".parquet") || fr_str_ends(name, ".arrow");
}

static const char *python(void)
{
    const char *own = getenv("FLOWTRAIN_PYTHON");

    return own != NULL && own[0] != '\0' ? own : "python3";
}

static enum fr_rc without(const char *path, const char *why, struct fr_err *err)
{
    const char *kind = fr_str_ends(fr_str_of(path), ".parquet") ? "parquet" : "arrow";

    return fr_fail(err, FR_UNSUPPORTED,
                   "%s: a Python with pyarrow reads .%s files, but %s. Install it (pip install "
                   "pyarrow), name one that has it (FLOWTRAIN_PYTHON=/path/to/python3), or make "
                   "JSON lines of the file where datasets is: python3 -c 'import datasets; "
                   "datasets.load_dataset(\"%s\", data_files=\"%s\", split=\"train\")"
                   ".to_json(\"records.jsonl\")'",
                   path, kind, why, kind, path);
}

/* All that comes out of the pipe. After max bytes nothing more is read. */
static enum fr_rc drain(int fd, const char *path, size_t max, struct fr_buf *out,
                        struct fr_err *err)
{
    char piece[1 << 15];

    for (;;) {
        ssize_t n = fr_sys.read(fd, piece, sizeof(piece));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fr_fail_errno(err, errno, "reading %s", path);
        if (n == 0)
            return FR_OK;
        fr_buf_add(out, piece, (size_t)n);
        if (out->bad)
            return fr_fail(err, FR_NOMEM, "no memory for the records of %s", path);
        if (out->n > max)
            return fr_fail(err, FR_USAGE, "%s: its records are more than %zu bytes of JSON", path,
                           max);
    }
}

/* The line that the script ends with where it failed. */
static enum fr_rc check_end(const char *path, const struct fr_buf *out, struct fr_err *err)
{
    const char *line = out->n > 0 ? out->p + out->n : NULL;
    int n;

    if (line == NULL || line[-1] != '\n')
        return FR_OK; /* its status says so */
    for (line--; line > out->p && line[-1] != '\n';)
        line--;
    n = (int)(out->p + out->n - 1 - line);
    if (line[0] != '!')
        return FR_OK;
    if (n > 1 && line[1] == '?') {
        char why[256];

        (void)snprintf(why, sizeof(why), "%.*s", n - 2, line + 2);
        return without(path, why, err);
    }
    return fr_fail(err, FR_USAGE, "%s: pyarrow cannot read it: %.*s", path,
                   n - 1 < 400 ? n - 1 : 400, line + 1);
}

enum fr_rc tr_columns_read(const char *path, size_t max, struct fr_buf *out, struct fr_err *err)
{
    const char *const argv[] = {python(), "-c", script, path, NULL};
    char why[PATH_MAX];
    struct fr_proc proc;
    struct fr_wait end = {0};
    int fds[2];
    enum fr_rc rc;

    if (fr_sys.pipe(fds) != 0)
        return fr_fail_errno(err, errno, "a pipe to read %s", path);
    struct fr_spawn s = {.argv = argv,
                         .envp = (const char *const *)environ,
                         .fds = {-1, fds[1], 2},
                         .die_with_parent = true};
    int failed = fr_sys.spawn(&s, &proc) == 0 ? 0 : errno;
    (void)fr_sys.close(fds[1]);
    if (failed != 0) {
        (void)fr_sys.close(fds[0]);
        (void)snprintf(why, sizeof(why), "%s cannot be started: %s", argv[0], strerror(failed));
        return without(path, why, err);
    }
    rc = drain(fds[0], path, max, out, err);
    (void)fr_sys.close(fds[0]);
    if (fr_sys.wait(proc.pid, &end, 0) != 0 && rc == FR_OK)
        rc = fr_fail_errno(err, errno, "waiting for %s", argv[0]);
    if (rc == FR_OK)
        rc = check_end(path, out, err);
    if (rc == FR_OK && (end.signaled || end.code != 0))
        rc = fr_fail(err, FR_IO, "%s: %s, which read it, %s %d", path, argv[0],
                     end.signaled ? "was killed by signal" : "exited with status", end.code);
    return rc;
}

/* The splits of a folder of several, by name. */
static enum fr_rc name_splits(const char *dir, const json_t *root, struct fr_err *err)
{
    struct fr_buf names = {0};
    json_t *v;
    size_t i;

    json_array_foreach(json_object_get(root, "splits"), i, v) if (json_is_string(v))
        fr_buf_fmt(&names, "%s%s", i > 0 ? ", " : "", json_string_value(v));
    fr_fail(err, FR_USAGE,
            "%s holds the splits %s: file_name is the folder of one of them, \"%s/NAME\"", dir,
            names.n > 0 ? names.p : "(none)", dir);
    fr_buf_finish(&names);
    return FR_USAGE;
}

/* The file NAME of dir, parsed; *root stays NULL where there is none. */
static enum fr_rc load_in(const char *dir, const char *name, json_t **root, struct fr_err *err)
{
    char path[PATH_MAX];
    struct stat st;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX ||
        fr_sys.lstat(path, &st) != 0)
        return FR_OK;
    return fr_json_load(path, STATE_MAX_BYTES, root, err);
}

enum fr_rc tr_columns_saved(const char *dir, struct fr_arena *arena, const char ***files, size_t *n,
                            struct fr_err *err)
{
    json_t *root = NULL, *v;
    const json_t *list;
    enum fr_rc rc = load_in(dir, "dataset_dict.json", &root, err);
    size_t i;

    *files = NULL;
    *n = 0;
    if (rc == FR_OK && root != NULL)
        rc = name_splits(dir, root, err);
    json_decref(root);
    root = NULL;
    if (rc == FR_OK)
        rc = load_in(dir, "state.json", &root, err);
    list = json_object_get(root, "_data_files");
    if (rc != FR_OK || !json_is_array(list))
        goto out;
    if (json_array_size(json_object_get(root, "_indices_data_files")) > 0) {
        rc = fr_fail(err, FR_UNSUPPORTED,
                     "%s: an order of records beside the records is not read; flatten_indices() "
                     "before save_to_disk() leaves none",
                     dir);
        goto out;
    }
    *files = fr_arena_array(arena, json_array_size(list) + 1, sizeof(**files));
    json_array_foreach((json_t *)list, i, v)
    {
        const char *name = json_string_value(json_object_get(v, "filename"));

        if (name == NULL || strchr(name, '/') != NULL || !tr_is_columns(fr_str_of(name)))
            rc = fr_fail(err, FR_USAGE, "%s/state.json: data file %zu has no name in the folder",
                         dir, i + 1);
        else if (*files == NULL || ((*files)[*n] = fr_arena_fmt(arena, "%s/%s", dir, name)) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for the list of data files");
        if (rc != FR_OK)
            goto out;
        (*n)++;
    }
out:
    json_decref(root);
    if (rc != FR_OK)
        *files = NULL;
    return rc;
}
