# Decides whether libgraft_cuda.so is built (GRAFT_CUDA=AUTO|ON|OFF) and for which GPUs.
set(GRAFT_CUDA_ENABLED OFF)
if(NOT GRAFT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Code for Hopper, and PTX that newer drivers compile for whatever they find.
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    # CMake before 3.26 does not know how nvcc spells C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(GRAFT_CUDA_ENABLED ON)
    message(STATUS "CUDA library: on (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, sm_${CMAKE_CUDA_ARCHITECTURES})")
  elseif(GRAFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GRAFT_CUDA=ON, but nvcc was not found")
  else()
    message(STATUS "CUDA library: skipped, nvcc was not found")
  endif()
else()
  message(STATUS "CUDA library: off")
endif()

# Every graft/**/*.cu, opened by the program at run time when there is a driver.
if(GRAFT_CUDA_ENABLED)
  file(GLOB_RECURSE graft_cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/graft/*.cu)
  add_library(graft_cuda SHARED ${graft_cuda_sources})
  target_link_libraries(graft_cuda PRIVATE graft_flags)
  set_target_properties(graft_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden)
endif()

# So that the program can say why there are no GPUs.
set_property(SOURCE ${CMAKE_SOURCE_DIR}/graft/tensor/gpus.cpp APPEND
             PROPERTY COMPILE_DEFINITIONS GRAFT_BUILT_WITH_CUDA=$<BOOL:${GRAFT_CUDA_ENABLED}>)
