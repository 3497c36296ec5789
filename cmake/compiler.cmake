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

# Each file costs more than a second for torch's headers alone. Families stay by themselves: they are written apart from
# each other, and their local names may meet.
function(npu_unity target)
  if(NPU_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
