/* drain, undrain: whether new tasks start on a node. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/drained.h"
#include "engine/store/types.h"

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

static enum fr_rc list(struct cli_call *c, struct fr_err *err)
{
    struct fr_drained_rows rows = {0};
    enum fr_rc rc = cli_store_read(&c->home.st, err);

    if (rc == FR_OK)
        rc = fr_store_drained(c->home.st, &c->arena, &rows, err);
    if (rc == FR_OK)
        print_drained(&rows, c->json);
    return rc;
}

static enum fr_rc write_here(struct fr_store *st, const char *node, bool drain, const char *note,
                             struct fr_err *err)
{
    struct fr_drained_row row = {
        .name = node, .wall = fr_sys.wall_ms(), .note = note != NULL ? note : "", .who = ""};
    enum fr_rc rc = fr_store_node_home(st, node, &row.home, err);

    if (rc == FR_OK)
        rc = drain ? fr_store_drain(st, &row, err) : fr_store_undrain(st, row.home, err);
    return rc;
}

/* note: of drain; NULL: none. */
static enum fr_rc change(struct cli_call *c, bool drain, const char *note, struct fr_err *err)
{
    const char *node = c->args.v[0];
    struct cli_question q = {.method = "POST"};
    enum fr_rc rc;

    if (strlen(node) > NAME_MOST || node[strspn(node, NAME_BYTES)] != '\0')
        return fr_fail(err, FR_USAGE, "'%s' cannot be the name of a node", node);
    rc = cli_writer_open(&c->home, err);
    if (rc == FR_OK && c->home.lock_fd >= 0)
        rc = write_here(c->home.st, node, drain, note, err);
    if (rc == FR_OK && c->home.lock_fd < 0) {
        q.body = note != NULL ? json_pack("{s:s}", "note", note) : NULL;
        rc = cli_ask(fr_store_home(c->home.st), &q, err, "/api/v1/nodes/%s/%s", node, c->cmd->name);
    }
    if (rc == FR_OK)
        fr_print(drain ? "%s is drained: what runs there ends, nothing new starts\n"
                       : "%s takes tasks again\n",
                 node);
    return rc;
}

enum fr_rc cli_drain(struct cli_call *c, struct fr_err *err)
{
    return c->args.n == 0 ? list(c, err) : change(c, true, cli_value(c, "--note"), err);
}

enum fr_rc cli_undrain(struct cli_call *c, struct fr_err *err)
{
    return change(c, false, NULL, err);
}
