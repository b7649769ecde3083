# One folder, one library: mailgrad_add_library(tensor SOURCES shape.cpp HEADERS shape.hpp DEPENDS ...)
# makes the target mailgrad_tensor, its alias mailgrad::tensor, and installs both it and its headers.
#
# DEPENDS  targets whose headers ours include (mailgrad::tensor, Threads::Threads)
# PRIVATE  targets that only our sources use (DNNL::dnnl, CAF::core)
include_guard()
include(GNUInstallDirs)

# Every include is <mailgrad/folder/file.hpp>, in this tree and in an installed one.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/mailgrad SYMBOLIC)

add_library(mailgrad_warnings INTERFACE)
target_compile_options(mailgrad_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>)

add_library(mailgrad_codegen INTERFACE)
target_compile_options(mailgrad_codegen INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fopenmp-simd;-fno-math-errno;-fno-trapping-math>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MAILGRAD_NATIVE}>>:-march=native>)

function(mailgrad_add_library folder)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE" ${ARGN})
  set(target mailgrad_${folder})
  add_library(${target} ${arg_SOURCES})
  add_library(mailgrad::${folder} ALIAS ${target})
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target}
    PUBLIC ${arg_DEPENDS}
    PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:mailgrad_warnings> $<BUILD_INTERFACE:mailgrad_codegen>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder} POSITION_INDEPENDENT_CODE ON)
  install(TARGETS ${target} EXPORT mailgradTargets
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mailgrad)
endfunction()

# One folder, one test binary: mailgrad_add_test(tensor LABEL unit SOURCES shape_test.cpp DEPENDS mailgrad::tensor)
function(mailgrad_add_test folder)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPENDS" ${ARGN})
  set(target ${folder}_test)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main
    mailgrad_warnings mailgrad_codegen)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include)
  gtest_discover_tests(${target} PROPERTIES LABELS ${arg_LABEL} DISCOVERY_TIMEOUT 120)
endfunction()
