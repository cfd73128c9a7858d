# Models and floats of tests/data are kept compressed (NAME.xz). scripts/packed_data.py writes NAME next to NAME.xz.
# It runs when CMake configures. The next build configures again if NAME.xz is new or newer, or NAME is missing.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB_RECURSE packed CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/data/*.xz")
list(TRANSFORM packed REPLACE "[.]xz$" "" OUTPUT_VARIABLE unpacked)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${PROJECT_SOURCE_DIR}/scripts/packed_data.py" ${packed} ${unpacked})
execute_process(COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/packed_data.py"
                COMMAND_ERROR_IS_FATAL ANY)
