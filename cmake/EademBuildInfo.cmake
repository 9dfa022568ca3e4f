# What the program was built of, as src/contract/build_info.h declares it.
#
# Included, it gives eadem_build_info(target): one small source file is added to the target, and a step that writes it
# again, where its content changed, before each build. So the commit is always that of the sources, and nothing but
# this file is compiled again when it moves. Run as a script (cmake -P) it is that step.
#
# The commit is EADEM_COMMIT where that is set; else what git says of the source folder; else what `git archive` put
# into cmake/commit.txt; else "unknown".
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(EADEM_COMMIT "" CACHE STRING "The commit that the fingerprint tells; empty: ask git")
  set(EADEM_BUILD_INFO_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  # The version that a header defines as three numbers.
  function(eadem_header_version result header prefix)
    set(version "")
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${header} line REGEX "#define +${prefix}_${part} +[0-9]+")
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND version ${number})
    endforeach()
    list(JOIN version "." version)
    set(${result} ${version} PARENT_SCOPE)
  endfunction()

  function(eadem_build_info target)
    find_package(CURL 7.85 REQUIRED)
    find_package(ZLIB REQUIRED)
    find_package(OpenSSL 3.0 REQUIRED)
    find_package(nlohmann_json 3.10 REQUIRED)
    find_package(CLI11 REQUIRED)
    find_path(EADEM_TOML_INCLUDE toml++/impl/version.h REQUIRED)
    find_path(EADEM_BOOST_INCLUDE boost/beast/http/parser.hpp REQUIRED)
    eadem_header_version(toml ${EADEM_TOML_INCLUDE}/toml++/impl/version.h TOML_LIB)
    file(STRINGS ${EADEM_BOOST_INCLUDE}/boost/version.hpp boost REGEX "#define BOOST_LIB_VERSION ")
    string(REGEX MATCH "[0-9]+_[0-9]+(_[0-9]+)?" boost "${boost}")
    string(REPLACE "_" "." boost "${boost}")
    if(boost MATCHES "^[0-9]+\\.[0-9]+$")
      string(APPEND boost ".0")
    endif()
    # name|version|licence; the script adds the Rust crates.
    set(libraries
      "boost|${boost}|BSL-1.0" "cli11|${CLI11_VERSION}|BSD-3-Clause" "curl|${CURL_VERSION_STRING}|curl"
      "nlohmann-json|${nlohmann_json_VERSION}|MIT" "openssl|${OPENSSL_VERSION}|Apache-2.0" "tomlplusplus|${toml}|MIT"
      "zlib|${ZLIB_VERSION_STRING}|Zlib")
    list(JOIN libraries "," libraries)
    find_package(Git QUIET)
    string(STRIP "${CMAKE_CXX_FLAGS}" flags)
    if(EADEM_SANITIZE)
      string(STRIP "${flags} -fsanitize=${EADEM_SANITIZE}" flags)
    endif()
    set(output ${CMAKE_BINARY_DIR}/contract/build_info.cc)
    set(arguments
      -D OUTPUT=${output} -D SOURCE=${CMAKE_SOURCE_DIR} -D VERSION=${PROJECT_VERSION} -D "GIT=${GIT_EXECUTABLE}"
      -D "COMMIT=${EADEM_COMMIT}" -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
      -D "BUILD_TYPE=${CMAKE_BUILD_TYPE}" -D "FLAGS=${flags}" -D "LIBRARIES=${libraries}"
      -P ${EADEM_BUILD_INFO_SCRIPT})
    execute_process(COMMAND ${CMAKE_COMMAND} ${arguments} COMMAND_ERROR_IS_FATAL ANY)
    add_custom_target(eadem_build_info_step COMMAND ${CMAKE_COMMAND} ${arguments} BYPRODUCTS ${output} VERBATIM)
    target_sources(${target} PRIVATE ${output})
    add_dependencies(${target} eadem_build_info_step)
  endfunction()
  return()
endif()
cmake_minimum_required(VERSION 3.25)

function(ask_git result)
  execute_process(COMMAND ${GIT} --no-optional-locks -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE answer ERROR_QUIET
                  RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(answer "failed")
  endif()
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()

if(NOT COMMIT AND GIT)
  ask_git(top rev-parse --show-toplevel)
  file(REAL_PATH ${SOURCE} source)
  if(top STREQUAL source)  # else the sources lie, without a history of their own, inside another repository
    ask_git(COMMIT rev-parse HEAD)
    ask_git(changes status --porcelain --untracked-files=no)
    if(COMMIT STREQUAL "failed")
      set(COMMIT "")
    elseif(changes)
      string(APPEND COMMIT "-modified")
    endif()
  endif()
endif()
if(NOT COMMIT)
  file(STRINGS ${SOURCE}/cmake/commit.txt COMMIT REGEX "^[0-9a-f]+$")
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()

# The crates that rust/text names itself; what those bring in is in Cargo.lock.
set(licence_ahash "MIT OR Apache-2.0")
set(licence_blake3 "CC0-1.0 OR Apache-2.0")
set(licence_jiff "Unlicense OR MIT")
set(licence_llguidance "MIT")
set(licence_minijinja "Apache-2.0")
set(licence_minijinja-contrib "Apache-2.0")
set(licence_serde "MIT OR Apache-2.0")
set(licence_serde_json "MIT OR Apache-2.0")
set(licence_tokenizers "Apache-2.0")
set(licence_toktrie "MIT")
file(READ ${SOURCE}/rust/text/Cargo.toml manifest)
file(READ ${SOURCE}/rust/text/Cargo.lock lock)
string(REGEX REPLACE ".*\\[dependencies\\]\n" "" manifest "${manifest}")
string(REGEX REPLACE "\n\\[.*" "" manifest "${manifest}")
string(REGEX MATCHALL "(^|\n)[a-z0-9_-]+ =" names "${manifest}")
set(table "")
set(text_libraries "")
foreach(name ${names})
  string(REGEX MATCH "[a-z0-9_-]+" name "${name}")
  if(NOT DEFINED licence_${name})
    message(FATAL_ERROR "rust/text/Cargo.toml names the crate ${name}: add its licence to cmake/EademBuildInfo.cmake")
  endif()
  if(NOT lock MATCHES "\nname = \"${name}\"\nversion = \"([^\"]+)\"")
    message(FATAL_ERROR "rust/text/Cargo.lock has no crate ${name}: run cargo build there")
  endif()
  set(version ${CMAKE_MATCH_1})
  string(APPEND table "    {\"${name}\", \"${version}\", \"pkg:cargo/${name}@${version}\", \"${licence_${name}}\"},\n")
  if(name MATCHES "^(llguidance|minijinja|tokenizers)$")
    list(APPEND text_libraries ${name}-${version})
  endif()
endforeach()
list(JOIN text_libraries " " text_libraries)
string(REPLACE "," ";" LIBRARIES "${LIBRARIES}")
foreach(library ${LIBRARIES})
  string(REPLACE "|" ";" library "${library}")
  list(GET library 0 name)
  list(GET library 1 version)
  list(GET library 2 licence)
  string(APPEND table "    {\"${name}\", \"${version}\", \"pkg:generic/${name}@${version}\", \"${licence}\"},\n")
endforeach()

string(REPLACE "\\" "\\\\" FLAGS "${FLAGS}")
string(REPLACE "\"" "\\\"" FLAGS "${FLAGS}")
set(content "// Made by cmake/EademBuildInfo.cmake.
#include \"contract/build_info.h\"

namespace eadem::contract {
namespace {

constexpr BuiltWith kLibraries[] = {
${table}};

constexpr BuildInfo kBuildInfo = {\"${VERSION}\", \"${COMMIT}\", \"${COMPILER}\", \"${BUILD_TYPE}\", \"${FLAGS}\",
                                  \"${text_libraries}\", kLibraries};

}  // namespace

const BuildInfo& build_info() { return kBuildInfo; }

}  // namespace eadem::contract
")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT content STREQUAL before)
  file(WRITE ${OUTPUT} "${content}")
endif()
