# data/paper_values.json inside the library: an installed program needs no file beside it.
set(paper_values_file ${PROJECT_SOURCE_DIR}/data/paper_values.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${paper_values_file})
file(READ ${paper_values_file} paper_values_json)
set(paper_values_source ${PROJECT_BINARY_DIR}/paper_values_json.cpp)
configure_file(${PROJECT_SOURCE_DIR}/cmake/paper_values_json.cpp.in ${paper_values_source} @ONLY)
