/* The pipelines of client_test, on control: /NAME.yaml. */
#ifndef TESTS_SIM_CLIENT_FILES_H
#define TESTS_SIM_CLIENT_FILES_H

#include "tests/sim/world.h"

/* one: the home has one run at once. */
void client_files_put(struct world *w, bool one);

#endif
