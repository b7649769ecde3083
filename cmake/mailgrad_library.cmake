# One folder, one library: mailgrad_add_library(tensor SOURCES shape.cpp DEPENDS ...)
# makes the target mailgrad_tensor, its alias mailgrad::tensor, and installs both it and the headers of its folder.
#
# OWN_HEADERS  regular expressions of headers that are not installed
# DEPENDS  targets whose headers ours include (mailgrad::tensor, Threads::Threads)
# PRIVATE  targets that only our sources use (DNNL::dnnl, CAF::core)
# CUDA_SOURCES, NO_CUDA_SOURCES  see mailgrad_cuda.cmake
#
# A preset may compile several sources as one (CMAKE_UNITY_BUILD). The compiler then names what stands in two of their
# unnamed namespaces.
include_guard()
include(GNUInstallDirs)

# Every include is <mailgrad/folder/file.hpp>, in this tree and in an installed one.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/mailgrad SYMBOLIC)

# nvcc hands its host compiler code of its own making, which the stricter warnings would blame on us.
add_library(mailgrad_warnings INTERFACE)
target_compile_options(mailgrad_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion>
  # Of several sources that are compiled as one, a name may hide one of another, which harms nobody.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:${CMAKE_UNITY_BUILD}>>>:-Wshadow>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of an overlap and of an overflow inside std::string's operator+ (GCC bug 105651), and of its own
  # AVX-512 intrinsics, wherever Eigen uses them (GCC bug 105593).
  target_compile_options(mailgrad_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-stringop-overflow;-Wno-maybe-uninitialized>)
endif()
if(MAILGRAD_WERROR)
  target_compile_options(mailgrad_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
endif()

# g++ tidies its memory up so often that a tenth of the time goes there.
add_library(mailgrad_codegen INTERFACE)
target_compile_options(mailgrad_codegen INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=100;--param=ggc-min-heapsize=600000>
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr> # std::span in a kernel
  $<$<COMPILE_LANGUAGE:CXX>:-fopenmp-simd;-fno-math-errno;-fno-trapping-math>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MAILGRAD_NATIVE}>>:-march=native>)

# g++ says by these macros what it instruments for, which clang 16 does not.
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  foreach(sanitizer address thread)
    if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[-a-z,]*${sanitizer}")
      string(TOUPPER __SANITIZE_${sanitizer}__=1 macro)
      add_compile_definitions(${macro})
    endif()
  endforeach()
endif()

# Sets `out` to `targets`, those that are nothing but headers marked as of no concern to who links us.
function(mailgrad_private_links out)
  set(links)
  foreach(target IN LISTS ARGN)
    set(link ${target})
    if(TARGET ${target})
      get_target_property(type ${target} TYPE)
      get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
      if(type STREQUAL INTERFACE_LIBRARY AND NOT libraries)
        set(link $<BUILD_INTERFACE:${target}>)
      endif()
    endif()
    list(APPEND links ${link})
  endforeach()
  set(${out} ${links} PARENT_SCOPE)
endfunction()

# Ninja compiles no more sources at once than memory has room for, of which the largest ones take g++ 3 GiB. A container may
# have less than its machine.
cmake_host_system_information(RESULT mailgrad_mebibytes QUERY TOTAL_PHYSICAL_MEMORY)
foreach(limit /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes)
  if(EXISTS ${limit})
    file(STRINGS ${limit} bytes REGEX "^[0-9]+$") # "max" is none
    if(bytes)
      math(EXPR mebibytes "${bytes} / 1048576")
      if(mebibytes LESS mailgrad_mebibytes)
        set(mailgrad_mebibytes ${mebibytes})
      endif()
    endif()
  endif()
endforeach()
math(EXPR mailgrad_jobs "${mailgrad_mebibytes} / 3072")
if(mailgrad_jobs EQUAL 0)
  set(mailgrad_jobs 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS mailgrad_compile=${mailgrad_jobs})
set(CMAKE_JOB_POOL_COMPILE mailgrad_compile)

# lld of LLVM 16 links a test in a fifth of the time that GNU ld takes. Older ones break exceptions of g++.
find_program(MAILGRAD_LLD ld.lld PATHS /usr/lib/llvm-16/bin NO_DEFAULT_PATH)
mark_as_advanced(MAILGRAD_LLD)
if(MAILGRAD_LLD)
  cmake_path(GET MAILGRAD_LLD PARENT_PATH mailgrad_lld_folder)
  add_link_options("$<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld;-B${mailgrad_lld_folder}>")
endif()

function(mailgrad_add_library folder)
  cmake_parse_arguments(arg "" "" "SOURCES;OWN_HEADERS;DEPENDS;PRIVATE;CUDA_SOURCES;NO_CUDA_SOURCES" ${ARGN})
  set(target mailgrad_${folder})
  add_library(${target} ${arg_SOURCES})
  add_library(mailgrad::${folder} ALIAS ${target})
  mailgrad_add_cuda(${target} CUDA_SOURCES ${arg_CUDA_SOURCES} NO_CUDA_SOURCES ${arg_NO_CUDA_SOURCES})
  file(GLOB_RECURSE headers RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.hpp *.h)
  foreach(own IN LISTS arg_OWN_HEADERS)
    list(FILTER headers EXCLUDE REGEX "^${own}$")
  endforeach()
  list(TRANSFORM headers PREPEND ${PROJECT_BINARY_DIR}/include/mailgrad/${folder}/)
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_BINARY_DIR}/include FILES ${headers})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  mailgrad_private_links(private_links ${arg_PRIVATE})
  target_link_libraries(${target}
    PUBLIC ${arg_DEPENDS}
    PRIVATE ${private_links} $<BUILD_INTERFACE:mailgrad_warnings> $<BUILD_INTERFACE:mailgrad_codegen>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder} POSITION_INDEPENDENT_CODE ON
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  install(TARGETS ${target} EXPORT mailgradTargets
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()
