# The Rust library of rust/text as the imported target eadem_text_rust. Cargo is Debian's rustc-web/cargo-web or newer; its
# output folder is CARGO_TARGET_DIR where the environment sets it when CMake first configures, so that several build
# trees share one compilation.
set(EADEM_CARGO_MINIMUM 1.87)
set(EADEM_RUST_DIR ${CMAKE_SOURCE_DIR}/rust/text)

find_program(EADEM_CARGO cargo HINTS $ENV{HOME}/.cargo/bin REQUIRED)
execute_process(COMMAND ${EADEM_CARGO} --version WORKING_DIRECTORY ${EADEM_RUST_DIR} OUTPUT_VARIABLE eadem_cargo_version
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "[0-9]+\\.[0-9]+" eadem_cargo_version "${eadem_cargo_version}")
if(eadem_cargo_version VERSION_LESS EADEM_CARGO_MINIMUM)
  message(FATAL_ERROR "cargo ${eadem_cargo_version} is older than ${EADEM_CARGO_MINIMUM}: run ./dev setup, or install rustc-web and cargo-web")
endif()

set(eadem_cargo_default ${CMAKE_BINARY_DIR}/cargo)
if(DEFINED ENV{CARGO_TARGET_DIR})
  set(eadem_cargo_default $ENV{CARGO_TARGET_DIR})
endif()
set(EADEM_CARGO_TARGET_DIR ${eadem_cargo_default} CACHE PATH "Where cargo compiles")
set(eadem_rust_archive ${EADEM_CARGO_TARGET_DIR}/release/libeadem_text.a)

# Ninja calls cargo only when a source changed. The copy keeps a build tree whole when another one, of other sources,
# shares the folder of cargo; for the same reason cargo's own dependency file is of no use.
file(GLOB eadem_rust_sources CONFIGURE_DEPENDS ${EADEM_RUST_DIR}/src/*.rs)
set(eadem_rust_copy ${CMAKE_BINARY_DIR}/rust/libeadem_text.a)
add_custom_command(
  OUTPUT ${eadem_rust_copy}
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${EADEM_CARGO_TARGET_DIR} ${EADEM_CARGO} build --locked --release --lib
          --manifest-path ${EADEM_RUST_DIR}/Cargo.toml
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/rust
  COMMAND ${CMAKE_COMMAND} -E copy ${eadem_rust_archive} ${eadem_rust_copy}
  DEPENDS ${eadem_rust_sources} ${EADEM_RUST_DIR}/Cargo.toml ${EADEM_RUST_DIR}/Cargo.lock
  COMMENT "cargo build --locked --release (rust/text)"
  USES_TERMINAL
  VERBATIM)
add_custom_target(eadem_text_cargo DEPENDS ${eadem_rust_copy})

add_library(eadem_text_rust STATIC IMPORTED GLOBAL)
set_target_properties(eadem_text_rust PROPERTIES
  IMPORTED_LOCATION ${eadem_rust_copy}
  INTERFACE_INCLUDE_DIRECTORIES ${EADEM_RUST_DIR}/include)
target_link_libraries(eadem_text_rust INTERFACE pthread ${CMAKE_DL_LIBS} m)
# The archive's symbols stay inside the program. Those of other archives do not: a sanitizer's malloc must be seen by the
# shared libraries too, or memory is given back to another allocator than it came from.
target_link_options(eadem_text_rust INTERFACE -Wl,--exclude-libs,libeadem_text.a)
