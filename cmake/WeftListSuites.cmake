# Runs in ctest (weft_discover_suites). Input: weft_program, weft_emulator, weft_prefix, weft_slow, weft_environment.
cmake_minimum_required(VERSION 3.25)
set(most_cases 32)  # Of one process.

if(NOT EXISTS "${weft_program}")
  add_test("${weft_prefix}NOT_BUILT" "${weft_program}")
  return()
endif()
execute_process(COMMAND ${weft_emulator} "${weft_program}" --gtest_list_tests OUTPUT_VARIABLE listed
                RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${weft_program} --gtest_list_tests failed: ${result}\n${listed}")
endif()

# The suites, and for each the filters of its instances and of its cases. "Instance/Suite." precedes its indented cases. A
# "#" precedes the value of a parameter.
string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")
string(REGEX REPLACE "[][;]" "?" listed "${listed}")
string(REPLACE "\n" ";" listed "${listed}")
set(suites "")
foreach(line IN LISTS listed)
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
    set(instance "${CMAKE_MATCH_1}")
    string(REGEX REPLACE "^[A-Za-z0-9_]+/([A-Za-z_])" "\\1" suite "${instance}")
    if(NOT suite IN_LIST suites)
      list(APPEND suites "${suite}")
      set(instances_${suite} "")
      set(cases_${suite} "")
    endif()
    list(APPEND instances_${suite} "${instance}.*")
  elseif(NOT line MATCHES "DISABLED_" AND line MATCHES "^  (.+)$")
    list(APPEND cases_${suite} "${instance}.${CMAKE_MATCH_1}")
  endif()
endforeach()

# weft_add_suite(NAME FILTER COST [environment...])
function(weft_add_suite NAME FILTER COST)
  string(REPLACE "/" "." name "${weft_prefix}${NAME}")
  add_test("${name}" ${weft_emulator} "${weft_program}" "--gtest_filter=${FILTER}")
  # A suite is skipped if all its cases are. With a failure, the list of failed cases follows.
  set_tests_properties("${name}" PROPERTIES ENVIRONMENT "${ARGN};${weft_environment}" COST ${COST}
    FAIL_REGULAR_EXPRESSION "Running 0 tests"
    SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests[.]\n(.  SKIPPED . [^\n]*\n)+$")
endfunction()

foreach(suite IN LISTS suites)
  list(LENGTH cases_${suite} n_cases)
  if(suite IN_LIST weft_slow)
    foreach(case IN LISTS cases_${suite})
      string(REGEX REPLACE "^.*${suite}[.]" "" name "${case}")
      weft_add_suite("${suite}.${name}" "${case}" 1000)
    endforeach()
    continue()
  endif()
  string(REPLACE ";" ":" filter "${instances_${suite}}")
  math(EXPR n_parts "(${n_cases} + ${most_cases} - 1) / ${most_cases}")
  if(n_parts EQUAL 1)
    weft_add_suite("${suite}" "${filter}" ${n_cases})
  elseif(n_parts GREATER 1)
    foreach(part RANGE 1 ${n_parts})
      math(EXPR index "${part} - 1")
      weft_add_suite("${suite}.${part}of${n_parts}" "${filter}" ${n_cases}
                     GTEST_TOTAL_SHARDS=${n_parts} GTEST_SHARD_INDEX=${index})
    endforeach()
  endif()
endforeach()
