# Finds the TurboJPEG library of libjpeg-turbo and makes turbojpeg::turbojpeg.
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h)
find_library(TURBOJPEG_LIBRARY turbojpeg)
mark_as_advanced(TURBOJPEG_INCLUDE_DIR TURBOJPEG_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TURBOJPEG REQUIRED_VARS TURBOJPEG_LIBRARY TURBOJPEG_INCLUDE_DIR)
if(TURBOJPEG_FOUND AND NOT TARGET turbojpeg::turbojpeg)
  add_library(turbojpeg::turbojpeg UNKNOWN IMPORTED)
  set_target_properties(turbojpeg::turbojpeg PROPERTIES
    IMPORTED_LOCATION "${TURBOJPEG_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TURBOJPEG_INCLUDE_DIR}")
endif()
