# cmake --install: the program with its manual, completions and units of systemd (component `program`), and the shared
# library, its headers, a CMake package (weft::weft) and a pkg-config file (component `library`). All of it may be
# moved afterwards: nothing in it names the prefix. WeftPackage.cmake makes packages of the components.
include(CMakePackageConfigHelpers)

# One shared library of all layers. Only what include/weft declares is visible (its headers push visibility).
get_property(weft_layers GLOBAL PROPERTY WEFT_LAYERS)
list(TRANSFORM weft_layers REPLACE "(.+)" "$<TARGET_OBJECTS:weft_\\1>" OUTPUT_VARIABLE weft_objects)
add_library(weft_shared SHARED ${weft_objects})
set_target_properties(weft_shared PROPERTIES LINKER_LANGUAGE CXX)
add_library(weft::weft ALIAS weft_shared)
target_link_libraries(weft_shared PRIVATE Threads::Threads PkgConfig::PCRE2 PkgConfig::UTF8PROC)
target_include_directories(weft_shared INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                                 "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(weft_shared INTERFACE cxx_std_20)
# Until 1.0 every minor version may change the ABI.
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft VERSION "${PROJECT_VERSION}"
  SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")

# What is installed, and so what must be built before: `make build` does.
add_custom_target(product DEPENDS weft weft_manual weft_shared)
if(TARGET weft_backend_vulkan_module)
  add_dependencies(product weft_backend_vulkan_module)
endif()

# The program.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS weft RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(TARGET weft_backend_vulkan_module)
  install(TARGETS weft_backend_vulkan_module LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/weft")
endif()
install(DIRECTORY "${PROJECT_BINARY_DIR}/share/" DESTINATION "${CMAKE_INSTALL_DATADIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/weft" RENAME copyright)
install(FILES "${PROJECT_SOURCE_DIR}/packaging/config.toml" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/weft/examples")
install(FILES "${PROJECT_SOURCE_DIR}/packaging/weft.service" "${PROJECT_SOURCE_DIR}/packaging/weft.socket"
        DESTINATION lib/systemd/system)

# The library.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)
install(TARGETS weft_shared EXPORT weftTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/weft" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libweft-dev" RENAME copyright)

set(weft_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/weftConfig.cmake.in" "${PROJECT_BINARY_DIR}/weftConfig.cmake"
  INSTALL_DESTINATION "${weft_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weftConfig.cmake" "${PROJECT_BINARY_DIR}/weftConfigVersion.cmake"
        DESTINATION "${weft_package_dir}")

# pkg-config knows where the .pc file lies; the prefix is found from there.
set(weft_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH weft_pc_to_prefix "/prefix/${weft_pc_dir}" "/prefix")
configure_file("${CMAKE_CURRENT_LIST_DIR}/weft.pc.in" "${PROJECT_BINARY_DIR}/weft.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/weft.pc" DESTINATION "${weft_pc_dir}")

include(WeftPackage)
