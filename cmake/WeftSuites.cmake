# weft_discover_suites(TARGET PREFIX [SLOW suite...] [ENVIRONMENT NAME=VALUE...]): a test of ctest for each suite of
# TARGET, a GoogleTest program, named PREFIXSuite. A suite runs in one process: starting a process for each case takes
# more time than most cases. Suites with many cases are divided into parts (PREFIXSuite.1of3). Each case of a SLOW suite
# is a test of its own. These start first, so that all cores have work until the end. ctest lists the suites when it
# starts: the environment may change them.
function(weft_discover_suites TARGET PREFIX)
  cmake_parse_arguments(ARG "" "" "SLOW;ENVIRONMENT" ${ARGN})
  get_target_property(emulator ${TARGET} CROSSCOMPILING_EMULATOR)
  if(NOT CMAKE_CROSSCOMPILING OR NOT emulator)
    set(emulator "")
  endif()
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_suites.cmake")
  file(GENERATE OUTPUT "${include}" CONTENT "set(weft_program \"$<TARGET_FILE:${TARGET}>\")
set(weft_emulator \"${emulator}\")
set(weft_prefix \"${PREFIX}\")
set(weft_slow \"${ARG_SLOW}\")
set(weft_environment \"${ARG_ENVIRONMENT}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/WeftListSuites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()
