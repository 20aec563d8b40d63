# What a builder may choose, and the flags that follow from it.
option(TAPEBACK_WERROR "Treat warnings as errors (CI does)" OFF)
option(TAPEBACK_TESTS "Build the test programs" ON)
option(TAPEBACK_BENCH "Build the benchmarks" ON)
option(TAPEBACK_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(TAPEBACK_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# -O3 where time is spent (tapeback_hot), -O2 elsewhere: a fifth less to compile.
foreach(language C CXX)
  string(REPLACE "-O3" "-O2" CMAKE_${language}_FLAGS_RELEASE "${CMAKE_${language}_FLAGS_RELEASE}")
endforeach()

# Not Debian's lib/x86_64-linux-gnu: programs find plugins at ../lib/tapeback from bin.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Where libraries are installed")
include(GNUInstallDirs)
# The build tree looks like an installation, so that programs find plugins the same way in both.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(TAPEBACK_PLUGIN_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/tapeback)

find_program(TAPEBACK_CCACHE ccache)
if(TAPEBACK_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${TAPEBACK_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TAPEBACK_CCACHE})
endif()
