# find_package(graft): the target graft::graft and the dependencies of its headers.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(nlohmann_json)
include(${CMAKE_CURRENT_LIST_DIR}/graftTargets.cmake)
