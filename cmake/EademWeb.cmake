# eadem_embed_page(target): puts the built page (web/dist, committed) into a library, as src/server/page.h declares it.
# No node is needed for this; web/README.md says how web/dist is made, and a test that it was made from the sources.
set(EADEM_WEB_DIST ${CMAKE_SOURCE_DIR}/web/dist)
set(EADEM_WEB_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/EademWebEmbed.cmake)

function(eadem_embed_page target)
  file(GLOB files CONFIGURE_DEPENDS ${EADEM_WEB_DIST}/*)
  set(output ${CMAKE_BINARY_DIR}/web/page_assets.cc)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D DIST=${EADEM_WEB_DIST} -D OUTPUT=${output} -P ${EADEM_WEB_SCRIPT}
    DEPENDS ${files} ${EADEM_WEB_SCRIPT}
    COMMENT "Embedding the page (web/dist)"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
