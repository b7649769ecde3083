# Says in mailgrad_compiler_too_old what is wrong with a compiler that cannot build Mailgrad or what includes its
# headers; empty for one that can. A rule for a plug-in includes less, and may be written in C99.
set(mailgrad_compiler_too_old)
foreach(known "GNU 12" "Clang 16")
  string(REPLACE " " ";" known ${known})
  list(POP_FRONT known id least)
  if(CMAKE_CXX_COMPILER_ID STREQUAL id AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS least)
    set(mailgrad_compiler_too_old "Mailgrad needs g++ 12 or clang 16, or a newer one; ${CMAKE_CXX_COMPILER} is \
${id} ${CMAKE_CXX_COMPILER_VERSION}. Name another in CXX or by -DCMAKE_CXX_COMPILER=.")
  endif()
endforeach()
