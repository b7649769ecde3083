# Finds xxHash and makes xxhash::xxhash. Its functions are compiled into the source that includes them, so there is no
# library to link.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHASH_INCLUDE_DIR)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHASH REQUIRED_VARS XXHASH_INCLUDE_DIR)
if(XXHASH_FOUND AND NOT TARGET xxhash::xxhash)
  add_library(xxhash::xxhash INTERFACE IMPORTED)
  set_target_properties(xxhash::xxhash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIR}")
endif()
