/// @file
/// weft in C: versions, errors and devices. The rules of weft.h hold here, too.
#ifndef WEFT_CORE_H
#define WEFT_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Marks the functions that the library exports.
#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

/// Marks old names, which end with the next minor version. Compilers warn and name the new one.
#if defined(__GNUC__)
#define WEFT_DEPRECATED(advice) __attribute__((deprecated(advice)))
#else
#define WEFT_DEPRECATED(advice)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// The version of the binary interface, also in the library's name, libweft_c.so.1. It changes when programs
/// must be compiled again.
#define WEFT_ABI_VERSION 1

/// The library's WEFT_ABI_VERSION.
WEFT_API int32_t weft_abi_version(void);
/// The library's version, "0.1.0".
WEFT_API const char* weft_version(void);
/// Frees memory that a function returned to the caller. Does nothing for NULL.
WEFT_API void weft_free(void* memory);

// ---------------------------------------------------------------------------------------------------------
// Errors

/// The status of a call. Later versions may have more.
typedef int32_t weft_status;
enum {
  WEFT_OK = 0,
  WEFT_INVALID_ARGUMENT = 1,  ///< A wrong argument.
  WEFT_INVALID_FILE = 2,      ///< A file's content is damaged or contradicts itself.
  WEFT_UNSUPPORTED = 3,       ///< Valid, but this version of weft cannot do it.
  WEFT_NOT_FOUND = 4,         ///< A file, device or name does not exist.
  WEFT_IO = 5,                ///< Reading or writing failed.
  WEFT_OUT_OF_MEMORY = 6,     ///< Memory of the host or of a device is exhausted.
  WEFT_DEVICE = 7,            ///< A device failed.
  WEFT_CANCELLED = 8,         ///< The caller asked to stop.
  WEFT_OVERLOADED = 9,        ///< The queue is full: try again later.
  WEFT_UNAVAILABLE = 10,      ///< The service is shutting down, or waits for lost devices.
  WEFT_CACHE_FULL = 11,       ///< A context has no room: nothing changed. Remove sequences, then try again.
  WEFT_INTERNAL = 12          ///< A bug of weft, or of a callback.
};

/// The error of a failed call.
typedef struct weft_error weft_error;

/// The status that the call returned; WEFT_OK for NULL.
WEFT_API weft_status weft_error_status(const weft_error* error);
/// The message: the expected and the actual value, and what to do. Valid as long as the error. "" for NULL.
WEFT_API const char* weft_error_message(const weft_error* error);
/// With WEFT_OVERLOADED: milliseconds until there may be room. Otherwise 0.
WEFT_API double weft_error_retry_after_ms(const weft_error* error);
/// Frees an error.
WEFT_API void weft_error_free(weft_error* error);
/// "ok", "invalid_argument", ...; "unknown" for other numbers. Valid indefinitely.
WEFT_API const char* weft_status_name(weft_status status);

// ---------------------------------------------------------------------------------------------------------
// Devices

/// The devices at the time when the list was made.
typedef struct weft_device_list weft_device_list;

/// A device.
typedef struct weft_device_info {
  size_t struct_size;
  const char* name;  ///< Name for parameters: "cpu", "vulkan0". Valid as long as the list, as are the others.
  const char* backend;
  const char* description;
  uint64_t memory_total;  ///< Bytes.
  uint64_t memory_free;
  int32_t n_threads;  ///< A CPU's default number of threads. 0 for other devices.
  bool is_async;      ///< Its steps run asynchronously to the host.
  bool on_host_cpu;   ///< It computes on the host's cores: the CPU, or a software driver such as llvmpipe.
} weft_device_info;

/// Lists the CPU and the devices of all backend modules in the subfolder `weft` of the library's folder.
WEFT_API weft_device_list* weft_device_list_create(weft_error** error);
/// Frees a list.
WEFT_API void weft_device_list_free(weft_device_list* devices);
/// The number of devices. Any thread.
WEFT_API size_t weft_device_list_size(const weft_device_list* devices);
/// The device at an index, from 0. Any thread.
WEFT_API weft_status weft_device_list_get(const weft_device_list* devices, size_t place,
                                          weft_device_info* info, weft_error** error);

#ifdef __cplusplus
}
#endif

#endif
