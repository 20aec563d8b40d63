# The few kinds of target the project has. Every target gets the same warnings and sanitizers here,
# per target and not through CMAKE_CXX_FLAGS (which breaks the Cap'n Proto package's own checks).

function(tapeback_configure target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TAPEBACK_WERROR}>:-Werror>)
  if(TAPEBACK_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${TAPEBACK_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${TAPEBACK_SANITIZE})
    target_compile_definitions(${target} PRIVATE TAPEBACK_SANITIZED)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/SanitizerDefaults.c)
    endif()
  endif()
  if(TAPEBACK_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# tapeback_library(NAME SOURCES a.cpp … DEPENDS lib …): a static library of ours.
function(tapeback_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# tapeback_program(NAME SOURCES … DEPENDS …): an executable in bin/.
function(tapeback_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
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
endfunction()

# tapeback_test(NAME SOURCES … DEPENDS … LABELS …): a doctest program in bin/tests, known to ctest and
# to tools/run-tests, which sums the counts that the programs themselves print.
function(tapeback_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/TestMain.cpp)
  tapeback_configure(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} doctest::doctest)
  target_compile_definitions(${name} PRIVATE
    TAPEBACK_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TAPEBACK_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()

# tapeback_fuzzer(NAME SOURCE f.cpp DEPENDS …): f.cpp defines LLVMFuzzerTestOneInput. With TAPEBACK_FUZZ
# it becomes a libFuzzer program; always, it becomes a test that runs tests/fuzz/corpus/NAME/* once.
function(tapeback_fuzzer name)
  cmake_parse_arguments(ARG "" "SOURCE" "DEPENDS" ${ARGN})
  if(TAPEBACK_FUZZ)
    add_executable(fuzz-${name} ${ARG_SOURCE})
    tapeback_configure(fuzz-${name})
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz-${name} PRIVATE ${ARG_DEPENDS})
    set_target_properties(fuzz-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/fuzz)
  endif()
  add_executable(corpus-${name} ${ARG_SOURCE} ${PROJECT_SOURCE_DIR}/tests/fuzz/CorpusMain.cpp)
  tapeback_configure(corpus-${name})
  target_link_libraries(corpus-${name} PRIVATE ${ARG_DEPENDS} doctest::doctest)
  target_compile_definitions(corpus-${name} PRIVATE
    TAPEBACK_CORPUS_DIR="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
  set_target_properties(corpus-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  add_test(NAME corpus-${name} COMMAND corpus-${name})
endfunction()
