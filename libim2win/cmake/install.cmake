# The installed package: for find_package and for pkg-config, with no absolute path in it.

include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/im2win)
install(DIRECTORY include/im2win TYPE INCLUDE)
# Two sets, as the static one needs the CUDA toolkit of the machine that links it.
install(TARGETS im2win EXPORT im2winTargets)
install(TARGETS im2win_static EXPORT im2winStaticTargets)
install(EXPORT im2winTargets NAMESPACE im2win:: DESTINATION ${package})
install(EXPORT im2winStaticTargets NAMESPACE im2win:: DESTINATION ${package})
configure_package_config_file(cmake/im2winConfig.cmake.in im2winConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(im2winConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/im2winConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/im2winConfigVersion.cmake DESTINATION ${package})

list(TRANSFORM static_runtime PREPEND -l)
list(JOIN static_runtime " " static_libraries)
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/im2win.pc.in im2win.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/im2win.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
