# The engine for AMD GPUs: ROCm 6 or 7, or any clang that knows the targets beside the headers and
# the library of HIP's runtime. Kernels use the compiler's builtins alone, so no device libraries
# are needed, and CMake's language HIP, which insists on them, is not used.

# AMD GPUs that there are tiles for: CDNA 2, 3 and 4, RDNA 3 and 4.
set(RAGGEDDNN_AMD_TARGET "^gfx(90a|942|950|11[0-9][0-9]|120[0-9])$")

# What the kernel driver says of each node, e.g. 90402 for gfx942 and 90010 for gfx90a; 0 is a CPU.
function(raggeddnn_present_amd_targets found)
  set(targets "")
  file(GLOB nodes /sys/class/kfd/kfd/topology/nodes/*/properties)
  foreach(node ${nodes})
    file(STRINGS ${node} version REGEX "^gfx_target_version ")
    string(REGEX REPLACE "^gfx_target_version " "" version "${version}")
    if(version)
      math(EXPR major "${version} / 10000")
      math(EXPR minor "${version} / 100 % 100")
      math(EXPR step "${version} % 100" OUTPUT_FORMAT HEXADECIMAL)
      string(REPLACE "0x" "" step ${step})
      list(APPEND targets "gfx${major}${minor}${step}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES targets)
  list(FILTER targets INCLUDE REGEX ${RAGGEDDNN_AMD_TARGET})
  set(${found} "${targets}" PARENT_SCOPE)
endfunction()

# Sets RAGGEDDNN_HIP_COMPILER, and `targets` to those of the GPUs present if it is empty.
function(raggeddnn_find_rocm targets)
  if(NOT ${targets})
    raggeddnn_present_amd_targets(${targets})
    set(${targets} "${${targets}}" PARENT_SCOPE)
  endif()
  set(unknown ${${targets}})
  list(FILTER unknown EXCLUDE REGEX ${RAGGEDDNN_AMD_TARGET})
  if(unknown)
    message(FATAL_ERROR "RAGGEDDNN_GPU_TARGETS has ${unknown}, "
      "expected gfx90a, gfx942, gfx950, gfx11xx or gfx120x")
  endif()
  set(roots ${ROCM_PATH} $ENV{ROCM_PATH} /opt/rocm)
  find_path(RAGGEDDNN_HIP_INCLUDE_DIR hip/hip_runtime_api.h HINTS ${roots} PATH_SUFFIXES include)
  # Of the same installation: types of the interface differ between versions.
  get_filename_component(root "${RAGGEDDNN_HIP_INCLUDE_DIR}" DIRECTORY)
  find_library(RAGGEDDNN_HIP_LIBRARY amdhip64 PATHS "${root}"
    PATH_SUFFIXES lib lib64 lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
  if(NOT ${targets} OR NOT RAGGEDDNN_HIP_INCLUDE_DIR OR NOT RAGGEDDNN_HIP_LIBRARY)
    return()
  endif()
  # CMAKE_HIP_COMPILER if it is set, else the first that knows every target.
  set(names amdclang++ clang++ clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 hipcc)
  if(CMAKE_HIP_COMPILER)
    set(names ${CMAKE_HIP_COMPILER})
  endif()
  list(TRANSFORM ${targets} PREPEND "--offload-arch=" OUTPUT_VARIABLE architectures)
  foreach(name ${names})
    unset(found CACHE)
    find_program(found ${name} HINTS ${roots} PATH_SUFFIXES lib/llvm/bin llvm/bin bin NO_CACHE)
    if(found)
      execute_process(
        COMMAND ${found} -x hip -std=c++20 ${architectures} --cuda-device-only -nogpuinc -nogpulib
                -fsyntax-only /dev/null
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
      if(status EQUAL 0)
        set(RAGGEDDNN_HIP_COMPILER ${found} PARENT_SCOPE)
        return()
      endif()
      message(STATUS "GPU engine: ${found} does not do: ${said}")
    endif()
    unset(found)
  endforeach()
endfunction()

function(raggeddnn_add_rocm_engine targets)
  message(STATUS "GPU engine: by ${RAGGEDDNN_HIP_COMPILER}, with ${RAGGEDDNN_HIP_LIBRARY}")
  list(TRANSFORM targets PREPEND "--offload-arch=" OUTPUT_VARIABLE architectures)
  list(JOIN targets "," listed)
  # Before the system's folders, which may have HIP of another version; but those keep their place,
  # since C++'s headers ask for the next one of a name there.
  set(include_flag -isystem)
  if(RAGGEDDNN_HIP_INCLUDE_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set(include_flag -idirafter)
  endif()
  set(flags -x hip -std=c++20 -O3 -fPIC -fvisibility=hidden -nogpuinc -nogpulib ${architectures}
    -D__HIP_PLATFORM_AMD__ "-DRAGGEDDNN_GPU_TARGETS=\"${listed}\""
    -I${PROJECT_SOURCE_DIR}/cpp ${include_flag} ${RAGGEDDNN_HIP_INCLUDE_DIR} -Wall -Wextra
    # Instructions of the architectures that the compiler is not at work on have empty bodies; and
    # LDS may keep a kernel from the two waves a SIMD that it has the registers for.
    -Wno-unused-parameter -Wno-pass-failed)
  if(RAGGEDDNN_WERROR)
    list(APPEND flags -Werror)
  endif()
  set(objects "")
  foreach(source ${instances})
    get_filename_component(stem ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${stem}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${RAGGEDDNN_HIP_COMPILER} ${flags} -MD -MF ${object}.d -MT ${object}
              -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "Building HIP object ${stem}.o" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  raggeddnn_add_engine(raggeddnn_hip ${host_sources} ${objects})
  target_link_libraries(raggeddnn_hip PRIVATE ${RAGGEDDNN_HIP_LIBRARY})
  set_target_properties(raggeddnn_hip PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  if(RAGGEDDNN_GPU_WHEEL)  # for other machines, where ROCm is where it is by default
    set_target_properties(raggeddnn_hip PROPERTIES INSTALL_RPATH /opt/rocm/lib)
  endif()
endfunction()
