# CUDA by the bare compiler: nvcc as a custom command for each .cu, since CMake's own language support does not know the
# layout of the Python wheels (`./dev setup --cuda` puts them into .venv-cuda; their libraries are in lib, not lib64).
# EADEM_CUDA=ON looks for nvcc there, then in CUDA_HOME, the PATH and /usr/local/cuda. Without one the build goes on
# with the stubs of src/kernels/no_cuda, and EADEM_HAVE_CUDA is OFF.
option(EADEM_CUDA "Build the CUDA backend, where nvcc 13 is found" OFF)
option(EADEM_RACECHECK "Build device programs for compute-sanitizer's racecheck (docs/cuda.md)" OFF)
set(EADEM_CUDA_FLAGS "" CACHE STRING "More flags for nvcc, e.g. '-Xptxas;-v'")
set(EADEM_HAVE_CUDA OFF)
set(EADEM_CUDA_STATE "EADEM_CUDA was off when it was built (./dev setup --cuda, ./dev build cuda)")

if(EADEM_CUDA)
  set(EADEM_CUDA_STATE "no nvcc was found when it was built (./dev setup --cuda)")
  file(GLOB eadem_cuda_wheels ${CMAKE_SOURCE_DIR}/.venv-cuda/lib/python3*/site-packages/nvidia/cu13/bin)
  find_program(EADEM_NVCC nvcc HINTS ${eadem_cuda_wheels} $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
  if(EADEM_NVCC)
    get_filename_component(eadem_cuda_root ${EADEM_NVCC} DIRECTORY)
    get_filename_component(eadem_cuda_root ${eadem_cuda_root} DIRECTORY)
    find_path(EADEM_CUDA_INCLUDE cuda_runtime_api.h HINTS ${eadem_cuda_root}/include
              ${eadem_cuda_root}/targets/x86_64-linux/include REQUIRED NO_DEFAULT_PATH)
    find_library(EADEM_CUDART cudart_static HINTS ${eadem_cuda_root}/lib ${eadem_cuda_root}/lib64
                 ${eadem_cuda_root}/targets/x86_64-linux/lib REQUIRED NO_DEFAULT_PATH)
    set(EADEM_HAVE_CUDA ON)
    set(EADEM_CUDA_STATE "")
    message(STATUS "CUDA: ${EADEM_NVCC}")
  else()
    message(WARNING "EADEM_CUDA is on, but ${EADEM_CUDA_STATE}: building without the CUDA backend")
  endif()
endif()

# eadem_cuda_objects(RESULT a.cu ...): the object files of device sources of this folder. Every fma is written out, so
# -fmad=false; the other flags are nvcc's defaults said aloud (docs/numerics.md).
function(eadem_cuda_objects result)
  set(objects "")
  set(flags ${EADEM_CUDA_FLAGS})
  if(EADEM_RACECHECK)
    list(APPEND flags -DEADEM_RACECHECK)
  endif()
  set(launcher "")
  if(CCACHE)
    set(launcher ${CCACHE})
  endif()
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    cmake_path(GET object PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${launcher} ${EADEM_NVCC} -c ${path} -o ${object} -MD -MF ${object}.d -ccbin ${CMAKE_CXX_COMPILER}
              -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/tests
              -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -fmad=false -ftz=false -prec-div=true
              -prec-sqrt=true -lineinfo -Xcompiler=-Wall,-Wextra,-fPIC,-ffp-contract=off ${flags}
      DEPENDS ${path}
      DEPFILE ${object}.d
      COMMENT "nvcc ${name}"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
