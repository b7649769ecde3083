# What the libraries link with, found once and here. A folder only names the target it uses:
# Threads::Threads, DNNL::dnnl, OpenMP::OpenMP_CXX, Eigen3::Eigen, ZLIB::ZLIB, zip::zip, PNG::PNG,
# turbojpeg::turbojpeg, OpenSSL::Crypto, OpenSSL::SSL, CAF::core, nlohmann_json::nlohmann_json, fmt::fmt, onnx::proto (which brings
# protobuf), Boost::headers, xxhash::xxhash, MPI::MPI_CXX, CLI11::CLI11, GTest::gtest. protobuf_generate() calls protoc.
# CHARTJS_FILE is a script that the tool holds.
#
# What an installed static library still needs must also stand in mailgradConfig.cmake.in.
include_guard()

# A feature that a build may lack. MAILGRAD_<name> is AUTO (the build has it if its packages are there), ON (they must be
# there) or OFF; MAILGRAD_<name>_FOUND says whether the build has it. A line names what it lacks, and Debian's packages.
macro(mailgrad_feature name what debian)
  set(MAILGRAD_${name} AUTO CACHE STRING "${what}: AUTO (if ${debian} are there), ON or OFF")
  set(MAILGRAD_${name}_FOUND OFF)
  if(MAILGRAD_${name})
    set(MAILGRAD_${name}_FOUND ON)
    foreach(package ${ARGN})
      if(MAILGRAD_${name} STREQUAL AUTO)
        find_package(${package} QUIET COMPONENTS ${${package}_parts})
      else()
        find_package(${package} REQUIRED COMPONENTS ${${package}_parts})
      endif()
      if(NOT ${package}_FOUND)
        set(MAILGRAD_${name}_FOUND OFF)
      endif()
    endforeach()
  endif()
  if(NOT MAILGRAD_${name}_FOUND)
    message(STATUS "Left out: ${what} (MAILGRAD_${name}; Debian: ${debian})")
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(ZLIB REQUIRED)
find_package(ZIP REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto SSL)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(XXHASH REQUIRED)
find_package(CAF REQUIRED COMPONENTS core)

if(MAILGRAD_ONEDNN)
  find_package(ONEDNN)
  if(NOT ONEDNN_FOUND)
    message(FATAL_ERROR "oneDNN was not found: install it (Debian: libdnnl-dev), "
      "or configure with -DMAILGRAD_ONEDNN=OFF to take the matrix products from Eigen.")
  endif()
  find_package(OpenMP REQUIRED COMPONENTS CXX) # its threads are set to one for each of ours
endif()

mailgrad_feature(PICTURES "data sets of PNG and JPEG files" "libpng-dev libturbojpeg0-dev" PNG TURBOJPEG)
mailgrad_feature(PROTOBUF "export to ONNX, and files for TensorBoard" "libonnx-dev libprotobuf-dev protobuf-compiler"
  Protobuf ONNX)
if(MAILGRAD_PROTOBUF_FOUND AND NOT TARGET protobuf::protoc) # the module finds a library without its compiler
  if(NOT MAILGRAD_PROTOBUF STREQUAL AUTO)
    message(FATAL_ERROR "protoc was not found (Debian: protobuf-compiler)")
  endif()
  set(MAILGRAD_PROTOBUF_FOUND OFF)
  message(STATUS "Left out: export to ONNX, and files for TensorBoard: there is no protoc (Debian: protobuf-compiler)")
endif()
mailgrad_feature(CHARTS "charts on the live page and in reports" "libjs-chart.js" CHARTJS)
# The interface of C alone: that of C++ is gone from MPI 3 on, and would have to be linked with as well.
set(MPI_parts CXX)
set(MPI_CXX_SKIP_MPICXX ON)
mailgrad_feature(MPI "ranks of MPI" "libopenmpi-dev" MPI)

if(MAILGRAD_TESTS)
  find_package(GTest REQUIRED)
  foreach(feature PICTURES PROTOBUF)
    if(NOT MAILGRAD_${feature}_FOUND)
      message(FATAL_ERROR "The tests need MAILGRAD_${feature}: install its packages, or configure with -DMAILGRAD_TESTS=OFF.")
    endif()
  endforeach()
endif()
