/* For tests of the store: a home in a temporary folder. */
#ifndef TESTS_UNIT_STORE_BED_H
#define TESTS_UNIT_STORE_BED_H

#include "engine/store/home.h"
#include "engine/store/store.h"
#include "tests/unit/check.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BED_HOME = 256 };

void make_home(char home[BED_HOME]);
struct fr_store *open_store(const char *home);
/* Writes text into a file of the home. */
void put_file(const char *home, const char *name, const char *text);
/* The database is whole, and no row names one that is not there. */
void check_sound(const char *home);
void remove_store(const char *home);
/* A thread that a host has left may make a file there once more. */
void remove_home(const char *home);

#endif
