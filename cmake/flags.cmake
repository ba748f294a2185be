# One interface target carries the include path and the warnings to every module.
add_library(graft_flags INTERFACE)
target_compile_definitions(graft_flags INTERFACE GRAFT_VERSION="${PROJECT_VERSION}")
target_include_directories(graft_flags INTERFACE ${CMAKE_SOURCE_DIR})
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
    # A multiply and an add stay two roundings unless a kernel asks for FMA by name: every
    # instruction set then gives the same bits.
    -ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
