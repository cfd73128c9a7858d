# weft_precompile(TARGET [header...]): precompiled headers of the standard library. Libraries share one set of them; a
# target with further headers has its own. CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without them and shows a missing
# #include.
function(weft_precompile TARGET)
  set(headers <algorithm> <array> <atomic> <chrono> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <fstream>
      <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <thread>
      <unordered_map> <utility> <variant> <vector>)
  if(ARGN)
    target_precompile_headers(${TARGET} PRIVATE ${headers} ${ARGN})
    return()
  endif()
  if(NOT TARGET weft_precompiled)
    file(WRITE "${PROJECT_BINARY_DIR}/precompiled.cpp" "")
    add_library(weft_precompiled STATIC "${PROJECT_BINARY_DIR}/precompiled.cpp")
    target_precompile_headers(weft_precompiled PRIVATE ${headers})
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM weft_precompiled)
endfunction()

# weft_compile_in_batches(TARGET): ten sources are one translation unit, so that headers and templates are compiled once
# for them. Names in unnamed namespaces must therefore be unique within a target. -DWEFT_UNITY_BUILD=OFF compiles each
# source alone: for lint, and for work on one file.
function(weft_compile_in_batches TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${WEFT_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 10)
endfunction()

# weft_layer(NAME [HOT] [FOLDERS folder...] [DEPS layer...] [LIBS target...] [PRECOMPILE header...])
#
# A layer is the static library weft_NAME of all sources of the current folder and of its FOLDERS. DEPS are the layers
# that it may use, LIBS the external targets that it links. Its tests are in tests/NAME (weft_layer_tests). tests/layers
# checks #include lines against DEPS. libweft does not contain a SEPARATE layer. The global property WEFT_BELOW_NAME
# lists all layers that NAME uses. A HOT layer computes in every step: it keeps -O3 where the others have -O2.
function(weft_layer NAME)
  cmake_parse_arguments(ARG "SEPARATE;HOT" "" "FOLDERS;DEPS;LIBS;SOURCES;PRECOMPILE" ${ARGN})
  set(patterns "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  foreach(folder ${ARG_FOLDERS})
    list(APPEND patterns "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  add_library(weft_${NAME} STATIC ${sources} ${ARG_SOURCES})
  target_include_directories(weft_${NAME} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  if(NOT ARG_HOT)
    weft_optimise_less(weft_${NAME} -O2)
  endif()
  weft_precompile(weft_${NAME} ${ARG_PRECOMPILE})
  weft_compile_in_batches(weft_${NAME})
  set(below ${ARG_DEPS})
  foreach(dep ${ARG_DEPS})
    get_property(more GLOBAL PROPERTY WEFT_BELOW_${dep})
    list(APPEND below ${more})
  endforeach()
  list(REMOVE_DUPLICATES below)
  set_property(GLOBAL PROPERTY WEFT_BELOW_${NAME} "${below}")
  list(TRANSFORM ARG_DEPS PREPEND "weft_")
  target_link_libraries(weft_${NAME} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_LIBS})
  if(ARG_SEPARATE)
    set_property(GLOBAL APPEND PROPERTY WEFT_SEPARATE_LAYERS ${NAME})
  else()
    set_property(GLOBAL APPEND PROPERTY WEFT_LAYERS ${NAME})
  endif()
endfunction()

# weft_layer_tests(NAME [LIBS target...] [SLOW suite...] [ENVIRONMENT NAME=VALUE...]): test_NAME from the sources of the
# current folder, linked with that layer. Test data is in tests/data (compile definition WEFT_TEST_DATA). SLOW,
# ENVIRONMENT: weft_discover_suites.
function(weft_layer_tests NAME)
  cmake_parse_arguments(ARG "" "" "LIBS;SLOW;ENVIRONMENT" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(test_${NAME} ${sources})
  target_include_directories(test_${NAME} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(test_${NAME} PRIVATE WEFT_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_link_libraries(test_${NAME} PRIVATE weft_${NAME} ${ARG_LIBS} weft_test_main GTest::gmock)
  weft_compile_briefly(test_${NAME})
  weft_discover_suites(test_${NAME} "${NAME}." SLOW ${ARG_SLOW} ENVIRONMENT ${ARG_ENVIRONMENT})
endfunction()

# weft_optimise_less(TARGET LEVEL): -O1 or -O2 in Release builds, for code without much arithmetic.
function(weft_optimise_less TARGET LEVEL)
  target_compile_options(${TARGET} PRIVATE $<$<CONFIG:Release>:${LEVEL}>)
endfunction()

# weft_compile_briefly(TARGET): tests are compiled more often than run. So their common headers are precompiled once,
# and they are compiled in batches with -O1.
function(weft_compile_briefly TARGET)
  if(NOT TARGET weft_precompiled_for_tests)
    file(WRITE "${PROJECT_BINARY_DIR}/precompiled_for_tests.cpp" "")
    # An executable, because an object library would be compiled with other flags (no -fPIE).
    add_executable(weft_precompiled_for_tests "${PROJECT_BINARY_DIR}/precompiled_for_tests.cpp")
    target_link_libraries(weft_precompiled_for_tests PRIVATE weft_test_main GTest::gmock)
    weft_optimise_less(weft_precompiled_for_tests -O1)
    target_precompile_headers(weft_precompiled_for_tests PRIVATE
      <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <cstdint> <filesystem> <fstream> <functional> <map> <memory>
      <random> <span> <string> <vector>)
  endif()
  weft_optimise_less(${TARGET} -O1)
  target_precompile_headers(${TARGET} REUSE_FROM weft_precompiled_for_tests)
  weft_compile_in_batches(${TARGET})
endfunction()
