# Outside libraries; docs/dependencies.md says why each is here.
# Debian's LLVM config answers to 19.1, not to 19.
find_package(LLVM 19.1 REQUIRED CONFIG)
find_package(CapnProto REQUIRED CONFIG)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set_property(TARGET CapnProto::capnp APPEND PROPERTY INTERFACE_COMPILE_OPTIONS
               $<$<COMPILE_LANGUAGE:CXX>:-include${PROJECT_SOURCE_DIR}/cmake/KjForClang.h>)
endif()
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)

# LLVM's headers as system headers: their warnings are not ours.
add_library(tapeback_llvm INTERFACE)
set_target_properties(tapeback_llvm PROPERTIES EXPORT_NAME llvm)
install(TARGETS tapeback_llvm EXPORT tapebackTargets)
target_include_directories(tapeback_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(TAPEBACK_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(tapeback_llvm INTERFACE ${TAPEBACK_LLVM_DEFINITIONS})
target_link_libraries(tapeback_llvm INTERFACE LLVMSupport)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 at -O2 and above reports a false array-bounds inside llvm/Support/Error.h.
  target_compile_options(tapeback_llvm INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>)
endif()

if(TAPEBACK_TESTS)
  find_package(doctest REQUIRED CONFIG)
endif()
if(TAPEBACK_BENCH)
  find_package(benchmark REQUIRED CONFIG)
endif()
