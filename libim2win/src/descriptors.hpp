// The public structs across versions: their defaults, and copies that old and new callers agree on.
#pragma once

#include "im2win/im2win.h"

namespace im2win {

im2win_conv2d_desc default_desc();
im2win_plan_options default_options();

/// A whole copy: fields that an older caller does not know have their defaults. INVALID_ARGUMENT
/// for NULL and for a struct_size that no version had.
im2win_conv2d_desc read_desc(const im2win_conv2d_desc* desc);
/// The same; NULL means the defaults.
im2win_plan_options read_options(const im2win_plan_options* options);

/// Writes the first `bytes` bytes of the defaults, which must be a size that some version had.
void write_default_desc(im2win_conv2d_desc* desc, size_t bytes);
void write_default_options(im2win_plan_options* options, size_t bytes);

}  // namespace im2win
