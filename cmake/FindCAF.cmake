# Finds CAF 1.x through its own package, else Debian's libcaf-dev (0.17), which
# ships no CMake package. Either way: CAF::core, CAF::io, CAF::openssl; with 1.x also CAF::test.
set(CAF_required_parts)
set(CAF_optional_parts)
foreach(part IN LISTS CAF_FIND_COMPONENTS)
  if(CAF_FIND_REQUIRED_${part})
    list(APPEND CAF_required_parts ${part})
  else()
    list(APPEND CAF_optional_parts ${part})
  endif()
endforeach()

find_package(CAF CONFIG QUIET COMPONENTS ${CAF_required_parts} OPTIONAL_COMPONENTS ${CAF_optional_parts})

if(NOT TARGET CAF::core)
  find_path(CAF_INCLUDE_DIR caf/all.hpp)
  find_package(Threads REQUIRED)
  mark_as_advanced(CAF_INCLUDE_DIR)
  foreach(part IN LISTS CAF_FIND_COMPONENTS)
    find_library(CAF_${part}_LIBRARY caf_${part})
    mark_as_advanced(CAF_${part}_LIBRARY)
    if(CAF_INCLUDE_DIR AND CAF_${part}_LIBRARY)
      add_library(CAF::${part} UNKNOWN IMPORTED)
      set_target_properties(CAF::${part} PROPERTIES
        IMPORTED_LOCATION "${CAF_${part}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
  endforeach()
endif()

foreach(part IN LISTS CAF_FIND_COMPONENTS)
  if(TARGET CAF::${part})
    set(CAF_${part}_FOUND TRUE)
  endif()
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_core_FOUND HANDLE_COMPONENTS)
