# cmake --install: the program, both libraries and their headers, a CMake package (mac::runtime, mac::runtime_static,
# mac::runtime_cuda, mac::fortran, mac::fortran_cuda, mac::mac) and pkg-config files (mac-runtime, mac-runtime-cuda, mac-fortran, mac). Each has an export of its own, so
# that a distribution may pack them apart.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mac)
install(TARGETS mac_program RUNTIME COMPONENT program)
install(TARGETS mac_runtime_shared mac_runtime_static EXPORT mac-runtime)
install(TARGETS mac_library EXPORT mac-full)
if(MAC_HAS_FORTRAN)  # .mod files are of one compiler; the sources are for the others
  install(TARGETS mac_fortran EXPORT mac-fortran)
  install(EXPORT mac-fortran NAMESPACE mac:: DESTINATION ${package_folder})
  install(FILES ${fortran_modules}/mac.mod ${fortran_modules}/mac_c.mod DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mac/fortran)
  install(DIRECTORY bindings/fortran/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mac/fortran)
endif()
if(MAC_HAS_CUDA)
  install(TARGETS mac_runtime_cuda EXPORT mac-cuda)
  if(MAC_HAS_FORTRAN)
    install(TARGETS mac_fortran_cuda EXPORT mac-cuda)
    install(DIRECTORY ${fortran_cuda_modules}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mac/fortran_cuda FILES_MATCHING PATTERN "*.mod")
  endif()
  install(EXPORT mac-cuda NAMESPACE mac:: DESTINATION ${package_folder})
endif()
install(DIRECTORY include/mac DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY zoo experiments DESTINATION ${CMAKE_INSTALL_DATADIR}/mac)  # experiments name models of the zoo beside them
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT mac-runtime NAMESPACE mac:: DESTINATION ${package_folder})
install(EXPORT mac-full NAMESPACE mac:: DESTINATION ${package_folder})

if(MAC_HAS_CUDA)
  set(MAC_CUDA_PACKAGE CUDAToolkit)
  set(MAC_CUDA_PC_LIBS " ${CUDA_cudart_static_LIBRARY} -ldl -lrt -lpthread")
endif()
configure_package_config_file(cmake/mac-config.cmake.in ${PROJECT_BINARY_DIR}/mac-config.cmake
                              INSTALL_DESTINATION ${package_folder})
# What a major version promises: docs/versions.md.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mac-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mac-config.cmake ${PROJECT_BINARY_DIR}/mac-config-version.cmake
        DESTINATION ${package_folder})

# The installed tree may be moved: paths are relative to the .pc file.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pc /prefix/${pkgconfig_folder} /prefix)
set(pkgconfig_names mac-runtime mac)
if(MAC_HAS_FORTRAN)
  list(APPEND pkgconfig_names mac-fortran)
endif()
if(MAC_HAS_CUDA)
  list(APPEND pkgconfig_names mac-runtime-cuda)
endif()
foreach(name ${pkgconfig_names})
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${pkgconfig_folder})
endforeach()
