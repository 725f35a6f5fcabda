use std::ffi::CStr;
use std::fmt;

use im2win_sys as sys;

/// A call that failed: nothing has been written to the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The `im2win_status`, such as `im2win_sys::IM2WIN_UNSUPPORTED`.
    pub status: i32,
    message: String,
}

impl Error {
    pub(crate) fn invalid(message: String) -> Self {
        Error { status: sys::IM2WIN_INVALID_ARGUMENT, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The status of this thread's last call, as a result.
pub(crate) fn check(status: sys::im2win_status) -> Result<(), Error> {
    if status == sys::IM2WIN_SUCCESS {
        return Ok(());
    }
    // SAFETY: a terminated string, which stays until this thread's next call that fails.
    let message = unsafe { CStr::from_ptr(sys::im2win_last_error()) };
    Err(Error { status, message: message.to_string_lossy().into_owned() })
}
