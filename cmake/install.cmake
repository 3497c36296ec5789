# The layout of the installed package. Every library finds its neighbours and torch relative to itself only.
#   torch_npu/**.py  _C.<abi>.so  lib/libtorch_npu.so  include/  softnpu/{lib64,runtime,compiler,opp,tools}  softnpu/set_env.sh
set(package torch_npu)

# Installs every shared library defined in `folder` or below. OPTIONAL, so that a partial build can be tried out.
function(npu_install_libraries folder destination rpath)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "SHARED_LIBRARY")
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "${rpath}")
      install(TARGETS ${target} LIBRARY DESTINATION ${destination} OPTIONAL)
    elseif(type STREQUAL "MODULE_LIBRARY")  # the Python extension module
      set_target_properties(${target} PROPERTIES
        INSTALL_RPATH "$ORIGIN/lib:$ORIGIN/../torch/lib" LIBRARY_OUTPUT_DIRECTORY "${NPU_PACKAGE_DIR}")
      install(TARGETS ${target} LIBRARY DESTINATION ${package} OPTIONAL)
    endif()
  endforeach()
  get_property(children DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS children)
    npu_install_libraries("${child}" ${destination} "${rpath}")
  endforeach()
endfunction()

npu_install_libraries("${PROJECT_SOURCE_DIR}/csrc" ${package}/lib "$ORIGIN:$ORIGIN/../../torch/lib")
npu_install_libraries("${PROJECT_SOURCE_DIR}/softnpu" ${package}/softnpu/lib64 "$ORIGIN:$ORIGIN/../../../torch/lib")

install(DIRECTORY torch_npu/ DESTINATION ${package} FILES_MATCHING
        PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "dtypes.txt" PATTERN "compatibility.json" PATTERN "page.html" PATTERN "__pycache__" EXCLUDE
        REGEX "/torch_npu/(include|lib|softnpu)$" EXCLUDE)  # links of `pip install -e .`
install(DIRECTORY abi/ DESTINATION ${package}/include FILES_MATCHING PATTERN "*.h")

configure_file(cmake/set_env.sh "${NPU_PACKAGE_DIR}/softnpu/set_env.sh" COPYONLY)
install(FILES cmake/set_env.sh DESTINATION ${package}/softnpu)
configure_file(cmake/ms_fmk_transplt.py "${NPU_PACKAGE_DIR}/softnpu/tools/ms_fmk_transplt/ms_fmk_transplt.py" COPYONLY)
install(PROGRAMS cmake/ms_fmk_transplt.py DESTINATION ${package}/softnpu/tools/ms_fmk_transplt)
# Clients look for these folders of a CANN toolkit; a file in each keeps it in the wheel.
foreach(part runtime compiler opp)
  file(WRITE "${NPU_PACKAGE_DIR}/softnpu/${part}/version.info" "Version=${PROJECT_VERSION}\nprovider=softnpu\n")
  install(FILES "${NPU_PACKAGE_DIR}/softnpu/${part}/version.info" DESTINATION ${package}/softnpu/${part})
endforeach()

# The distribution `softnpu` (softnpu/python): `cmake --install BUILD --component softnpu --prefix P` lays out P/softnpu, nothing else does.
# Its toolkit lies as deep as torch_npu/softnpu, so the same libraries find torch on the same way.
set(component COMPONENT softnpu EXCLUDE_FROM_ALL)
set(toolkit softnpu/toolkit)
add_custom_target(softnpu_distribution DEPENDS softnpu softnpu_shims opapi)  # test/abi adds its program
function(npu_install_softnpu folder)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "SHARED_LIBRARY")
      install(TARGETS ${target} LIBRARY DESTINATION ${toolkit}/lib64 ${component})
    endif()
  endforeach()
endfunction()
npu_install_softnpu("${PROJECT_SOURCE_DIR}/softnpu")
npu_install_softnpu("${PROJECT_SOURCE_DIR}/softnpu/kernels")
configure_file(cmake/use_softnpu.sh "${NPU_PACKAGE_DIR}/softnpu/use_softnpu.sh" COPYONLY)
install(FILES cmake/set_env.sh cmake/use_softnpu.sh DESTINATION ${toolkit} ${component})
foreach(part runtime compiler opp)
  install(FILES "${NPU_PACKAGE_DIR}/softnpu/${part}/version.info" DESTINATION ${toolkit}/${part} ${component})
endforeach()
# As in CANN: #include <acl/acl.h>, <hccl/hccl.h>.
install(DIRECTORY abi/ DESTINATION ${toolkit}/include/acl ${component} FILES_MATCHING PATTERN "*.h")
file(WRITE "${PROJECT_BINARY_DIR}/hccl.h" "#include \"../acl/hccl.h\"\n")
install(FILES "${PROJECT_BINARY_DIR}/hccl.h" DESTINATION ${toolkit}/include/hccl ${component})
install(FILES LICENSE DESTINATION softnpu ${component})
