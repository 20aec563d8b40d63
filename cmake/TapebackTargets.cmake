# The few kinds of target the project has. Every target gets the same warnings and sanitizers here,
# per target and not through CMAKE_CXX_FLAGS (which breaks the Cap'n Proto package's own checks).

function(tapeback_configure target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TAPEBACK_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 finds overlapping copies inside std::string's operator+ where there are none (GCC bug 105651).
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  else()
    # clang objects to what libstdc++ 12 does inside std::stable_sort. Our own uses of deprecated things: g++ tells.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
  endif()
  get_target_property(type ${target} TYPE)
  if(TAPEBACK_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TAPEBACK_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${TAPEBACK_SANITIZE})
    target_compile_definitions(${target} PRIVATE TAPEBACK_SANITIZED)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/SanitizerDefaults.c)
      # A program in C may dlopen a library of ours in C++, which needs the sanitizers' C++ part.
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    endif()
  endif()
  # What fuzzers are linked from tells them where it went; programs, and the verbs in them, need not (a seventh of the
  # time to compile).
  if(TAPEBACK_FUZZ AND type STREQUAL "STATIC_LIBRARY")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# For what runs once a packet.
function(tapeback_hot)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  endforeach()
endfunction()

# Sets `result` to whether this folder's targets are part of the product: built by the target `runtime`, and installed.
function(tapeback_is_product result)
  cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE inside)
  cmake_path(SET tests ${PROJECT_SOURCE_DIR}/tests)
  cmake_path(IS_PREFIX tests ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE isTest)
  if(inside AND NOT isTest)
    set(${result} ON PARENT_SCOPE)
  else()
    set(${result} OFF PARENT_SCOPE)
  endif()
endfunction()

# `runtime` is all that is needed to use Tapeback, without its tests.
add_custom_target(runtime)

# What every target that can be linked by others gets: an exported name, and headers under include/tapeback.
function(tapeback_export target)
  string(REGEX REPLACE "^tapeback_" "" short ${target})
  add_library(tapeback::${short} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${short})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tapeback>)
  install(TARGETS ${target} EXPORT tapebackTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# tapeback_library(NAME SOURCES a.cpp … DEPENDS lib …): a static library of ours.
function(tapeback_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
  tapeback_is_product(product)
  if(product)
    tapeback_export(${name})
  endif()
endfunction()

# tapeback_shared_library(NAME SOURCES … DEPENDS …): a library that programs outside link, with its soname; NAME's
# prefix "tapeback_" is no part of the file's name unless OUTPUT_NAME says so.
function(tapeback_shared_library name)
  cmake_parse_arguments(ARG "" "OUTPUT_NAME" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} SHARED ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  if(ARG_OUTPUT_NAME)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT_NAME})
  endif()
  tapeback_is_product(product)
  if(product)
    tapeback_export(${name})
    add_dependencies(runtime ${name})
  endif()
endfunction()

# tapeback_program(NAME SOURCES … DEPENDS …): an executable in bin/.
function(tapeback_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  tapeback_is_product(product)
  if(product)
    # The same path in the build tree: CMake would keep room for it there by empty entries, each of which is the current
    # folder to the dynamic linker. Who needs no library of ours is not made to look for others there, either.
    if(tapeback_client IN_LIST ARG_DEPENDS)
      set_target_properties(${name} PROPERTIES INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR}
                                               BUILD_WITH_INSTALL_RPATH ON)
    endif()
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    add_dependencies(runtime ${name})
  endif()
endfunction()

# tapeback_private_program(NAME SOURCES … DEPENDS …): an executable in lib/tapeback, started by our programs only.
function(tapeback_private_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${TAPEBACK_PLUGIN_OUTPUT_DIRECTORY})
  tapeback_is_product(product)
  if(product)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/tapeback)
    add_dependencies(runtime ${name})
  endif()
endfunction()

# tapeback_plugin(NAME SOURCES … DEPENDS …): a shared object in lib/tapeback, dlopen'ed, never linked.
function(tapeback_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  # Two plugins in one process must not share inline statics (STB_GNU_UNIQUE), nor leak symbols.
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(${name} PROPERTIES PREFIX ""
                        LIBRARY_OUTPUT_DIRECTORY ${TAPEBACK_PLUGIN_OUTPUT_DIRECTORY})
  tapeback_is_product(product)
  if(product)
    install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tapeback)
    add_dependencies(runtime ${name})
  endif()
endfunction()

# For the code of tests: what is tested keeps its optimisation, the tests compile in 60 % of the time, those with
# sanitizers in half of it.
function(tapeback_configure_test target)
  tapeback_configure(${target})
  # Assertions as one call each, without a handler for what their operands throw: a sixth less to compile.
  target_compile_definitions(${target} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()

# The main of all doctest programs, compiled once (tests/CMakeLists.txt).
function(tapeback_testmain)
  add_library(tapeback_testmain OBJECT ${PROJECT_SOURCE_DIR}/tests/TestMain.cpp)
  tapeback_configure_test(tapeback_testmain)
  target_link_libraries(tapeback_testmain PUBLIC doctest::doctest)
endfunction()

# tapeback_test(NAME SOURCES … DEPENDS … LABELS …): a doctest program in bin/tests, known to ctest and
# to tools/run-tests, which sums the counts that the programs themselves print.
function(tapeback_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tapeback_configure_test(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} tapeback_testmain tapeback_testsupport)
  target_compile_definitions(${name} PRIVATE
    TAPEBACK_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TAPEBACK_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  add_test(NAME ${name} COMMAND ${name})
  tapeback_test_properties(${name} "${ARG_LABELS}" "${ARG_TIMEOUT}")
endfunction()

# tapeback_script_test(NAME script.py [DEPENDS target …] [LABELS …] [TIMEOUT s]): a Python script whose main is that of
# tests/support/ScriptTest.py. Building NAME builds what it needs.
function(tapeback_script_test name script)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;DEPENDS" ${ARGN})
  add_custom_target(${name})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "TAPEBACK_BINARY_DIR=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
  tapeback_test_properties(${name} "${ARG_LABELS}" "${ARG_TIMEOUT}")
endfunction()

# Labels that mean something to tools/run-tests and .ci/run:
#   serial  runs alone
#   long    takes long, at least with sanitizers: is begun first where nothing is known of earlier runs
#   tsan    worth running under the thread sanitizer
#   vm      boots a virtual machine: run by .ci/run, not by tools/test
function(tapeback_test_properties name labels timeout)
  if(labels)
    set_tests_properties(${name} PROPERTIES LABELS "${labels}")
  endif()
  if(timeout)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout})
  endif()
endfunction()

# All benchmarks. Not part of `all`: who runs the tests does not wait for them.
add_custom_target(benches)

# tapeback_benchmark(NAME SOURCES … DEPENDS …): a program in bin/bench, built by its name or by the target `benches`.
function(tapeback_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/bench)
  add_dependencies(benches ${name})
endfunction()

# All libFuzzer programs.
add_custom_target(fuzzers)

# tapeback_fuzzer(NAME SOURCE f.cpp DEPENDS …): f.cpp defines LLVMFuzzerTestOneInput. With TAPEBACK_FUZZ
# it becomes a libFuzzer program; always, it becomes a test that runs tests/fuzz/corpus/NAME/* once.
function(tapeback_fuzzer name)
  cmake_parse_arguments(ARG "" "SOURCE" "DEPENDS" ${ARGN})
  if(TAPEBACK_FUZZ)
    add_executable(fuzz-${name} ${ARG_SOURCE})
    tapeback_configure(fuzz-${name})
    target_compile_options(fuzz-${name} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz-${name} PRIVATE ${ARG_DEPENDS})
    set_target_properties(fuzz-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/fuzz)
    add_dependencies(fuzzers fuzz-${name})
  endif()
  add_executable(corpus-${name} ${ARG_SOURCE} ${PROJECT_SOURCE_DIR}/tests/fuzz/CorpusMain.cpp)
  tapeback_configure_test(corpus-${name})
  target_link_libraries(corpus-${name} PRIVATE ${ARG_DEPENDS})
  target_compile_definitions(corpus-${name} PRIVATE
    TAPEBACK_CORPUS_DIR="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  set_target_properties(corpus-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  add_test(NAME corpus-${name} COMMAND corpus-${name})
endfunction()
