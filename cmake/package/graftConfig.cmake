# find_package(graft): the target graft::graft.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/graftTargets.cmake)
