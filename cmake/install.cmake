# cmake --install build/release --prefix P installs the program, its libraries, rule files and the
# public headers. The program finds them relative to its own path, so P can be moved. Directory
# names are fixed instead of GNUInstallDirs: "$ORIGIN/../lib" must hold on every system.
include(CMakePackageConfigHelpers)
set(package_dir lib/cmake/graft)

install(TARGETS graft_program RUNTIME DESTINATION bin)
install(TARGETS graft_library EXPORT graft LIBRARY DESTINATION lib)
if(GRAFT_CUDA_ENABLED)
  install(TARGETS graft_cuda LIBRARY DESTINATION lib)
endif()
install(DIRECTORY rules/ DESTINATION share/graft/rules)
install(DIRECTORY models/ DESTINATION share/graft/models)

# The public headers; everything under graft/ is internal.
install(
  DIRECTORY include/graft
  DESTINATION include
  FILES_MATCHING
  PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/include/graft/version.h DESTINATION include/graft)

install(EXPORT graft NAMESPACE graft:: FILE graftTargets.cmake DESTINATION ${package_dir})
# Plugins work only with the version they were built for.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/graftConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES cmake/package/graftConfig.cmake ${CMAKE_BINARY_DIR}/graftConfigVersion.cmake
        DESTINATION ${package_dir})
