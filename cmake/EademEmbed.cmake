# eadem_embed(target FOLDER web/dist FUNCTION eadem::server::page_files): keeps the files of a folder (of the repository; no sub-folders) in a
# library, as `std::span<const EmbeddedFile> FUNCTION()` in the order of their names (src/core/embedded_file.h). Whoever uses it declares it.
set(EADEM_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/EademEmbedFiles.cmake)

function(eadem_embed target)
  cmake_parse_arguments(arg "" "FOLDER;FUNCTION" "" ${ARGN})
  file(GLOB files LIST_DIRECTORIES false CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${arg_FOLDER}/*)
  string(REGEX REPLACE ".*::" "" name ${arg_FUNCTION})
  set(output ${CMAKE_BINARY_DIR}/embedded/${name}.cc)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D FOLDER=${CMAKE_SOURCE_DIR}/${arg_FOLDER} -D FUNCTION=${arg_FUNCTION} -D OUTPUT=${output} -P ${EADEM_EMBED_SCRIPT}
    DEPENDS ${files} ${EADEM_EMBED_SCRIPT}
    COMMENT "Embedding ${arg_FOLDER}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
