# mailgrad_add_commit(TARGET): adds to TARGET a source that defines mailgrad::build_commit, the commit it is built from.
# Every build asks git anew, and the source is written only when the answer has changed, so that nothing else is built
# again. As a script, `cmake -DSOURCE=... -DOUTPUT=... -P`, this file is what asks and writes.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit unknown)
  execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  file(REAL_PATH ${SOURCE} source)
  if(NOT failed AND top STREQUAL source) # else the sources lie unpacked in someone else's repository
    execute_process(COMMAND git --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND described)
      set(commit ${described})
    endif()
  endif()
  set(text "namespace mailgrad {\nextern const char build_commit[];\nconst char build_commit[] = \"${commit}\";\n}\n")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
  endif()
  if(NOT text STREQUAL before)
    file(WRITE ${OUTPUT} "${text}")
  endif()
  return()
endif()

include_guard()
set(mailgrad_commit_script ${CMAKE_CURRENT_LIST_FILE})

function(mailgrad_add_commit target)
  set(source ${PROJECT_BINARY_DIR}/commit.cpp)
  set(ask ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${source} -P ${mailgrad_commit_script})
  execute_process(COMMAND ${ask}) # so that tools which read the sources before the first build find it
  add_custom_target(mailgrad_commit COMMAND ${ask} BYPRODUCTS ${source}
    COMMENT "Asking git for the commit" VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  add_dependencies(${target} mailgrad_commit)
endfunction()
