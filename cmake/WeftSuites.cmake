# weft_discover_suites(TARGET PREFIX): a test of ctest for each suite of TARGET, a GoogleTest program, named
# PREFIXSuite. A suite runs in one process: starting a process for each case takes more time than most cases.
# Suites with many cases are divided into parts (PREFIXSuite.1of3), so that all cores have work.
# ctest lists the suites when it starts: the program, or its environment, determines them.
function(weft_discover_suites TARGET PREFIX)
  get_target_property(emulator ${TARGET} CROSSCOMPILING_EMULATOR)
  if(NOT CMAKE_CROSSCOMPILING OR NOT emulator)
    set(emulator "")
  endif()
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${TARGET}_suites.cmake")
  file(GENERATE OUTPUT "${include}" CONTENT "set(weft_program \"$<TARGET_FILE:${TARGET}>\")
set(weft_emulator \"${emulator}\")
set(weft_prefix \"${PREFIX}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/WeftListSuites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()
