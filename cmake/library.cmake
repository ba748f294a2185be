# libgraft.so holds all modules: the program and its plugins share one copy of every symbol. Built
# from the modules' object files; call after the last graft_module().
function(graft_library)
  get_property(modules GLOBAL PROPERTY graft_modules)
  get_property(libs GLOBAL PROPERTY graft_libs)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  # Callbacks run on a thread of the library, so its users need threads; all other libraries are private.
  set(public_libs Threads::Threads)
  list(REMOVE_ITEM libs ${public_libs})

  add_library(graft_library SHARED ${modules})
  add_library(graft::graft ALIAS graft_library)
  target_link_libraries(graft_library PUBLIC ${public_libs} PRIVATE ${libs})
  target_compile_features(graft_library PUBLIC cxx_std_20)
  target_include_directories(
    graft_library
    INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include>
              $<INSTALL_INTERFACE:include>)
  # The soname has the major version only: a plugin built for another minor version still loads, so
  # that its version can be read and reported.
  set_target_properties(
    graft_library
    PROPERTIES OUTPUT_NAME graft
               EXPORT_NAME graft
               LINKER_LANGUAGE CXX
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()
