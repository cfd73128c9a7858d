# cmake --install has three components. `program` is the program with its manual, completions and units of systemd.
# `graph` is the graph library, and `library` the whole library with the C library (weft::c). Both have headers, a
# target of the CMake package (weft::graph, weft::weft) and a pkg-config file. The installation is relocatable.
# WeftPackage.cmake makes packages of the components.
include(CMakePackageConfigHelpers)

# weft_shared_library(NAME EXPORTED LAYERS layer... LIBS target...): libNAME.so, which users link as weft::EXPORTED. Only
# what include/weft declares is visible (its headers push visibility).
function(weft_shared_library NAME EXPORTED)
  cmake_parse_arguments(ARG "" "" "LAYERS;LIBS" ${ARGN})
  list(TRANSFORM ARG_LAYERS REPLACE "(.+)" "$<TARGET_OBJECTS:weft_\\1>" OUTPUT_VARIABLE objects)
  set(target ${NAME}_shared)
  add_library(${target} SHARED ${objects})
  add_library(weft::${EXPORTED} ALIAS ${target})
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${ARG_LIBS})
  target_include_directories(${target} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                 "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_features(${target} INTERFACE cxx_std_20)
  # Until 1.0 every minor version may change the ABI.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${NAME} EXPORT_NAME ${EXPORTED}
    VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
endfunction()

# The graph library has the layers up to `plan`; libweft has all layers. It does not link the graph library: the engine
# uses internals of lower layers, which the graph library would then have to export. A program links one of the two. If
# a module brings the other one into the process, both have the same version.
get_property(weft_layers GLOBAL PROPERTY WEFT_LAYERS)
get_property(weft_graph_layers GLOBAL PROPERTY WEFT_BELOW_plan)
weft_shared_library(weft weft LAYERS ${weft_layers} LIBS PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::PNG PkgConfig::TURBOJPEG PkgConfig::SNDFILE PkgConfig::SAMPLERATE PkgConfig::ZLIB)
weft_shared_library(weft_graph graph LAYERS ${weft_graph_layers} plan LIBS PkgConfig::PCRE2)

if(WEFT_ONLY_LIBRARY)
  return()
endif()

# The public headers of the graph library; all others are of libweft alone.
set(weft_graph_headers backend.h conformance.h device.h dtype.h error.h gguf.h graph.h hash.h language.h plan.h profile.h
    types.h version.h weights.h)
set(weft_graph_header_folders backend graph)

# The installed targets. `make build` builds them.
add_custom_target(product DEPENDS weft weft_manual weft_shared weft_graph_shared weft_c)
if(TARGET weft_backend_mpi_module)
  add_dependencies(product weft_backend_mpi_module)
endif()
if(TARGET weft_backend_vulkan_module)
  add_dependencies(product weft_backend_vulkan_module)
endif()

# The program.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS weft RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(TARGET weft_backend_vulkan_module)
  install(TARGETS weft_backend_vulkan_module LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/weft")
endif()
if(TARGET weft_backend_mpi_module)
  install(TARGETS weft_backend_mpi_module LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/weft/launched")
endif()
install(DIRECTORY "${PROJECT_BINARY_DIR}/share/" DESTINATION "${CMAKE_INSTALL_DATADIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/weft" RENAME copyright)
install(FILES "${PROJECT_SOURCE_DIR}/packaging/config.toml" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/weft/examples")
install(FILES "${PROJECT_SOURCE_DIR}/packaging/weft.service" "${PROJECT_SOURCE_DIR}/packaging/weft.socket"
        DESTINATION lib/systemd/system)

# The graph library, and the CMake package, which finds the whole library where that is installed, too.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME graph)
set(weft_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
install(TARGETS weft_graph_shared EXPORT weftGraphTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT weftGraphTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")
list(TRANSFORM weft_graph_headers PREPEND "${PROJECT_SOURCE_DIR}/include/weft/" OUTPUT_VARIABLE graph_headers)
list(TRANSFORM weft_graph_header_folders PREPEND "${PROJECT_SOURCE_DIR}/include/weft/" OUTPUT_VARIABLE graph_folders)
install(FILES ${graph_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft")
install(DIRECTORY ${graph_folders} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft" FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libweft-graph-dev"
        RENAME copyright)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/weftConfig.cmake.in" "${PROJECT_BINARY_DIR}/weftConfig.cmake"
  INSTALL_DESTINATION "${weft_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weftConfig.cmake" "${PROJECT_BINARY_DIR}/weftConfigVersion.cmake"
        DESTINATION "${weft_package_dir}")

# The library.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)
install(TARGETS weft_shared weft_c EXPORT weftTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")
list(TRANSFORM weft_graph_headers REPLACE "(.+)" "PATTERN;weft/\\1;EXCLUDE" OUTPUT_VARIABLE no_graph_headers)
list(TRANSFORM weft_graph_header_folders REPLACE "(.+)" "PATTERN;weft/\\1;EXCLUDE" OUTPUT_VARIABLE no_graph_folders)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/weft" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" ${no_graph_headers} ${no_graph_folders})
file(GLOB c_headers "${PROJECT_SOURCE_DIR}/c/weft*.h")
install(FILES ${c_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libweft-dev" RENAME copyright)

# pkg-config knows where the .pc file lies; the prefix is found from there.
set(weft_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH weft_pc_to_prefix "/prefix/${weft_pc_dir}" "/prefix")
function(weft_pkg_config NAME COMPONENT LIBRARY DESCRIPTION)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/weft.pc.in" "${PROJECT_BINARY_DIR}/${NAME}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${NAME}.pc" DESTINATION "${weft_pc_dir}" COMPONENT ${COMPONENT})
endfunction()
weft_pkg_config(weft library weft "${PROJECT_DESCRIPTION}")
weft_pkg_config(weft-c library weft_c "weft in C")
weft_pkg_config(weft-graph graph weft_graph "Graphs on the CPU, on GPUs and on devices of one's own")

include(WeftPackage)
