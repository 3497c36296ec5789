# Compiler and linker flags that hold for every target of the project.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: C++20 needs g++ 11 or newer")
endif()

# The prefix map keeps the builder's paths out of the libraries: messages name csrc/..., wherever it was compiled.
add_compile_options(-Wall -Wextra "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${PROJECT_BINARY_DIR}/=")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fpch-preprocess)  # for ccache, which preprocesses sources by themselves
endif()
if(NPU_WERROR)
  add_compile_options(-Werror)
endif()
if(NPU_ABI_VERSION)
  add_compile_options(-fabi-version=${NPU_ABI_VERSION})
endif()

# A shared library must name everything it uses; extension modules (MODULE) take Python's symbols from the process.
string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,--no-undefined")

# Hardening. The sanitizers bring checks of their own and do without.
if(NOT NPU_SANITIZE)
  add_compile_options(-fstack-protector-strong)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    add_compile_options(-fcf-protection)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    add_compile_options(-mbranch-protection=standard)
  endif()
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")  # glibc's checks need the optimiser
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

if(NPU_SANITIZE)
  if(NOT NPU_SANITIZE MATCHES "^(address|thread)$")
    message(FATAL_ERROR "NPU_SANITIZE=${NPU_SANITIZE}: expected address or thread")
  endif()
  add_compile_options(-fsanitize=${NPU_SANITIZE} -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${NPU_SANITIZE})
endif()

# Each file costs more than a second for torch's headers alone, so wheels are compiled a group of files at a time. A group is
# named, not counted off: its files are one translation unit, in which local names may meet, and a new file changes no other.
# A file without a group is compiled by itself.
function(npu_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${NPU_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

# npu_unity_group(NAME FOLDER file...), the files without their extension
function(npu_unity_group name folder)
  list(TRANSFORM ARGN PREPEND "${folder}/")
  list(TRANSFORM ARGN APPEND ".cpp")
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# Generated files, and others that are written to be compiled together, six to a group.
function(npu_unity_batches name)
  set(count 0)
  foreach(file IN LISTS ARGN)
    math(EXPR batch "${count} / 6")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${name}_${batch})
    math(EXPR count "${count} + 1")
  endforeach()
endfunction()
