# libgraft.so is all modules in one: the program and the plugins it loads share one copy of every
# symbol. Made of the modules' object files; called after the last graft_module().
function(graft_library)
  get_property(modules GLOBAL PROPERTY graft_modules)
  get_property(libs GLOBAL PROPERTY graft_libs)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  # What the installed headers include; everything else stays inside.
  set(public_libs Threads::Threads nlohmann_json::nlohmann_json)
  list(REMOVE_ITEM libs ${public_libs})

  add_library(graft_library SHARED ${modules})
  add_library(graft::graft ALIAS graft_library)
  target_link_libraries(graft_library PUBLIC ${public_libs} PRIVATE ${libs})
  target_compile_features(graft_library PUBLIC cxx_std_20)
  target_include_directories(
    graft_library
    INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include>
              $<INSTALL_INTERFACE:include>)
  # The name that plugins are linked to has the major version only: one that was built for another
  # minor version can still be opened and asked for which.
  set_target_properties(
    graft_library
    PROPERTIES OUTPUT_NAME graft
               EXPORT_NAME graft
               LINKER_LANGUAGE CXX
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()
