# Compiles through ccache when it is there; builds are the same without it.
find_program(GRAFT_CCACHE ccache)
if(GRAFT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GRAFT_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${GRAFT_CCACHE})
endif()
