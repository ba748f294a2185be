# graft_embed(<target> <source> <folder> <header>): adds a generated source to the target that defines
# static_files() of <header>: every file of the folder with its path, content type and bytes. Paths of
# pages drop ".html", and index.html becomes "/". Run with cmake -P this file is the generator.

function(graft_embed target source folder header)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*)
  if(NOT files)
    message(FATAL_ERROR "${folder}: nothing to embed")
  endif()
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D "folder=${folder}" -D "header=${header}" -D "source=${source}" -P
            ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${folder}"
    VERBATIM)
  target_sources(${target} PRIVATE ${source})
  # The C++ standard guarantees 64 KiB for a string literal; g++ and clang accept more.
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-overlength-strings)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB_RECURSE files RELATIVE ${folder} ${folder}/*)
list(SORT files)
set(rows "")
foreach(file ${files})
  string(REGEX REPLACE "^.*\\.([a-z0-9]+)$" "\\1" suffix ${file})
  if(NOT type_${suffix})
    message(FATAL_ERROR "${folder}/${file}: no content type for .${suffix} (cmake/embed.cmake)")
  endif()
  string(REGEX REPLACE "(^|/)index\\.html$" "\\1" path ${file})
  string(REGEX REPLACE "\\.html$" "" path "${path}")
  file(SIZE ${folder}/${file} size)
  file(READ ${folder}/${file} bytes HEX)
  string(REPEAT "." 64 line) # CMake's regular expressions cannot count
  string(REGEX REPLACE "(${line})" "\\1\"\n     \"" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(APPEND rows "    {\"/${path}\",\n     \"${type_${suffix}}\",\n     {\"${bytes}\",\n      ${size}}},\n")
endforeach()

file(
  WRITE ${source}
  "// Made by cmake/embed.cmake.

#include \"${header}\"

namespace graft::server {
namespace {

const StaticFile kFiles[] = {
${rows}};

}  // namespace

std::span<const StaticFile> static_files() {
  return kFiles;
}

}  // namespace graft::server
")
