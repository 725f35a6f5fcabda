# Decides whether the CUDA backend is built, and for which GPUs: sets IM2WIN_HAS_CUDA.
#
# CMAKE_CUDA_ARCHITECTURES chooses the architectures. Unset, it is the GPUs of this machine, or else
# compute capability 8.0, whose PTX the driver compiles for anything newer.

set(IM2WIN_HAS_CUDA FALSE)
if(NOT IM2WIN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "IM2WIN_CUDA is \"${IM2WIN_CUDA}\": expected AUTO, ON or OFF")
endif()
if(IM2WIN_CUDA STREQUAL OFF)
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(advice "no CUDA compiler found: install the CUDA toolkit (13.0 or newer, nvcc on PATH)")
  if(IM2WIN_CUDA STREQUAL ON)
    message(FATAL_ERROR "im2win: ${advice}")
  endif()
  message(STATUS "im2win: building without CUDA, ${advice}")
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0 AND capabilities MATCHES "^[0-9]+[.][0-9]")
    string(REPLACE "." "" capabilities "${capabilities}")
    string(REGEX MATCHALL "[0-9]+" CMAKE_CUDA_ARCHITECTURES "${capabilities}")
    list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
  endif()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(IM2WIN_HAS_CUDA TRUE)
message(STATUS "im2win: building with CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
