# cmake -D FOLDER=folder -D FUNCTION=a::b::c -D OUTPUT=file.cc -P EademEmbedFiles.cmake: writes the files of FOLDER as arrays of bytes, each with
# its name and its SHA-256.
file(GLOB files LIST_DIRECTORIES false RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT files)
if(NOT files)
  message(FATAL_ERROR "${FOLDER} holds no file to embed")
endif()
string(REGEX REPLACE "::[^:]*$" "" namespace ${FUNCTION})
string(REGEX REPLACE ".*::" "" name ${FUNCTION})
set(arrays "")
set(table "")
set(number 0)
foreach(file ${files})
  file(READ ${FOLDER}/${file} bytes HEX)
  file(SHA256 ${FOLDER}/${file} digest)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "// ${file}\nconstexpr unsigned char kFile${number}[] = {${bytes}};\n\n")
  string(APPEND table "    {\"${file}\", \"${digest}\", view(kFile${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Made by cmake/EademEmbedFiles.cmake.
#include <cstddef>
#include <span>

#include \"core/embedded_file.h\"

namespace ${namespace} {
namespace {

${arrays}template <size_t kSize>
std::string_view view(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

}  // namespace

std::span<const ::eadem::EmbeddedFile> ${name}() {
  static const ::eadem::EmbeddedFile kFiles[] = {
${table}  };
  return kFiles;
}

}  // namespace ${namespace}
")
