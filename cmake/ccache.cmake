# Compiles through ccache when it is installed; builds are the same without it. Paths are relative to the
# source tree, so that build directories and checkouts share one cache.
find_program(GRAFT_CCACHE ccache)
if(GRAFT_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      # Needed to cache files that use a precompiled header.
      CCACHE_SLOPPINESS=pch_defines,time_macros ${GRAFT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
