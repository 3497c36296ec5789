# C++ tests: each folder below has its own CMakeLists.txt. Run them with `ctest --test-dir BUILD`.
find_package(GTest)
if(NOT GTest_FOUND)
  message(WARNING "GoogleTest not found, C++ tests are left out; cure: apt-get install libgtest-dev")
  return()
endif()
enable_testing()
include(GoogleTest)

foreach(suite abi softnpu/runtime softnpu/comm softnpu/kernels csrc fuzz)
  if(EXISTS "${PROJECT_SOURCE_DIR}/test/${suite}/CMakeLists.txt")
    add_subdirectory(test/${suite})
  endif()
endforeach()
