/* `flownode login`: a command in the environment that its user has after a login, as modules, conda
 * and the like make it. */
#ifndef TASKS_LOGIN_H
#define TASKS_LOGIN_H

/*
 * `flownode login NAMES COMMAND…`: runs the user's login shell ($SHELL) once, with nothing on its
 * stdin and its output kept apart, and becomes the command in the environment that its startup
 * files make. What this process has comes before that, but for the variables that every command
 * gets (PATH, LANG …): these are the shell's unless NAMES (with commas) lists them. Programs of
 * ours (FLOWRUN_PROGRAM_*) stay first in PATH. Returns only on failure.
 *
 * `flownode login --print FILE`, which the shell runs: writes the environment.
 */
int fr_login(int argc, char **argv);

#endif
