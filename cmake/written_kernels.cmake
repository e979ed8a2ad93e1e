# The headers of the kernels that are compiled at run time for equations that came as text, inside the library.
set(embedded_headers ${PROJECT_BINARY_DIR}/embedded_headers.cpp)
set(embedded_roots coupling/cuda/own_equations.hpp systems/equations/device_functions.hpp
    rollout/cuda/free_rollout_kernel.cuh training/cuda/coupled_step.cuh training/cuda/chain_kernels.cuh)
add_custom_command(
  OUTPUT ${embedded_headers}
  COMMAND ${CMAKE_COMMAND} "-DROOTS=${embedded_roots}" -DFOLDER=${PROJECT_SOURCE_DIR}
          -DSTANDARD=coupling/cuda/standard_library.hpp -DOUTPUT=${embedded_headers}
          -DDEPENDENCIES=${embedded_headers}.d -P ${PROJECT_SOURCE_DIR}/cmake/embed_headers.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed_headers.cmake
  DEPFILE ${embedded_headers}.d
  COMMENT "Headers for the compiler at run time" VERBATIM)
