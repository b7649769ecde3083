# What find_package(mailgrad) reads: the exported targets, a version file, and the find modules that the
# targets' own dependencies need.
include_guard()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(mailgrad_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mailgrad)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/mailgradConfig.cmake.in
  ${PROJECT_BINARY_DIR}/mailgradConfig.cmake INSTALL_DESTINATION ${mailgrad_package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mailgradConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)

install(EXPORT mailgradTargets NAMESPACE mailgrad:: DESTINATION ${mailgrad_package_dir})
install(EXPORT mailgradPluginTargets NAMESPACE mailgrad:: DESTINATION ${mailgrad_package_dir})
install(FILES
  ${PROJECT_BINARY_DIR}/mailgradConfig.cmake ${PROJECT_BINARY_DIR}/mailgradConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake ${PROJECT_SOURCE_DIR}/cmake/FindONEDNN.cmake ${PROJECT_SOURCE_DIR}/cmake/FindONNX.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindTURBOJPEG.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindZIP.cmake
  ${PROJECT_SOURCE_DIR}/cmake/mailgrad_compiler.cmake
  DESTINATION ${mailgrad_package_dir})

set(mailgrad_doc_dir ${CMAKE_INSTALL_DATADIR}/doc/mailgrad)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${mailgrad_doc_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${mailgrad_doc_dir} PATTERN Doxyfile EXCLUDE)
