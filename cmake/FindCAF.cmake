# Finds CAF 1.x through its own package, else Debian's libcaf-dev (0.17), which
# ships no CMake package. Either way: CAF::core, CAF::io and CAF::openssl.
find_package(CAF CONFIG QUIET COMPONENTS ${CAF_FIND_COMPONENTS})
if(NOT TARGET CAF::core)
  find_path(CAF_INCLUDE_DIR caf/all.hpp)
  find_package(Threads REQUIRED)
  foreach(part IN LISTS CAF_FIND_COMPONENTS)
    find_library(CAF_${part}_LIBRARY caf_${part})
    mark_as_advanced(CAF_${part}_LIBRARY)
    if(CAF_${part}_LIBRARY)
      set(CAF_${part}_FOUND TRUE)
      add_library(CAF::${part} UNKNOWN IMPORTED)
      set_target_properties(CAF::${part} PROPERTIES
        IMPORTED_LOCATION "${CAF_${part}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
  endforeach()
else()
  foreach(part IN LISTS CAF_FIND_COMPONENTS)
    if(TARGET CAF::${part})
      set(CAF_${part}_FOUND TRUE)
    endif()
  endforeach()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_core_FOUND HANDLE_COMPONENTS)
