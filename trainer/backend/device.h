/*
 * Selection of the device of a run. The CUDA backend is a module that is opened when a device is
 * wanted: one program starts on machines with and without CUDA. There is one module for each
 * major version of CUDA, since each needs that version's cuBLASLt: flowtrain_cuda13.so (driver 580
 * or later) and flowtrain_cuda12.so (530.30.02 or later). Both are searched beside the program
 * and in the library folder of the installation. The newest module whose driver and cuBLASLt exist
 * is opened; the log names the module.
 */
#ifndef TR_BACKEND_DEVICE_H
#define TR_BACKEND_DEVICE_H

#include "trainer/backend/backend.h"
#include "trainer/config/args.h"

/*
 * ordinal: index among the devices that the process sees (the local rank); the CPU has one.
 * TR_DEVICE_AUTO takes CUDA if a module, a driver and a device exist, else the CPU; one line of the
 * log gives the choice and the reason. TR_DEVICE_CUDA fails instead: FR_NOTFOUND (module, device),
 * FR_UNSUPPORTED (driver, an older module, a device that is too old).
 */
enum fr_rc tr_device_create(enum tr_device want, int ordinal, struct tr_backend **out,
                            struct fr_err *err);

/* As tr_device_create for a process that may share its device: ordinal modulo the number of
 * devices. */
enum fr_rc tr_device_share(enum tr_device want, int ordinal, struct tr_backend **out,
                           struct fr_err *err);

#endif
