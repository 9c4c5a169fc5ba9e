/* `flownode login`: runs a command in its user's login environment, with modules, conda and the
 * like. */
#ifndef TASKS_LOGIN_H
#define TASKS_LOGIN_H

/*
 * `flownode login NAMES COMMAND…`: runs the user's login shell ($SHELL) once, with nothing on its
 * stdin and its output kept apart, and becomes the command in the environment that its startup
 * files make. Variables of this process win over the shell's, but for those that every command has
 * (PATH, LANG …): there the shell's win unless NAMES (with commas) lists them. Shipped programs
 * (FLOWRUN_PROGRAM_*) stay first in PATH. Returns only on failure.
 *
 * `flownode login --print FILE`, which the shell runs: writes the environment.
 */
int fr_login(int argc, char **argv);

#endif
