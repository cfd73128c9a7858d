# Options and flags that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(WEFT_UNITY_BUILD ON CACHE BOOL "Compile the sources of a target in batches, in a third of the time")
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, address (with undefined) or thread")
set(WEFT_FUZZ OFF CACHE BOOL "Build the fuzz targets (with clang)")
set(WEFT_ONLY_KERNELS OFF CACHE BOOL "Only the layers up to the CPU's kernels, which need no other libraries")
set(WEFT_ONLY_LIBRARY OFF CACHE BOOL "Only the library, for what brings it along: no program, no examples, no installation")
set(WEFT_GTEST_SOURCE "" CACHE PATH "GoogleTest's sources, where it is built with weft (for another processor)")
set(WEFT_WERROR OFF CACHE BOOL "Treat warnings as errors")

# One FMA must not become two roundings on one path and one on another: results are compared bit by bit.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 gives these warnings falsely for inlined functions of std::string.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds
                      -Wno-dangling-pointer)
  # It warns of types in unnamed namespaces where a source is part of a batch (weft_compile_in_batches).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()
if(WEFT_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(WEFT_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
endif()

find_program(WEFT_MOLD mold)
if(WEFT_MOLD AND NOT WEFT_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  # Without these permissions, ccache keeps nothing that uses precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${WEFT_CCACHE}")
endif()
