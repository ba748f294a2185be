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

# Manual pages and shell completion, printed by the program itself. A cross-compiled program cannot
# run here.
if(NOT CMAKE_CROSSCOMPILING)
  set(pages ${CMAKE_BINARY_DIR}/pages)
  set(completions ${pages}/bash-completion/completions/graft ${pages}/zsh/site-functions/_graft
                  ${pages}/fish/vendor_completions.d/graft.fish)
  add_custom_command(
    OUTPUT ${pages}/man/man1/graft.1 ${completions}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man/man1 ${pages}/bash-completion/completions
            ${pages}/zsh/site-functions ${pages}/fish/vendor_completions.d
    COMMAND ${CMAKE_COMMAND} -E env GRAFT_CONFIG=/dev/null $<TARGET_FILE:graft_program> man --all
            ${pages}/man/man1
    COMMAND graft_program completion bash > ${pages}/bash-completion/completions/graft
    COMMAND graft_program completion zsh > ${pages}/zsh/site-functions/_graft
    COMMAND graft_program completion fish > ${pages}/fish/vendor_completions.d/graft.fish
    DEPENDS graft_program
    COMMENT "Writing manual pages and shell completion"
    VERBATIM)
  add_custom_target(graft_pages ALL DEPENDS ${pages}/man/man1/graft.1 ${completions})
  install(DIRECTORY ${pages}/ DESTINATION share OPTIONAL)
endif()

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
