# Finds libzip and makes zip::zip. Debian 12's own configuration asks for tools of another package.
find_path(ZIP_INCLUDE_DIR zip.h)
find_library(ZIP_LIBRARY zip)
mark_as_advanced(ZIP_INCLUDE_DIR ZIP_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZIP REQUIRED_VARS ZIP_LIBRARY ZIP_INCLUDE_DIR)
if(ZIP_FOUND AND NOT TARGET zip::zip)
  add_library(zip::zip UNKNOWN IMPORTED)
  set_target_properties(zip::zip PROPERTIES
    IMPORTED_LOCATION "${ZIP_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ZIP_INCLUDE_DIR}")
endif()
