/*
 * Which device a run computes on. The CUDA backend is a module of its own, opened when a device is
 * asked for: one program starts on machines with and without CUDA. There is one module for each
 * major version of CUDA, since each needs that version's cuBLASLt: flowtrain_cuda13.so (driver 580
 * or later) and flowtrain_cuda12.so (530.30.02 or later). Both are looked for beside the program
 * and in the library folder of the installation. The newest whose driver and cuBLASLt are there is
 * taken; the log names it.
 */
#ifndef TR_BACKEND_DEVICE_H
#define TR_BACKEND_DEVICE_H

#include "trainer/backend/backend.h"
#include "trainer/config/args.h"

/*
 * ordinal: which of the devices that the process sees (its local rank); the CPU has one.
 * TR_DEVICE_AUTO takes CUDA where a module, a driver and a device are, else the CPU; one
 * line of the log says which and why. TR_DEVICE_CUDA fails instead: FR_NOTFOUND (module, device),
 * FR_UNSUPPORTED (driver, an older module, a device that is too old).
 */
enum fr_rc tr_device_create(enum tr_device want, int ordinal, struct tr_backend **out,
                            struct fr_err *err);

/* As tr_device_create for a process that may share its device: ordinal counts round those there
 * are. */
enum fr_rc tr_device_share(enum tr_device want, int ordinal, struct tr_backend **out,
                           struct fr_err *err);

/* "cpu", "cuda" or "auto"; FR_USAGE. */
enum fr_rc tr_device_parse(const char *text, enum tr_device *out, struct fr_err *err);

#endif
