# mac::runtime_cuda: the runtime with the steps of mac/mac_cuda.h, for hosts on a GPU. It holds all of mac::runtime, needs no
# more than that and the driver (CUDA's runtime is linked in), and shows the C interface alone.
set(runtime_cuda_sources "")
if(MAC_HAS_CUDA)
  # Of device_blocks.cpp the refusals remain; the linker drops the rest, and what it would need (--gc-sections).
  set(runtime_cuda_sources
    src/network/cuda/device.cpp src/network/cuda/packed_network.cpp src/network/cuda/device_blocks.cpp
    src/runtime/cuda/c_device.cpp src/runtime/cuda/device_state.cpp src/runtime/cuda/device_step.cu)
  list(TRANSFORM runtime_cuda_sources PREPEND ${PROJECT_SOURCE_DIR}/)
  file(GLOB kinds CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/network/kinds/*/cuda/packed_layer.cpp)
  list(APPEND runtime_cuda_sources ${kinds})

  add_library(mac_runtime_cuda_objects OBJECT ${runtime_cuda_sources})
  set_target_properties(mac_runtime_cuda_objects PROPERTIES
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(mac_runtime_cuda_objects PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections -fdata-sections>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra $<$<BOOL:${MAC_WERROR}>:-Werror=all-warnings>>)
  target_include_directories(mac_runtime_cuda_objects PRIVATE include src)
  target_link_libraries(mac_runtime_cuda_objects PRIVATE mac_options fmt::fmt-header-only CUDA::cudart_static)

  add_library(mac_runtime_cuda SHARED ${runtime_objects} $<TARGET_OBJECTS:mac_version>
              $<TARGET_OBJECTS:mac_runtime_cuda_objects> ${PROJECT_SOURCE_DIR}/src/runtime/highway_dispatch.cpp)
  target_include_directories(mac_runtime_cuda INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(mac_runtime_cuda INTERFACE cxx_std_20 c_std_99)
  target_link_libraries(mac_runtime_cuda PRIVATE $<BUILD_INTERFACE:mac_options> $<BUILD_INTERFACE:CUDA::cudart_static>)
  set_target_properties(mac_runtime_cuda PROPERTIES
    CXX_VISIBILITY_PRESET hidden LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} EXPORT_NAME runtime_cuda
    LINK_DEPENDS ${runtime_version_script})
  target_link_options(mac_runtime_cuda PRIVATE
    -Wl,--version-script=${runtime_version_script} -Wl,--gc-sections -Wl,--as-needed -Wl,--exclude-libs,ALL)
  if(NOT MAC_SANITIZE AND NOT MAC_FUZZ)
    target_link_options(mac_runtime_cuda PRIVATE -Wl,--no-undefined)
  endif()
  add_library(mac::runtime_cuda ALIAS mac_runtime_cuda)
endif()
