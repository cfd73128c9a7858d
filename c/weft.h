/// @file
/// weft in C. The headers that this one includes have models, tokenizers, chats, contexts, samplers,
/// batchers, services and embedders. weft_media.h has images and audio, weft_graph.h has graphs.
///
/// These rules hold for all functions. Each function documents the rest.
///
/// Handles. A type weft_... without members is a handle. A function that makes one returns it, or NULL on
/// failure. Free it with its own weft_..._free, which ignores NULL. A handle keeps the objects alive from
/// which it was made, so handles may be freed in any order. A callback must not free the handle that calls
/// it.
///
/// Errors. A function that can fail returns a weft_status, or a pointer that is NULL on failure. Its last
/// parameter is a weft_error**, which may be NULL. If it is not, each call sets it: to NULL on success, or to
/// an error that the caller frees (weft_error_free). NULL for a handle or another required argument is
/// WEFT_INVALID_ARGUMENT. A failed call does not write to its results. Functions without a weft_error**
/// cannot fail: for NULL they return 0, false or NULL.
///
/// Memory. The caller owns a result that is returned through a pointer to a non-const pointer (char** text),
/// and frees it with weft_free. A pointer to const belongs to a handle; each function documents how long it
/// is valid. Arguments are copied, unless documented otherwise. Paths and names are UTF-8 and end with a zero
/// byte. Returned strings end with one, too, which lengths do not count.
///
/// Structs. A struct that begins with struct_size may get more members at its end in later versions. For
/// parameters, weft_..._params_init(&params, sizeof params) sets struct_size and the defaults; NULL instead
/// of parameters means the defaults. For a struct that a function fills, the caller sets struct_size to its
/// sizeof before. So a compiled program works with a later library. With an earlier library, members that it
/// lacks must be 0; otherwise the call fails. Other structs never change.
///
/// Threads. One thread at a time uses a handle, unless documented otherwise. If two threads compute with one
/// handle, the second gets an error. Different handles may be used at the same time, even with the same
/// model. After fork(), the child may use models that were loaded for the CPU, and make its own handles of
/// them. It must not use or free the parent's contexts, nor handles made of these, because their threads
/// exist in the parent only.
///
/// No exception leaves the library, and none may leave a callback.
#ifndef WEFT_H
#define WEFT_H

#include "weft_batcher.h"
#include "weft_chat.h"
#include "weft_context.h"
#include "weft_core.h"
#include "weft_embedder.h"
#include "weft_generate.h"
#include "weft_model.h"

#endif
