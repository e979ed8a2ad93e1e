# Writes the version and the commit into version.cpp at build time, so that `mac --version` and every file the program
# writes tell where they come from.
set(version_source ${PROJECT_BINARY_DIR}/version.cpp)
add_custom_target(mac_write_version
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${version_source}
          -DVERSION=${PROJECT_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
  BYPRODUCTS ${version_source}
  COMMENT "")
add_library(mac_version OBJECT ${version_source})
target_include_directories(mac_version PRIVATE include)
add_dependencies(mac_version mac_write_version)
