# C++ tests: each folder below has its own CMakeLists.txt. Run them with `ctest --test-dir BUILD`.
if(NOT GTest_FOUND)
  message(WARNING "GoogleTest not found, C++ tests are left out; cure: apt-get install libgtest-dev")
  return()
endif()
include(GoogleTest)

foreach(suite softnpu/runtime softnpu/comm softnpu/kernels csrc fuzz)
  if(EXISTS "${PROJECT_SOURCE_DIR}/test/${suite}/CMakeLists.txt")
    add_subdirectory(test/${suite})
  endif()
endforeach()
