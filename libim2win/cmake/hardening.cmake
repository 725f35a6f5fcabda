# Flags that turn what a defect could be used for into an end of the process, at no cost in time worth
# measuring. tests/test_hardening.py looks for what they leave in the library.

function(harden target)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fstack-protector-strong>)
  target_link_options(${target} PRIVATE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

  # It wants an optimizing compiler, and goes past what sanitizers watch. GCC before 12 has no level 3.
  if(IM2WIN_SANITIZE)
    return()
  endif()
  set(level 3)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    set(level 2)
  endif()
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:
      -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}>)
endfunction()
