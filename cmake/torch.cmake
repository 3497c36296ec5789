# Imported targets for the torch package of the chosen Python, without torch's own CMake files (and their flags).
#   torch::openmp  the OpenMP runtime that torch itself uses, for at::parallel_for   softnpu/kernels
#   torch::cpu     headers, libtorch_cpu, libc10          csrc/, softnpu/kernels
#   torch::python  torch::cpu + libtorch_python, Python.h  csrc/python only
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE NPU_TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no torch; cure: ${Python_EXECUTABLE} -m pip install torch==${PROJECT_VERSION}")
endif()
file(STRINGS "${NPU_TORCH_ROOT}/version.py" torch_version REGEX "^__version__ = ")
string(REGEX REPLACE ".*'([0-9]+\\.[0-9]+\\.[0-9]+).*" "\\1" torch_version "${torch_version}")
if(NOT torch_version VERSION_EQUAL PROJECT_VERSION)
  message(FATAL_ERROR "torch ${torch_version} found in ${NPU_TORCH_ROOT}; cure: ${Python_EXECUTABLE} -m pip install torch==${PROJECT_VERSION}")
endif()

function(npu_torch_library name)
  add_library(torch::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(torch::${name} PROPERTIES IMPORTED_LOCATION "${NPU_TORCH_ROOT}/lib/lib${name}.so")
endfunction()
npu_torch_library(c10)
npu_torch_library(torch_cpu)
npu_torch_library(torch_python)

add_library(torch::cpu INTERFACE IMPORTED GLOBAL)
target_include_directories(torch::cpu SYSTEM INTERFACE
  "${NPU_TORCH_ROOT}/include" "${NPU_TORCH_ROOT}/include/torch/csrc/api/include")
target_compile_definitions(torch::cpu INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
target_link_libraries(torch::cpu INTERFACE torch::torch_cpu torch::c10)

add_library(torch::python INTERFACE IMPORTED GLOBAL)
target_include_directories(torch::python SYSTEM INTERFACE ${Python_INCLUDE_DIRS})
target_link_libraries(torch::python INTERFACE torch::cpu torch::torch_python)

# A second OpenMP runtime in the process would bring threads of its own. The thread sanitizer knows neither.
file(GLOB openmp_runtime "${NPU_TORCH_ROOT}/lib/libgomp*.so*" "${NPU_TORCH_ROOT}.libs/libgomp*.so*")
add_library(torch::openmp INTERFACE IMPORTED GLOBAL)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND openmp_runtime AND NOT NPU_SANITIZE STREQUAL "thread")
  list(GET openmp_runtime 0 openmp_runtime)
  target_compile_options(torch::openmp INTERFACE -fopenmp)
  target_link_libraries(torch::openmp INTERFACE "${openmp_runtime}")
endif()
