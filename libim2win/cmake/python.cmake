# The wheel: the library and its cffi module beside the Python package. Nothing else is installed.

find_package(Python REQUIRED COMPONENTS Interpreter)
set(ffi ${CMAKE_CURRENT_BINARY_DIR}/_ffi.py)
set(script ${CMAKE_CURRENT_SOURCE_DIR}/python/build_ffi.py)
set(public_header ${CMAKE_CURRENT_SOURCE_DIR}/libim2win/include/im2win/im2win.h)
add_custom_command(OUTPUT ${ffi}
                   COMMAND Python::Interpreter ${script} ${public_header} ${ffi}
                   DEPENDS ${script} ${public_header} VERBATIM)
add_custom_target(im2win_ffi ALL DEPENDS ${ffi})

install(TARGETS im2win LIBRARY DESTINATION im2win RUNTIME DESTINATION im2win)
install(FILES ${ffi} DESTINATION im2win)
