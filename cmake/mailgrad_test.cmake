# One folder, one test binary: mailgrad_add_test(tensor LABELS unit SOURCES block_test.cpp DEPENDS mailgrad::tensor)
#
# LABELS   one or more of these, by which scripts/test and ctest -L select; mailgrad_tests_<label> builds all of one:
#          unit     plain classes                          actor    runs of actors on one thread
#          thread   several threads, or streams of a GPU  process  starts programs or uses loopback
#          native   also as compiled for speed             gpu      needs a GPU
# HEADERS  large ones that most of its sources include. They are compiled once for all binaries that name the same
#          ones, as GoogleTest's are
# ALONE    of the sources, those with names that mean something else beside others, such as helpers of the same name;
#          they are not compiled as one with others (MAILGRAD_UNITY_TESTS)
# NAME     of the binary, if a folder has tests of two labels; <folder>_test otherwise
# PREFIX   of the names that ctest has for its tests, if another binary has the same ones
# ROTATED  with MAILGRAD_TEST_SHARDS a change runs a fifth of its tests: they take minutes there and run whole elsewhere
#
# A test on real data finds the data folder in the environment, MAILGRAD_DATA, or in the compile definition
# MAILGRAD_DATA_DIR (empty if there is none), and skips itself where a file is absent.
include_guard()

if(MAILGRAD_TESTS)
  enable_testing()
  include(GoogleTest)
  foreach(label unit actor thread process native gpu)
    add_custom_target(mailgrad_tests_${label})
  endforeach()
endif()

set(MAILGRAD_DATA "" CACHE PATH "Folder of real data sets for the tests; default: ../shared/data if it is there")
set(mailgrad_data_dir ${MAILGRAD_DATA})
if(NOT mailgrad_data_dir AND EXISTS ${PROJECT_SOURCE_DIR}/../shared/data)
  cmake_path(ABSOLUTE_PATH PROJECT_SOURCE_DIR NORMALIZE OUTPUT_VARIABLE mailgrad_data_dir)
  cmake_path(SET mailgrad_data_dir NORMALIZE ${mailgrad_data_dir}/../shared/data)
endif()

# What is tested keeps its own, and what both instantiate of the standard library is optimised as well
# (tests/support/optimised_instances.cpp), so the tests run as fast as with -O3.
set(MAILGRAD_TEST_FLAGS "$<$<CONFIG:Release>:-O0>" CACHE STRING
  "Options to compile the sources of the tests with, after all others; they shall compile fast")

option(MAILGRAD_UNITY_TESTS "Compile several sources of a test binary as one, which takes half the time" OFF)

set(MAILGRAD_TEST_SHARDS 0 CACHE STRING
  "Run each test binary in so many parts, where a process for each test takes too long to start; 0: a process each")

if(MAILGRAD_TESTS)
  # What each binary begins with.
  add_library(mailgrad_test_begin OBJECT ${PROJECT_SOURCE_DIR}/tests/support/no_kept_kernels.cpp
    ${PROJECT_SOURCE_DIR}/tests/support/optimised_instances.cpp
    ${PROJECT_SOURCE_DIR}/tests/support/uninstrumented_fmt.cpp)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/support/uninstrumented_fmt.cpp PROPERTIES
    COMPILE_OPTIONS $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=thread>)
  target_compile_options(mailgrad_test_begin PRIVATE -O2)
  target_link_libraries(mailgrad_test_begin PRIVATE mailgrad_warnings mailgrad_codegen)
endif()

# Names of one source may hide those of another that is compiled as one with it. Linked last, so that it has the last word.
add_library(mailgrad_unity_warnings INTERFACE)
target_compile_options(mailgrad_unity_warnings INTERFACE $<$<BOOL:${MAILGRAD_UNITY_TESTS}>:-Wno-shadow>)

# Sets `out` to a target that has compiled GoogleTest's headers and `HEADERS`, for the tests to use what came of it.
# Each binary would else spend four seconds on the same.
function(mailgrad_test_headers out)
  string(MAKE_C_IDENTIFIER "mailgrad_test_headers${ARGN}" target)
  set(${out} ${target} PARENT_SCOPE)
  if(TARGET ${target})
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/tests/${target}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${target} OBJECT ${source})
  mailgrad_compile_as_test(${target})
  target_link_libraries(${target} PRIVATE CAF::core GTest::gmock mailgrad_warnings mailgrad_codegen mailgrad_unity_warnings)
  target_precompile_headers(${target} PRIVATE <gmock/gmock.h> <gtest/gtest.h>
    ${PROJECT_SOURCE_DIR}/tests/support/google_test_names.hpp ${ARGN})
endfunction()

# g++ tidies its memory up so often that a tenth of the time goes there.
function(mailgrad_compile_as_test target)
  target_compile_options(${target} PRIVATE "${MAILGRAD_TEST_FLAGS}"
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=300;--param=ggc-min-heapsize=1000000>)
endfunction()

function(mailgrad_add_test folder)
  cmake_parse_arguments(arg "ROTATED" "NAME;PREFIX" "LABELS;SOURCES;ALONE;DEPENDS;HEADERS" ${ARGN})
  set(target ${folder}_test)
  if(arg_NAME)
    set(target ${arg_NAME})
  endif()
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MAILGRAD_UNITY_TESTS} UNITY_BUILD_BATCH_SIZE 32)
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  mailgrad_compile_as_test(${target})
  # What each binary begins with takes libfmt, for linking alone: its macro would be none of the compiled headers.
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} $<TARGET_FILE:fmt::fmt> GTest::gmock GTest::gtest_main
    mailgrad_warnings mailgrad_codegen mailgrad_unity_warnings)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:mailgrad_test_begin>)
  target_compile_definitions(${target} PRIVATE MAILGRAD_DATA_DIR="${mailgrad_data_dir}")

  mailgrad_test_headers(headers ${arg_HEADERS})
  target_precompile_headers(${target} REUSE_FROM ${headers})

  foreach(label IN LISTS arg_LABELS)
    add_dependencies(mailgrad_tests_${label} ${target})
  endforeach()
  list(JOIN arg_LABELS "-" labels) # gtest_discover_tests() takes one

  if(MAILGRAD_TEST_SHARDS GREATER 0)
    mailgrad_add_test_shards(${target} ${labels} ${arg_ROTATED})
    return()
  endif()
  # Listed when ctest starts: a binary that cannot even start is then a failed test, not a failed build.
  # Parameters go by their number, as the bytes of a struct make no name.
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES
    TEST_PREFIX "${arg_PREFIX}"
    PROPERTIES LABELS ${labels} TIMEOUT 600)
endfunction()

# Tests that repeat others in another setting or take seconds, each of which is needed at one change of five alone: its
# label slice_N says at which, where N is MAILGRAD_SLICE modulo 5 (tests/support/slices.hpp). `ctest -LE` leaves out others.
function(mailgrad_rotate_tests)
  foreach(test ${ARGN})
    get_property(rotated GLOBAL PROPERTY mailgrad_rotated_tests)
    list(LENGTH rotated number)
    math(EXPR slice "${number} % 5")
    set_property(TEST ${test} APPEND PROPERTY LABELS slice_${slice})
    set_property(GLOBAL APPEND PROPERTY mailgrad_rotated_tests ${test})
  endforeach()
endfunction()

# Each shard leaves a report of its tests in Testing/shards of the build folder.
function(mailgrad_add_test_shards target label rotated)
  set(shards ${MAILGRAD_TEST_SHARDS})
  if(rotated)
    math(EXPR shards "5 * ((${shards} + 4) / 5)")
  endif()
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${target}.shard_${shard} COMMAND ${target}
      --gtest_output=xml:${PROJECT_BINARY_DIR}/Testing/shards/${target}_${shard}.xml)
    set_tests_properties(${target}.shard_${shard} PROPERTIES LABELS ${label} TIMEOUT 900
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
    if(rotated)
      mailgrad_rotate_tests(${target}.shard_${shard})
    endif()
  endforeach()
endfunction()
