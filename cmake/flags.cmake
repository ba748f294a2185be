# One interface target carries the include path and the warnings to every module.
add_library(graft_flags INTERFACE)
# include/ holds the public headers, which are installed; the generated version.h is one of them.
configure_file(${CMAKE_SOURCE_DIR}/include/graft/version.h.in ${CMAKE_BINARY_DIR}/include/graft/version.h @ONLY)
target_include_directories(graft_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include
                                                 ${CMAKE_BINARY_DIR}/include)
target_compile_options(
  graft_flags
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall
    -Wextra
    -Wshadow
    -Wconversion
    -Wold-style-cast
    -Wcast-qual
    -Wnon-virtual-dtor
    -Woverloaded-virtual
    -Wimplicit-fallthrough
    -Wundef
    # Vectors wider than the baseline are used inside one instruction-set region only, never across an ABI.
    -Wno-psabi
    # g++ 12 reports false overlaps in std::string.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    # With a precompiled header it also forgets which headers are not ours.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${GRAFT_PCH}>>:-Wno-array-bounds>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${GRAFT_PCH}>>:-Wno-stringop-overflow>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${GRAFT_PCH}>>:-Wno-stringop-overread>
    # It takes a source in a unity file for a header.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${GRAFT_UNITY}>>:-Wno-subobject-linkage>
    # As on x86-64: on ARM64 char is unsigned by default.
    -fsigned-char
    # No automatic FMA contraction: kernels use FMA explicitly, so every instruction set gives the
    # same bits.
    -ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)

# The sanitizers make programs of up to 100 MB, which lld links in a quarter of the time.
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(GRAFT_LLD ld.lld)
  if(GRAFT_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()
