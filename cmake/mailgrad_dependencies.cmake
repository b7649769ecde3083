# What the libraries link with, found once and here. A folder only names the target it uses:
# Threads::Threads, DNNL::dnnl, OpenMP::OpenMP_CXX, Eigen3::Eigen, ZLIB::ZLIB, zip::zip, PNG::PNG,
# turbojpeg::turbojpeg, OpenSSL::Crypto, OpenSSL::SSL, CAF::core, nlohmann_json::nlohmann_json, fmt::fmt, onnx::proto (which brings
# protobuf), Boost::headers, xxhash::xxhash, MPI::MPI_CXX (if there is one), CLI11::CLI11, GTest::gtest. protobuf_generate() calls protoc. CHARTJS_FILE is a
# script that the tool holds.
#
# What an installed static library still needs must also stand in mailgradConfig.cmake.in.
include_guard()

find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(ZLIB REQUIRED)
find_package(ZIP REQUIRED)
find_package(PNG REQUIRED)
find_package(TURBOJPEG REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto SSL)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(ONNX REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(CHARTJS REQUIRED)
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

# The interface of C alone: that of C++ is gone from MPI 3 on, and would have to be linked with as well.
set(MAILGRAD_MPI_FOUND OFF)
if(MAILGRAD_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  if(MAILGRAD_MPI STREQUAL AUTO)
    find_package(MPI QUIET COMPONENTS CXX)
  else()
    find_package(MPI REQUIRED COMPONENTS CXX)
  endif()
  set(MAILGRAD_MPI_FOUND ${MPI_CXX_FOUND})
endif()

if(MAILGRAD_TESTS)
  find_package(GTest REQUIRED)
endif()
