# One folder, one test binary: mailgrad_add_test(tensor LABEL unit SOURCES shape_test.cpp DEPENDS mailgrad::tensor)
#
# LABEL    unit, actor, process (starts programs or uses loopback) or gpu; ctest -L selects by it. The target
#          mailgrad_tests_<label> builds every binary of a label.
# HEADERS  large ones that most of its sources include, compiled once for all of them, as GoogleTest's are, if they
#          are more than two
# NAME     of the binary, if a folder has tests of two labels; <folder>_test otherwise
#
# A test on real data finds the data folder in the environment, MAILGRAD_DATA, or in the compile definition
# MAILGRAD_DATA_DIR (empty if there is none), and skips itself where a file is absent.
include_guard()

if(MAILGRAD_TESTS)
  enable_testing()
  include(GoogleTest)
  foreach(label unit actor process gpu)
    add_custom_target(mailgrad_tests_${label})
  endforeach()
endif()

set(MAILGRAD_DATA "" CACHE PATH "Folder of real data sets for the tests; default: ../shared/data if it is there")
set(mailgrad_data_dir ${MAILGRAD_DATA})
if(NOT mailgrad_data_dir AND EXISTS ${PROJECT_SOURCE_DIR}/../shared/data)
  cmake_path(ABSOLUTE_PATH PROJECT_SOURCE_DIR NORMALIZE OUTPUT_VARIABLE mailgrad_data_dir)
  cmake_path(SET mailgrad_data_dir NORMALIZE ${mailgrad_data_dir}/../shared/data)
endif()

# What is tested keeps its own. By -O1 g++ 12 warns of its own AVX-512 header.
set(MAILGRAD_TEST_FLAGS "$<$<CONFIG:Release>:-O1;-Wno-uninitialized>" CACHE STRING
  "Options to compile the sources of the tests with, after all others; they shall compile fast")

function(mailgrad_add_test folder)
  cmake_parse_arguments(arg "" "LABEL;NAME" "SOURCES;DEPENDS;HEADERS" ${ARGN})
  set(target ${folder}_test)
  if(arg_NAME)
    set(target ${arg_NAME})
  endif()
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF) # tests have helpers of the same names
  target_compile_options(${target} PRIVATE "${MAILGRAD_TEST_FLAGS}")
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main
    mailgrad_warnings mailgrad_codegen)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include)
  target_compile_definitions(${target} PRIVATE MAILGRAD_DATA_DIR="${mailgrad_data_dir}")

  list(LENGTH arg_SOURCES sources)
  if(sources GREATER 2) # for fewer it takes longer than it saves
    target_precompile_headers(${target} PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${arg_HEADERS})
  endif()

  add_dependencies(mailgrad_tests_${arg_LABEL} ${target})

  # Listed when ctest starts: a binary that cannot even start is then a failed test, not a failed build.
  # Parameters go by their number, as the bytes of a struct make no name.
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT 600)
endfunction()
