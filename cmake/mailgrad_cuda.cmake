# With MAILGRAD_CUDA a folder's CUDA_SOURCES (*.cu, those with a kernel launch in them) are compiled by nvcc and linked
# with the CUDA runtime; cuBLAS is opened when a GPU asks for it. Without MAILGRAD_CUDA the folder's NO_CUDA_SOURCES take
# their place: they define the same functions and answer each call with a device_error.
#
#   mailgrad_add_library(cuda CUDA_SOURCES update.cu NO_CUDA_SOURCES no_cuda.cpp)
#
# With MAILGRAD_CUDA_TESTS the libraries are those without CUDA, and the tests of a GPU link the objects of
# mailgrad_cuda_beside before them. So one build folder checks both.
include_guard()

if(MAILGRAD_CUDA_TESTS AND NOT MAILGRAD_CUDA)
  set(mailgrad_cuda_beside cuda_code)
endif()
if(MAILGRAD_CUDA OR mailgrad_cuda_beside)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "MAILGRAD_CUDA is on, but no nvcc was found: put it on PATH or name it in CUDACXX.")
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90) # Ampere and Hopper; later GPUs compile the embedded PTX
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 is older than nvcc's C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit REQUIRED)
endif()

# Gives `target` its CUDA half, or the half that stands in for it.
function(mailgrad_add_cuda target)
  cmake_parse_arguments(arg "" "" "CUDA_SOURCES;NO_CUDA_SOURCES" ${ARGN})
  if(NOT MAILGRAD_CUDA)
    target_sources(${target} PRIVATE ${arg_NO_CUDA_SOURCES})
    return()
  endif()
  target_sources(${target} PRIVATE ${arg_CUDA_SOURCES})
endfunction()
