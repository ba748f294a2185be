# One interface target carries the include path and the warnings to every module.
add_library(graft_flags INTERFACE)
configure_file(${CMAKE_SOURCE_DIR}/graft/base/version.h.in ${CMAKE_BINARY_DIR}/include/graft/base/version.h @ONLY)
target_include_directories(graft_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/include)
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
    # Vectors wider than the baseline stay inside one instruction-set region, never in an ABI.
    -Wno-psabi
    # g++ 12 sees overlaps in its own std::string.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    # A multiply and an add stay two roundings unless a kernel asks for FMA by name: every
    # instruction set then gives the same bits.
    -ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
