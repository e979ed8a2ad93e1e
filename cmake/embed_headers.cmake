# cmake -DROOTS=a;b -DFOLDER=. -DSTANDARD=x -DOUTPUT=y.cpp -DDEPENDENCIES=y.d -P embed_headers.cmake
#
# Writes headers and all that they include as strings into a source file. What is neither in src/ nor in include/ is of the standard
# library, which the compiler at run time does not have: STANDARD stands in for it.
cmake_minimum_required(VERSION 3.25)
set(waiting ${ROOTS} ${STANDARD})
set(seen)
set(entries)
set(dependencies)
while(waiting)
  list(POP_FRONT waiting header)
  if(header IN_LIST seen)
    continue()
  endif()
  list(APPEND seen ${header})
  set(path)
  foreach(part src include)
    if(EXISTS ${FOLDER}/${part}/${header})
      set(path ${FOLDER}/${part}/${header})
    endif()
  endforeach()
  if(NOT path)
    string(APPEND entries "    {\"${header}\", \"#include \\\"${STANDARD}\\\"\\n\"},\n")
    continue()
  endif()
  list(APPEND dependencies ${path})
  file(READ ${path} text)
  string(APPEND entries "    {\"${header}\", R\"header(${text})header\"},\n")
  file(STRINGS ${path} includes REGEX "^ *#include [<\"]")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^ *#include [<\"]([^>\"]+)[>\"].*$" "\\1" include "${include}")
    list(APPEND waiting ${include})
  endforeach()
endwhile()
file(WRITE ${OUTPUT} "#include \"coupling/cuda/embedded_headers.hpp\"

namespace mac::cuda {

std::span<const EmbeddedHeader> embedded_headers() {
  static constexpr EmbeddedHeader headers[] = {
${entries}  };
  return headers;
}

}  // namespace mac::cuda
")
list(JOIN dependencies " " dependencies)
file(WRITE ${DEPENDENCIES} "${OUTPUT}: ${dependencies}\n")
