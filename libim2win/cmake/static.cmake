# im2win_static: the objects of the shared library as an archive. Its users link what the shared
# library has linked: the C++ and OpenMP runtimes and, with CUDA, that of CUDA.

set(objects $<TARGET_OBJECTS:im2win>)
if(IM2WIN_HAS_CUDA)
  list(APPEND objects $<TARGET_OBJECTS:im2win_mma> $<TARGET_OBJECTS:im2win_wgmma>)
endif()
add_library(im2win_static STATIC ${objects})
add_library(im2win::im2win_static ALIAS im2win_static)
set_target_properties(im2win_static PROPERTIES OUTPUT_NAME im2win LINKER_LANGUAGE CXX)
target_include_directories(im2win_static INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# By name: a C project has the C++ and OpenMP runtimes, too, without looking for the languages.
set(static_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_ITEM static_runtime ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
if(OpenMP_CXX_FOUND)
  list(APPEND static_runtime ${OpenMP_CXX_LIB_NAMES})
endif()
target_link_libraries(im2win_static INTERFACE ${static_runtime})
if(IM2WIN_HAS_CUDA)
  target_link_libraries(im2win_static PRIVATE CUDA::cudart_static)
  list(APPEND static_runtime cudart_static dl rt)
endif()
