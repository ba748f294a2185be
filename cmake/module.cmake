# graft_module(<folder> [DEPS <folder>...] [LIBS <target>...] [NOT_HOT] [JSON]) builds the library graft::<folder>
# from the sources under graft/<folder>, and the program graft_<folder>_test from its *_test.cpp.
# LIBS are external libraries. DEPS are the only graft folders it may include (checked by tests/repository/repository_test.cpp).
# NOT_HOT: compile time matters more than speed. JSON: most of its sources include graft/base/text/json.h.

# graft_processor_sources(<list>): removes the sources of other processor families, which stand in folders of their own.
function(graft_processor_sources list)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(others arm)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(others x86)
  else()
    message(FATAL_ERROR "graft has no kernels for CPUs of type ${CMAKE_SYSTEM_PROCESSOR}: x86_64 and aarch64 are supported")
  endif()
  list(FILTER ${list} EXCLUDE REGEX "/kernels/cpu/${others}/")
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

function(graft_module name)
  cmake_parse_arguments(arg "NOT_HOT;JSON" "" "DEPS;LIBS" ${ARGN})
  set(dir ${CMAKE_SOURCE_DIR}/graft/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(kernels|ops)/cuda/")  # part of libgraft_cuda.so: see cuda.cmake
  graft_processor_sources(sources)
  set(tests ${sources})
  set(benches ${sources})
  list(FILTER sources EXCLUDE REGEX "(_(test|bench)|/main)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
  list(TRANSFORM arg_DEPS PREPEND graft::)

  if(sources)
    add_library(graft_${name} STATIC ${sources})
    graft_unity(graft_${name})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY graft_modules graft_${name})
  else()
    add_library(graft_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(graft::${name} ALIAS graft_${name})
  target_link_libraries(graft_${name} ${scope} graft_flags ${arg_DEPS} ${arg_LIBS})
  if(arg_NOT_HOT)
    target_compile_options(graft_${name} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:Debug>:-O0>)
    set(kind not_hot)
  else()
    set(kind hot)
  endif()
  if(arg_JSON)
    set(json JSON)
  endif()
  if(sources)
    graft_precompile(graft_${name} ${kind} ${json})
  endif()
  set_property(GLOBAL APPEND PROPERTY graft_libs ${arg_LIBS})

  if(GRAFT_TESTS AND tests)
    graft_test(graft_${name}_test ${name} ${tests} ${json})
    target_link_libraries(graft_${name}_test PRIVATE graft::${name})
  endif()
  if(GRAFT_BENCH AND benches)
    add_executable(graft_${name}_bench ${benches})
    target_link_libraries(graft_${name}_bench PRIVATE graft::${name} $<TARGET_NAME_IF_EXISTS:graft_testing>
                          benchmark::benchmark_main)
  endif()
endfunction()

# graft_test(<target> <prefix> <sources>... [JSON]): a gtest program. Its tests are registered in ctest one by one; in sanitizer
# builds as shards of the program, because a sanitizer takes longer to start than most tests take.
function(graft_test target prefix)
  cmake_parse_arguments(arg "JSON" "" "" ${ARGN})
  add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE graft_flags graft_testing GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE GRAFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # Under sanitizers g++ 12 reports std::regex and std::variant as uninitialised.
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Debug>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>
                                           $<$<CONFIG:Release>:-O1> $<$<CONFIG:Debug>:-O0>)
  # Headers take most of the time to compile a test. Sources with definitions of their own stay alone.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  if(arg_JSON)
    set(json JSON)
  endif()
  graft_precompile(${target} test ${json} <gtest/gtest.h>)
  # COST: ctest starts the tests of whole programs first, so that no core waits for a long one at the end.
  set(cost 0)
  if(prefix STREQUAL "tests")
    set(cost 5)
  elseif(prefix STREQUAL "models")
    set(cost 3)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    # graft_tests runs longest.
    set(num_shards 8)
    if(prefix STREQUAL "tests")
      set(num_shards 16)
    endif()
    foreach(shard RANGE 1 ${num_shards})
      math(EXPR index "${shard} - 1")
      add_test(NAME ${prefix}.shard_${shard}_of_${num_shards} COMMAND ${target})
      set_tests_properties(
        ${prefix}.shard_${shard}_of_${num_shards}
        PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=${num_shards};GTEST_SHARD_INDEX=${index}" TIMEOUT 1800 COST ${cost})
    endforeach()
  else()
    include(GoogleTest)
    gtest_discover_tests(${target} TEST_PREFIX ${prefix}. DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
                         PROPERTIES TIMEOUT 600 COST ${cost})
  endif()
endfunction()

# graft_unity(<target>): with GRAFT_UNITY, compiles several sources as one, because headers take most of the time. Sources
# with options of their own stay alone.
function(graft_unity target)
  if(GRAFT_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()

# graft_testing(): the library that every test program links, from the sources in graft/testing. It is not a module: it is neither
# part of libgraft.so nor installed.
function(graft_testing)
  if(NOT GRAFT_TESTS)
    return()
  endif()
  set(dir ${CMAKE_SOURCE_DIR}/graft/testing)
  add_library(graft_testing STATIC ${dir}/golden.cpp ${dir}/ktransformers_files.cpp ${dir}/ktransformers_rules.cpp
              ${dir}/hub/http_peer.cpp ${dir}/hub/hub_peer.cpp)
  target_link_libraries(graft_testing PUBLIC graft_flags graft::base PRIVATE OpenSSL::Crypto)
  target_compile_definitions(graft_testing PRIVATE GRAFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GRAFT_BUILD_DIR="${CMAKE_BINARY_DIR}")
  graft_precompile(graft_testing hot)
  graft_test(graft_testing_test testing ${dir}/golden_test.cpp ${dir}/uniform_float_test.cpp)
  target_link_libraries(graft_testing_test PRIVATE OpenSSL::Crypto)
endfunction()

# graft_precompile(<target> <kind> [JSON] [<headers>...]): the first target of a kind builds its precompiled header,
# the others reuse it. A kind has one set of compiler options: g++ applies those of the precompiled header.
# Without JSON it leaves out nlohmann/json.hpp, for which g++ instantiates a parser in every source: 0.7 s each.
function(graft_precompile target kind)
  if(NOT GRAFT_PCH)
    return()
  endif()
  cmake_parse_arguments(arg "JSON" "" "" ${ARGN})
  set(headers ${arg_UNPARSED_ARGUMENTS})
  if(arg_JSON)
    string(APPEND kind _json)
    list(APPEND headers <nlohmann/json.hpp>)
  endif()
  get_property(owner GLOBAL PROPERTY graft_pch_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    set_property(GLOBAL PROPERTY graft_pch_${kind} ${target})
    target_precompile_headers(
      ${target}
      PRIVATE
      <algorithm>
      <filesystem>
      <functional>
      <map>
      <memory>
      <optional>
      <span>
      <sstream>
      <string>
      <unordered_map>
      <variant>
      <vector>
      ${headers})
  endif()
endfunction()
