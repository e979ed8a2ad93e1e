# A tree without a repository of its own may lie inside another one, whose commit says nothing.
set(status 1)
if(EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --abbrev=12 --exclude=* --dirty  # -dirty: and changes
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
endif()
if(NOT status EQUAL 0)
  set(commit "unknown")
endif()
set(text "#include <mac/version.hpp>\n
namespace mac {\n
const char* version() { return \"${VERSION}\"; }\n
const char* commit() { return \"${commit}\"; }\n
}  // namespace mac\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
