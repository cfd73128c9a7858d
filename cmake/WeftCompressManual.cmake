# What cpack runs before it packs: manual pages are compressed, as Debian's policy has it.
file(GLOB pages "${CPACK_TEMPORARY_DIRECTORY}/program/usr/share/man/man1/*.1")
if(NOT pages)
  message(FATAL_ERROR "weft: no manual pages in ${CPACK_TEMPORARY_DIRECTORY}/program")
endif()
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
