# Decides whether libgraft_cuda.so is built (GRAFT_CUDA=AUTO|ON|OFF) and for which GPUs.
set(GRAFT_CUDA_ARCHITECTURES "" CACHE STRING
    "GPUs to compile for, such as 75;80;86;89;90;100;120; empty: those of this machine, else 90")

option(GRAFT_KERNEL_DELAYS "Delay thread blocks of GPU kernels at random: tests then find kernels that do not wait" OFF)

# A number compiles machine code for that GPU and PTX, which drivers compile for newer GPUs.
function(graft_cuda_architectures)
  set(found ${GRAFT_CUDA_ARCHITECTURES})
  if(NOT found)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${capabilities}")
      string(REPLACE "." "" found "${found}")
      list(REMOVE_DUPLICATES found)
    endif()
  endif()
  if(NOT found)
    set(found 90)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${found} PARENT_SCOPE)
endfunction()

set(GRAFT_CUDA_ENABLED OFF)
if(NOT GRAFT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    graft_cuda_architectures()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    # CMake before 3.26 does not know nvcc's option for C++20.
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

# graft_wgmma_objects(): the *_wgmma.cu, whose instructions only sm_90a has. Their code for sm_90 runs on no other GPU; that
# for others is empty.
function(graft_wgmma_objects)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/graft/*_wgmma.cu)
  set(architectures ${CMAKE_CUDA_ARCHITECTURES})
  list(TRANSFORM architectures REPLACE "^90$" "90a")
  add_library(graft_wgmma_objects OBJECT ${sources})
  target_link_libraries(graft_wgmma_objects PRIVATE graft_flags)
  set_target_properties(graft_wgmma_objects PROPERTIES CUDA_ARCHITECTURES "${architectures}" CUDA_VISIBILITY_PRESET hidden)
  target_compile_definitions(graft_wgmma_objects PRIVATE $<$<BOOL:${GRAFT_KERNEL_DELAYS}>:GRAFT_KERNEL_DELAYS>)
endfunction()

# graft_cuda_library(): builds libgraft_cuda.so from every graft/**/*.cu and the sources in kernels/cuda and ops/cuda. The program
# opens it at run time when a driver is installed; it shares the internal types of libgraft.so. Call after graft_library().
function(graft_cuda_library)
  if(NOT GRAFT_CUDA_ENABLED)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/graft/*.cu ${CMAKE_SOURCE_DIR}/graft/kernels/cuda/*.cpp
       ${CMAKE_SOURCE_DIR}/graft/ops/cuda/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$|_wgmma\\.cu$")
  # An object library, so that the tests link the same objects.
  add_library(graft_cuda_objects OBJECT ${sources})
  graft_unity(graft_cuda_objects)
  # The kernels stay alone, as those of the CPU (CMake 3.31 would join .cu files too).
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "/kernels/")
  set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(graft_cuda_objects PRIVATE graft_flags)
  target_include_directories(graft_cuda_objects SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  set_target_properties(graft_cuda_objects PROPERTIES CUDA_VISIBILITY_PRESET hidden)
  target_compile_definitions(graft_cuda_objects PRIVATE $<$<BOOL:${GRAFT_KERNEL_DELAYS}>:GRAFT_KERNEL_DELAYS>)
  graft_wgmma_objects()
  add_library(graft_cuda SHARED $<TARGET_OBJECTS:graft_cuda_objects> $<TARGET_OBJECTS:graft_wgmma_objects>)
  target_link_libraries(graft_cuda PRIVATE graft::graft ${CMAKE_DL_LIBS})
  set_target_properties(graft_cuda PROPERTIES LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static INSTALL_RPATH "$ORIGIN"
                                              BUILD_WITH_INSTALL_RPATH ON)
endfunction()

# graft_cuda_tests(): builds graft_cuda_test. Call after the last graft_module().
function(graft_cuda_tests)
  if(NOT GRAFT_CUDA_ENABLED OR NOT GRAFT_TESTS)
    return()
  endif()
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/graft/kernels/cuda/*_test.cpp ${CMAKE_SOURCE_DIR}/tests/gpu/*_test.cpp
       ${CMAKE_SOURCE_DIR}/graft/testing/parity/*.cpp)
  graft_test(graft_cuda_test cuda ${tests} $<TARGET_OBJECTS:graft_cuda_objects> $<TARGET_OBJECTS:graft_wgmma_objects>)
  target_include_directories(graft_cuda_test SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(graft_cuda_test PRIVATE graft::engine ${CMAKE_DL_LIBS})
  set_target_properties(graft_cuda_test PROPERTIES LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static)
endfunction()

set(toolkit_version 0)
if(GRAFT_CUDA_ENABLED AND CMAKE_CUDA_COMPILER_VERSION MATCHES "^([0-9]+)\\.([0-9]+)")
  math(EXPR toolkit_version "1000 * ${CMAKE_MATCH_1} + 10 * ${CMAKE_MATCH_2}")
endif()
set_property(SOURCE ${CMAKE_SOURCE_DIR}/graft/tensor/cuda_toolkit.cpp APPEND
             PROPERTY COMPILE_DEFINITIONS GRAFT_CUDA_TOOLKIT_VERSION=${toolkit_version})
# Lets the program report why no GPU is available.
set_property(SOURCE ${CMAKE_SOURCE_DIR}/graft/tensor/gpus.cpp APPEND
             PROPERTY COMPILE_DEFINITIONS GRAFT_BUILT_WITH_CUDA=$<BOOL:${GRAFT_CUDA_ENABLED}>)
