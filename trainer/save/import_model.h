/* The way back from a folder that export_model.h or export.h wrote: masters from its weights, then
 * the weights of all ranks. Moments stay as they are. */
#ifndef TR_SAVE_IMPORT_MODEL_H
#define TR_SAVE_IMPORT_MODEL_H

#include "trainer/optim/optim.h"

/* Every rank calls, between steps; rank 0 reads. FR_NOTFOUND, on every rank: it is not there or not
 * whole, and nothing has changed. Trained weights have one type, whichever. adapter: dir is an
 * adapter's, and what trained whole beside adapters is read. */
enum fr_rc tr_import_model(const char *dir, bool adapter, struct tr_optim *o, struct fr_err *err);

#endif
