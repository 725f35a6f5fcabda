# What IM2WIN_SANITIZE names watches a target, and whatever links it brings the runtimes.

function(sanitize target)
  if(NOT IM2WIN_SANITIZE)
    return()
  endif()
  set(sanitizers -fsanitize=${IM2WIN_SANITIZE} -fno-sanitize-recover=undefined
                 -fno-omit-frame-pointer)
  if(IM2WIN_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND sanitizers -Wno-tsan)  # fences order streamed stores alone, which it does not see
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${sanitizers} -g>)
  target_link_options(${target} PUBLIC $<BUILD_INTERFACE:${sanitizers}>)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
endfunction()
