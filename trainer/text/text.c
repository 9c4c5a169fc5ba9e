#include "trainer/text/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void tr_show_count(int64_t v, char out[32])
{
    char digits[32];
    int n = snprintf(digits, sizeof(digits), "%lld", (long long)v), at = 0;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
}

bool tr_next_name(const char **at, struct fr_str *name)
{
    while (**at != '\0') {
        size_t n = strcspn(*at, ",");

        *name = (struct fr_str){*at, n};
        *at += n + ((*at)[n] == ',');
        while (name->n > 0 && isspace((unsigned char)name->p[0]))
            *name = (struct fr_str){name->p + 1, name->n - 1};
        while (name->n > 0 && isspace((unsigned char)name->p[name->n - 1]))
            name->n--;
        if (name->n > 0)
            return true;
    }
    return false;
}

enum fr_rc tr_path(char out[PATH_MAX], const char *dir, const char *name, struct fr_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    return FR_OK;
}

bool tr_ends(const char *name, const char *ending)
{
    return fr_str_ends(fr_str_of(name), ending);
}
