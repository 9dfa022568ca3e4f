# cmake -D DIST=folder -D OUTPUT=file.cc -P EademWebEmbed.cmake: writes the files of DIST as arrays of bytes, with the
# content type that their suffix stands for and a tag made of their SHA-256. index.html is served at `/`.
set(type_.html "text/html; charset=utf-8")
set(type_.js "text/javascript; charset=utf-8")
set(type_.css "text/css; charset=utf-8")
set(type_.svg "image/svg+xml")
set(type_.txt "text/plain; charset=utf-8")

file(GLOB files RELATIVE ${DIST} ${DIST}/*)
list(SORT files)
set(arrays "")
set(table "")
set(number 0)
foreach(file ${files})
  get_filename_component(suffix ${file} LAST_EXT)
  if(NOT DEFINED type_${suffix})
    message(FATAL_ERROR "web/dist/${file}: no content type is known for '${suffix}'; add it to EademWebEmbed.cmake")
  endif()
  file(READ ${DIST}/${file} bytes HEX)
  file(SHA256 ${DIST}/${file} digest)
  string(SUBSTRING ${digest} 0 32 digest)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  set(path "/${file}")
  if(file STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND arrays "// ${file}\nconstexpr unsigned char kFile${number}[] = {${bytes}};\n\n")
  string(APPEND table "    {\"${path}\", \"${type_${suffix}}\", \"\\\"${digest}\\\"\", view(kFile${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Made by cmake/EademWebEmbed.cmake from web/dist.
#include \"server/page.h\"

namespace eadem::server {
namespace {

${arrays}template <size_t kSize>
std::string_view view(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

}  // namespace

std::span<const Asset> assets() {
  static const Asset kAssets[] = {
${table}  };
  return kAssets;
}

}  // namespace eadem::server
")
