# mac::runtime: the step engine, the model loader and the C interface, for use inside other people's programs. It needs
# libstdc++ and nothing else: no OpenMP, no shared fmt or Highway. Its sources are compiled once, for it and for the full
# library.
# What reads model files; nothing of it runs in a step.
set(runtime_loader_sources
  src/io/atomic_file.cpp src/io/input_file.cpp src/io/safetensors.cpp
  src/io/safetensors_checksum.cpp src/io/safetensors_header.cpp
  src/network/model.cpp src/network/model_metadata.cpp src/network/network_inputs.cpp)
list(TRANSFORM runtime_loader_sources PREPEND ${PROJECT_SOURCE_DIR}/)
set(runtime_sources
  src/base/noise.cpp src/coupling/fourier_frame.cpp src/base/precision.cpp src/base/random.cpp
  src/network/shape.cpp src/network/normaliser.cpp src/network/selective/layer.cpp
  src/network/cpu/step.cpp src/network/cpu/step_kernels.cpp
  src/network/derivative/program.cpp src/network/derivative/kernels.cpp src/network/derivative/step_derivative.cpp
  src/base/hold.cpp
  src/runtime/c_api.cpp src/runtime/c_columns.cpp src/runtime/c_coupler.cpp src/runtime/coupler.cpp src/runtime/c_derivatives.cpp src/runtime/guard.cpp src/runtime/runtime_model.cpp src/runtime/runtime_state.cpp src/runtime/runtime_tape.cpp src/runtime/saved_columns.cpp)
list(TRANSFORM runtime_sources PREPEND ${PROJECT_SOURCE_DIR}/)
# Of each kind of layer what it says about itself, and its steps.
file(GLOB kinds CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/network/kinds/*/layer.cpp
     ${PROJECT_SOURCE_DIR}/src/network/kinds/*/derivative.cpp)
file(GLOB kind_steps CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/network/kinds/*/cpu/step.cpp)
list(APPEND runtime_sources ${kinds} ${kind_steps})

add_library(mac_runtime_objects OBJECT ${runtime_sources})
add_library(mac_runtime_loader OBJECT ${runtime_loader_sources})
# fmt is used as headers only, compiled in every file that includes it: the files are joined into one. Not so the kernels,
# which include themselves once for each instruction set.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/network/cpu/step_kernels.cpp
  ${PROJECT_SOURCE_DIR}/src/network/derivative/kernels.cpp ${kind_steps} PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
foreach(objects mac_runtime_objects mac_runtime_loader)
  set_target_properties(${objects} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0 CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${objects} PRIVATE -ffunction-sections -fdata-sections)
  target_include_directories(${objects} PRIVATE include src)
  target_link_libraries(${objects} PRIVATE mac_options fmt::fmt-header-only nlohmann_json::nlohmann_json)
endforeach()
target_compile_options(mac_runtime_loader PRIVATE -Os)  # small: the library goes into other people's programs
set(runtime_objects $<TARGET_OBJECTS:mac_runtime_objects> $<TARGET_OBJECTS:mac_runtime_loader>)

set(runtime_version_script ${PROJECT_SOURCE_DIR}/cmake/runtime.map)
foreach(kind SHARED STATIC)
  string(TOLOWER mac_runtime_${kind} target)
  add_library(${target} ${kind} ${runtime_objects} $<TARGET_OBJECTS:mac_version>
              ${PROJECT_SOURCE_DIR}/src/runtime/highway_dispatch.cpp)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME mac_runtime CXX_VISIBILITY_PRESET hidden)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(${target} INTERFACE cxx_std_20 c_std_99)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:mac_options>)
endforeach()
set_target_properties(mac_runtime_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME runtime
  LINK_DEPENDS ${runtime_version_script})
set_target_properties(mac_runtime_static PROPERTIES EXPORT_NAME runtime_static)
target_link_options(mac_runtime_shared PRIVATE
  -Wl,--version-script=${runtime_version_script} -Wl,--gc-sections -Wl,--as-needed)
if(NOT MAC_SANITIZE AND NOT MAC_FUZZ)  # whose symbols come with the executable
  target_link_options(mac_runtime_shared PRIVATE -Wl,--no-undefined)
endif()
target_link_libraries(mac_runtime_static INTERFACE stdc++ m)  # for programs that are not linked as C++
add_library(mac::runtime ALIAS mac_runtime_shared)
add_library(mac::runtime_static ALIAS mac_runtime_static)
