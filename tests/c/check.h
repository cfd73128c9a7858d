/* What the C tests share. CHECK goes on after a failure, so that one run tells all of them; NEED does not. */
#ifndef WEFT_TESTS_CHECK_H
#define WEFT_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft.h"

static int n_failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++n_failures;                                                           \
    }                                                                         \
  } while (0)

#define NEED(condition)                                                       \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: needed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* A call succeeds; `error` is the variable that it tells its error to. */
#define OK(call)                                                                                       \
  do {                                                                                                 \
    weft_error* error = NULL;                                                                          \
    if ((call) != WEFT_OK || error != NULL) {                                                          \
      fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call, weft_error_message(error)); \
      ++n_failures;                                                                                    \
    }                                                                                                  \
    weft_error_free(error);                                                                            \
  } while (0)

/* It fails with this status, in what it returns and in the error, and says why with these words. */
#define FAILS(call, status, words)                                                                 \
  do {                                                                                             \
    weft_error* error = NULL;                                                                      \
    const weft_status got = (call);                                                                \
    if (got != (status) || weft_error_status(error) != (status) ||                                 \
        strstr(weft_error_message(error), words) == NULL) {                                        \
      fprintf(stderr, "%s:%d: %s: expected %s with '%s', got %s: %s\n", __FILE__, __LINE__, #call, \
              weft_status_name(status), words, weft_status_name(got), weft_error_message(error));  \
      ++n_failures;                                                                                \
    }                                                                                              \
    weft_error_free(error);                                                                        \
  } while (0)

/* The same of a call that returns a pointer. */
#define NO_POINTER(call, status, words)                                                            \
  do {                                                                                             \
    weft_error* error = NULL;                                                                      \
    const void* const got = (call);                                                                \
    if (got != NULL || weft_error_status(error) != (status) ||                                     \
        strstr(weft_error_message(error), words) == NULL) {                                        \
      fprintf(stderr, "%s:%d: %s: expected %s with '%s', got %s: %s\n", __FILE__, __LINE__, #call, \
              weft_status_name(status), words, got != NULL ? "a pointer" : "none",                 \
              weft_error_message(error));                                                          \
      ++n_failures;                                                                                \
    }                                                                                              \
    weft_error_free(error);                                                                        \
  } while (0)

/* What a call that must succeed returns. */
#define MADE(variable, call)                                                             \
  do {                                                                                   \
    weft_error* error = NULL;                                                            \
    variable = (call);                                                                   \
    if (variable == NULL) fprintf(stderr, "%s: %s\n", #call, weft_error_message(error)); \
    NEED(variable != NULL && error == NULL);                                             \
  } while (0)

/* FOLDER/NAME, in one of a few buffers. */
static inline const char* path_in(const char* folder, const char* name) {
  static char paths[8][4096];
  static int next = 0;
  char* const path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static inline weft_model* load_model(const char* data, const char* name) {
  weft_model* model = NULL;
  MADE(model, weft_model_load(path_in(data, name), NULL, &error));
  return model;
}

#endif
