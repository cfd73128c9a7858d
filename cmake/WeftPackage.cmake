# cpack: Debian packages of the components of cmake --install. weft is the program; libweft-graph-dev and libweft-dev
# are the libraries. A library and its headers are one package, because programs are rebuilt for each minor version
# (WeftInstall.cmake).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR "weft")
set(CPACK_PACKAGE_CONTACT "The authors of weft <weft@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "engine that runs language models from GGUF files")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program graph library)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/WeftCompressManual.cmake")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME weft)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "The program weft with its manual, completions for shells and units of systemd.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/packaging/postinst"
    "${PROJECT_SOURCE_DIR}/packaging/prerm" "${PROJECT_SOURCE_DIR}/packaging/postrm")
set(CPACK_DEBIAN_GRAPH_PACKAGE_NAME libweft-graph-dev)
set(CPACK_DEBIAN_GRAPH_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_GRAPH_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_GRAPH_PACKAGE_SUGGESTS weft) # The modules for GPUs.
set(CPACK_COMPONENT_GRAPH_DESCRIPTION
    "Graphs, plans and devices: the library without language models, and its headers.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libweft-graph-dev (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "The library, its headers, and what CMake and pkg-config need to find them.")
include(CPack)
