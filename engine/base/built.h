/* Of which tree a program was built, and how: "1f2e3d4c5b6a, debugoptimized by gcc 12.2.0". Linked
 * into the programs alone: a commit makes one file again. */
#ifndef FR_BASE_BUILT_H
#define FR_BASE_BUILT_H

extern const char fr_built[];

#endif
