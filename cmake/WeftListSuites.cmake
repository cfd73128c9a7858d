# Runs in ctest (weft_discover_suites). Input: weft_program, weft_emulator, weft_prefix.
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

# "Instance/Suite." precedes its cases, which are indented. All instances of a suite are one test.
string(REGEX REPLACE "[][;]" "?" listed "${listed}")
string(REPLACE "\n" ";" listed "${listed}")
set(suites "")
foreach(line IN LISTS listed)
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.")
    set(full "${CMAKE_MATCH_1}")
    string(REGEX REPLACE "^[A-Za-z0-9_]+/([A-Za-z_])" "\\1" suite "${full}")
    if(NOT suite IN_LIST suites)
      list(APPEND suites "${suite}")
      set(n_cases_${suite} 0)
      set(filter_${suite} "")
    endif()
    list(APPEND filter_${suite} "${full}.*")
  elseif(line MATCHES "^  " AND NOT line MATCHES "^  (.*/)?DISABLED_")
    math(EXPR n_cases_${suite} "${n_cases_${suite}} + 1")
  endif()
endforeach()

foreach(suite IN LISTS suites)
  math(EXPR n_parts "(${n_cases_${suite}} + ${most_cases} - 1) / ${most_cases}")
  string(REPLACE ";" ":" filter "${filter_${suite}}")
  foreach(part RANGE 1 ${n_parts})
    if(n_parts LESS part)  # Only disabled cases.
      break()
    endif()
    string(REPLACE "/" "." name "${weft_prefix}${suite}")
    if(n_parts GREATER 1)
      string(APPEND name ".${part}of${n_parts}")
    endif()
    math(EXPR index "${part} - 1")
    add_test("${name}" ${weft_emulator} "${weft_program}" "--gtest_filter=${filter}")
    # Skipped are suites of which all cases were. The list of failures would follow that of skipped cases.
    set_tests_properties("${name}" PROPERTIES
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${n_parts};GTEST_SHARD_INDEX=${index}"
      SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests[.]\n(.  SKIPPED . [^\n]*\n)+$"
      COST ${n_cases_${suite}})
  endforeach()
endforeach()
