# Installation: what cmake/TapebackTargets.cmake does not install target by target.
#
#   bin/                            tapeback, and the example programs
#   lib/libtapeback*                the client library, and the static libraries
#   lib/tapeback/                   plugins: device models, the client's target library
#   lib/cmake/tapeback/             find_package(tapeback)
#   include/tapeback.h              the C API, as programs under test include it
#   include/tapeback_model.h        the model ABI, as plugins include it
#   include/tapeback/               our C++ headers, by the paths they have here: #include "format/Packet.h"
#   share/tapeback/descriptions/    device descriptions
include(CMakePackageConfigHelpers)

install(FILES recorder/tapeback.h hal/model/tapeback_model.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY format hal triggers recorder replayer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tapeback
        FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/tapeback/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tapeback OPTIONAL)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

set(packageDir ${CMAKE_INSTALL_LIBDIR}/cmake/tapeback)
install(EXPORT tapebackTargets NAMESPACE tapeback:: DESTINATION ${packageDir})
configure_package_config_file(cmake/tapebackConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/tapebackConfig.cmake
                              INSTALL_DESTINATION ${packageDir}
                              PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_DATADIR)
# Before 1.0 a minor version may break what is linked.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/tapebackConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/tapebackConfig.cmake ${CMAKE_BINARY_DIR}/cmake/tapebackConfigVersion.cmake
        DESTINATION ${packageDir})
