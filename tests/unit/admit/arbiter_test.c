/* Who gets the slots of a machine: a table of claims, and what each is lent. */
#include "engine/admit/arbiter.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

struct row {
    const char *name;
    struct fr_claim claims[4]; /* slots 0: no more */
    const char
        *want; /* "LENT" of each, with "!" where it is contended, "!!" where too many are used */
};

/* slots, priority, no, {slots, used, single, gang, since, since of the gang, gang first} */
#define CLAIM(s, p, no, u, w, since)                                                               \
    {                                                                                              \
        s, p, no, {0, u, w, 0, since, 0, false}, 0, false, false                                   \
    }
#define GANG(s, p, no, u, g, since)                                                                \
    {                                                                                              \
        s, p, no, {0, u, 0, g, 0, since, false}, 0, false, false                                   \
    }

static const struct row rows[] = {
    {"alone it has the whole machine", {CLAIM(8, 0, 1, 0, 0, 0)}, "8"},
    {"alone, also beyond what it wants", {CLAIM(8, 0, 1, 2, 3, 5)}, "8"},
    {"alone, more wanted than there is", {CLAIM(2, 0, 1, 2, 3, 5)}, "2"},
    {"both fit", {CLAIM(8, 0, 1, 2, 1, 5), CLAIM(8, 0, 2, 1, 2, 4)}, "5 3"},
    {"what nobody asks for is of the highest priority",
     {CLAIM(8, 1, 3, 1, 0, 0), CLAIM(8, 5, 2, 1, 0, 0), CLAIM(8, 3, 1, 1, 0, 0)},
     "1 6 1"},
    {"… also where an older run comes behind it",
     {CLAIM(8, 5, 2, 1, 0, 0), CLAIM(8, 0, 1, 1, 0, 0)},
     "7 1"},
    {"… and of equal ones of the oldest run",
     {CLAIM(8, 0, 2, 1, 0, 0), CLAIM(8, 0, 1, 1, 0, 0), CLAIM(8, 0, 3, 1, 0, 0)},
     "1 6 1"},
    {"who waits longer comes first", {CLAIM(2, 0, 1, 1, 4, 9), CLAIM(2, 0, 2, 0, 1, 8)}, "1 1!"},
    {"the older run, of two that wait equally long",
     {CLAIM(1, 0, 2, 0, 1, 5), CLAIM(1, 0, 1, 0, 1, 5)},
     "0 1!"},
    {"priority before waiting", {CLAIM(1, 0, 1, 0, 1, 1), CLAIM(1, 5, 2, 0, 1, 9)}, "0 1!"},
    {"priority of three, whatever their numbers",
     {CLAIM(2, 1, 1, 0, 1, 1), CLAIM(2, 9, 2, 0, 1, 8), CLAIM(2, 5, 3, 0, 1, 9)},
     "0 1! 1!"},
    {"a gang of higher priority collects before a task that waits longer",
     {CLAIM(2, 0, 1, 0, 2, 1), GANG(2, 1, 2, 0, 2, 9)},
     "0 2!"},
    {"a task of higher priority goes before a gang that collects",
     {GANG(2, 0, 1, 0, 2, 1), CLAIM(2, 1, 2, 0, 1, 9)},
     "1 1!"},
    {"two gangs, in the order of waiting within one priority",
     {GANG(4, 3, 1, 0, 3, 5), GANG(4, 3, 2, 0, 3, 4), GANG(4, 0, 3, 0, 1, 1)},
     "1! 3! 0!"},
    {"a priority takes nothing from who runs already",
     {CLAIM(1, 0, 1, 1, 1, 1), CLAIM(1, 1 << 30, 2, 0, 1, 2)},
     "1! 0!"},
    {"what is in use stays", {CLAIM(2, 0, 1, 2, 0, 0), CLAIM(2, 9, 2, 0, 2, 1)}, "2! 0"},
    {"above the capacity it drains", {CLAIM(2, 0, 1, 3, 0, 0), CLAIM(2, 0, 2, 1, 1, 1)}, "3!! 1!!"},
    {"… also alone: no slot that gets free is used again", {CLAIM(4, 0, 1, 6, 3, 1)}, "6!!"},
    {"… and with nobody who waits", {CLAIM(4, 0, 1, 3, 0, 0), CLAIM(4, 0, 2, 2, 0, 0)}, "3!! 2!!"},
    {"as many as there are are not too many", {CLAIM(4, 0, 1, 4, 0, 0)}, "4"},
    {"the smaller number counts", {CLAIM(8, 0, 1, 0, 8, 1), CLAIM(3, 0, 2, 0, 0, 0)}, "3 0!"},
    {"a gang collects against those behind it",
     {GANG(4, 0, 1, 0, 4, 1), CLAIM(4, 0, 2, 2, 2, 2)},
     "2! 2!"},
    {"… and waits behind those before it",
     {GANG(4, 0, 1, 0, 3, 7), CLAIM(4, 0, 2, 2, 2, 2)},
     "0 4!"},
    {"gang and tasks of one run, another between them",
     {{4, 0, 1, {0, 0, 2, 1, 9, 1, false}, 0, false, false}, CLAIM(4, 0, 2, 0, 2, 5)},
     "2 2!"},
    {"a task waits no longer for the gang of its run than that has waited",
     {{3, 0, 1, {0, 0, 2, 1, 1, 9, false}, 0, false, false}, CLAIM(3, 0, 2, 0, 2, 5)},
     "2! 1!"},
    {"a gang that is not first takes nothing from the tasks of its run",
     {{4, 0, 1, {0, 0, 2, 3, 1, 9, false}, 0, false, false}, CLAIM(4, 0, 2, 2, 2, 5)},
     "2! 2!"},
    {"a task does not wait for a gang that there is not",
     {{2, 0, 1, {0, 0, 2, 0, 1, 9, true}, 0, false, false}, CLAIM(2, 0, 2, 0, 2, 5)},
     "2! 0"},
    {"a task comes no sooner for a gang that has waited longer",
     {{3, 0, 1, {0, 0, 2, 1, 9, 1, true}, 0, false, false}, CLAIM(3, 0, 2, 0, 2, 5)},
     "1 2!"},
    {"what its own gang would take is not lent to a task",
     {{4, 0, 1, {0, 0, 2, 3, 1, 9, true}, 0, false, false}, CLAIM(4, 0, 2, 2, 2, 5)},
     "0 4!"},
    {"… until the gang has all of it",
     {{4, 0, 1, {0, 0, 2, 2, 1, 3, true}, 0, false, false}, CLAIM(4, 0, 2, 1, 1, 5)},
     "3! 1!"},
    {"three runs",
     {CLAIM(3, 0, 1, 1, 1, 3), CLAIM(3, 0, 2, 1, 1, 2), CLAIM(3, 0, 3, 0, 1, 1)},
     "1! 1! 1!"},
    {"no slots at all", {CLAIM(1, 0, 1, 1, 0, 0), CLAIM(1, 0, 2, 0, 0, 0)}, "1 0"},
};

int main(void)
{
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct fr_claim claims[4];
        char got[64] = "";
        size_t n = 0, at = 0;

        check_row(rows[r].name);
        memcpy(claims, rows[r].claims, sizeof(claims));
        while (n < 4 && claims[n].slots > 0)
            n++;
        fr_arbiter_share(claims, n);
        for (size_t i = 0; i < n; i++)
            at += (size_t)snprintf(got + at, sizeof(got) - at, "%s%u%s", i > 0 ? " " : "",
                                   claims[i].lent,
                                   claims[i].over        ? "!!"
                                   : claims[i].contended ? "!"
                                                         : "");
        CHECK_TEXT(got, rows[r].want);
    }
    return check_done();
}
