# The engine for NVIDIA GPUs: CUDA 12 or 13, whose runtime is linked in.
include(CheckLanguage)

# Sets CMAKE_CUDA_COMPILER, and `targets` to those of the GPUs present if it is empty.
function(raggeddnn_find_cuda targets)
  check_language(CUDA)
  if(${targets} OR NOT CMAKE_CUDA_COMPILER)
    return()
  endif()
  find_program(NVIDIA_SMI nvidia-smi)
  set(present "")
  if(NVIDIA_SMI)
    execute_process(COMMAND ${NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE present ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" present "${present}")
    list(REMOVE_DUPLICATES present)
    string(REPLACE "." "" present "${present}")
  endif()
  set(${targets} "${present}" PARENT_SCOPE)
endfunction()

function(raggeddnn_add_cuda_engine targets)
  set(builds_hopper false)
  if("90a" IN_LIST targets)
    set(builds_hopper true)
  endif()
  set_source_files_properties(${instances} PROPERTIES LANGUAGE CUDA)
  raggeddnn_add_engine(raggeddnn_hip ${host_sources} ${instances})
  set_target_properties(raggeddnn_hip PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_ARCHITECTURES "${targets}"
    CUDA_RUNTIME_LIBRARY Static)
  list(JOIN targets "," listed)
  target_compile_definitions(raggeddnn_hip PRIVATE
    RAGGEDDNN_GPU_TARGETS="${listed}" RAGGEDDNN_BUILDS_HOPPER=${builds_hopper})
endfunction()
