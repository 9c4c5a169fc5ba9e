/* drain and undrain: whether anything new starts on a node. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/drained.h"
#include "engine/store/types.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

enum { NAME_MOST = 64 };

static void print_drained(const struct fr_drained_rows *rows, bool json)
{
    if (!json && rows->n == 0)
        fr_print("no node is drained\n");
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_drained_row *r = &rows->rows[i];
        char date[32];

        cli_date(r->wall, date);
        if (json) {
            json_t *doc = fr_row_json(&fr_drained_type, r);

            json_object_set_new(doc, "node", json_string(r->name));
            cli_put_json(doc);
        } else {
            fr_print("%-24s  drained since %s%s%s%s%s\n", r->name, date,
                     r->who[0] != '\0' ? " by " : "", r->who, r->note[0] != '\0' ? ": " : "",
                     r->note);
        }
    }
}

static enum fr_rc list(bool json, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_drained_rows rows = {0};
    enum fr_rc rc = cli_store_read(&st, err);

    if (rc == FR_OK)
        rc = fr_store_drained(st, &arena, &rows, err);
    if (rc == FR_OK)
        print_drained(&rows, json);
    fr_arena_finish(&arena);
    fr_store_close(st);
    return rc;
}

struct change {
    const char *node, *note; /* note NULL: none */
    bool drain;
};

static enum fr_rc ask_host(struct fr_store *st, const struct change *ch, struct fr_err *err)
{
    char path[128];
    struct cli_question q = {.method = "POST", .path = path};
    enum fr_rc rc;

    snprintf(path, sizeof(path), "/api/v1/nodes/%s/%s", ch->node, ch->drain ? "drain" : "undrain");
    q.body = ch->note != NULL ? json_pack("{s:s}", "note", ch->note) : NULL;
    rc = cli_ask(fr_store_home(st), &q, NULL, err);
    json_decref(q.body);
    return rc;
}

static enum fr_rc write_here(struct fr_store *st, const struct change *ch, struct fr_err *err)
{
    struct fr_drained_row row = {.name = ch->node,
                                 .wall = fr_sys.wall_ms(),
                                 .note = ch->note != NULL ? ch->note : "",
                                 .who = ""};
    enum fr_rc rc = fr_store_node_home(st, ch->node, &row.home, err);

    if (rc == FR_OK)
        rc = ch->drain ? fr_store_drain(st, &row, err) : fr_store_undrain(st, row.home, err);
    return rc;
}

static enum fr_rc change(const struct change *ch, struct fr_err *err)
{
    struct fr_store *st = NULL;
    int lock_fd = -1;
    enum fr_rc rc;

    if (strlen(ch->node) > NAME_MOST || ch->node[strspn(ch->node, NAME_BYTES)] != '\0')
        return fr_fail(err, FR_USAGE, "'%s' cannot be the name of a node", ch->node);
    if ((rc = cli_store(&st, &lock_fd, err)) == FR_BUSY) {
        if ((rc = cli_store_read(&st, err)) == FR_OK)
            rc = ask_host(st, ch, err);
    } else if (rc == FR_OK) {
        rc = write_here(st, ch, err);
    }
    cli_store_close(st, lock_fd);
    if (rc == FR_OK)
        fr_print(ch->drain ? "%s is drained: what runs there ends, nothing new starts\n"
                           : "%s takes tasks again\n",
                 ch->node);
    return rc;
}

int cli_drain(const struct cli_command *cmd, char **argv)
{
    struct cli_list args = {0};
    struct change ch = {.drain = true};
    bool json = false;
    const struct cli_opt opts[] = {
        {"--note", 0, "TEXT", "why: whoever waits for the node reads it", .value = &ch.note},
        {"--json", 0, NULL, "without NODE: one JSON object a drained node", .flag = &json},
        {.name = NULL},
    };
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK && args.n == 0) {
        rc = list(json, &err);
    } else if (rc == FR_OK) {
        ch.node = args.v[0];
        rc = change(&ch, &err);
    }
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}

int cli_undrain(const struct cli_command *cmd, char **argv)
{
    struct cli_list args = {0};
    const struct cli_opt opts[] = {{.name = NULL}};
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = change(&(struct change){.node = args.v[0]}, &err);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}
