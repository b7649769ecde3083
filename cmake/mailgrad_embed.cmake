# Writes the bytes of a file as a C++ source, so that a program needs no file at run time:
#
#   cmake -DIN=page.html -DNAME=page_html -DOUT=page_html.cpp -P mailgrad_embed.cmake
#
# defines mailgrad::embedded::page_html, a std::string_view. mailgrad_embed(target NAME FILE) builds one into a target.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${IN} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUT} "#include <string_view>\n"
    "namespace mailgrad::embedded {\n"
    "extern const std::string_view ${NAME};\n"
    "static constexpr unsigned char bytes[] = {${bytes}};\n"
    "const std::string_view ${NAME}(reinterpret_cast<const char*>(bytes), sizeof bytes);\n"
    "} // namespace mailgrad::embedded\n")
  return()
endif()

include_guard()

set(mailgrad_embed_script ${CMAKE_CURRENT_LIST_FILE})

function(mailgrad_embed target name file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DNAME=${name} -DOUT=${source} -P ${mailgrad_embed_script}
    DEPENDS ${file} ${mailgrad_embed_script} VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
