! libim2win's C interface, as far as a forward convolution needs it; im2win.h says what it means.
module im2win
  use, intrinsic :: iso_c_binding
  implicit none
  private :: copy_text

  integer(c_int), parameter :: im2win_success = 0
  integer(c_int32_t), parameter :: im2win_cpu = -1
  integer(c_int32_t), parameter :: im2win_none = 0, im2win_float64 = 1, im2win_float32 = 2
  integer(c_int32_t), parameter :: im2win_identity = 0, im2win_relu = 1

  ! Fortran's arrays have their first index fastest: input(w, h, c, n) is C's dense NCHW.
  type, bind(c) :: im2win_conv2d_desc
    integer(c_int32_t) :: struct_size, operation, dtype, math
    integer(c_int64_t) :: n, c, h, w
    integer(c_int64_t) :: k, r, s
    integer(c_int64_t) :: stride_h, stride_w
    integer(c_int64_t) :: padding_top, padding_bottom, padding_left, padding_right
    integer(c_int64_t) :: dilation_h, dilation_w
    integer(c_int64_t) :: groups
    integer(c_int32_t) :: input_layout, filter_layout, output_layout, residual_layout
    integer(c_int64_t) :: input_strides(4), filter_strides(4)
    integer(c_int64_t) :: output_strides(4), residual_strides(4)
    integer(c_int32_t) :: bias_dtype, has_residual
    integer(c_int64_t) :: bias_stride
    real(c_double) :: alpha, beta
    integer(c_int32_t) :: activation, reserved
    real(c_double) :: activation_params(2)
  end type im2win_conv2d_desc

  type, bind(c) :: im2win_plan_options
    integer(c_int32_t) :: struct_size, device, threads, packed_filter
    integer(c_int64_t) :: workspace_limit_bytes
    type(c_ptr) :: algorithm
  end type im2win_plan_options

  interface
    function im2win_last_error() bind(c) result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function

    function im2win_conv2d_desc_init(desc, bytes) bind(c) result(status)
      import :: c_int, c_size_t, im2win_conv2d_desc
      type(im2win_conv2d_desc), intent(out) :: desc
      integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function

    function im2win_plan_options_init(options, bytes) bind(c) result(status)
      import :: c_int, c_size_t, im2win_plan_options
      type(im2win_plan_options), intent(out) :: options
      integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function

    function im2win_plan_create(desc, options, plan) bind(c) result(status)
      import :: c_int, c_ptr, im2win_conv2d_desc, im2win_plan_options
      type(im2win_conv2d_desc), intent(in) :: desc
      type(im2win_plan_options), intent(in) :: options
      type(c_ptr), intent(out) :: plan
      integer(c_int) :: status
    end function

    subroutine im2win_plan_destroy(plan) bind(c)
      import :: c_ptr
      type(c_ptr), value :: plan
    end subroutine

    function im2win_plan_workspace_bytes(plan, bytes) bind(c) result(status)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: plan
      integer(c_size_t), intent(out) :: bytes
      integer(c_int) :: status
    end function

    function im2win_plan_algorithm(plan, name) bind(c) result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: plan
      type(c_ptr), intent(out) :: name
      integer(c_int) :: status
    end function

    function im2win_conv2d(plan, input, filter, bias, residual, output, workspace, &
                           workspace_bytes, stream) bind(c) result(status)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: plan, input, filter, bias, residual, output, workspace
      integer(c_size_t), value :: workspace_bytes
      type(c_ptr), value :: stream
      integer(c_int) :: status
    end function

    function im2win_cuda_device_count(count) bind(c) result(status)
      import :: c_int, c_int32_t
      integer(c_int32_t), intent(out) :: count
      integer(c_int) :: status
    end function

    function im2win_cuda_alloc(device, bytes, stream, pointer) bind(c) result(status)
      import :: c_int, c_int32_t, c_ptr, c_size_t
      integer(c_int32_t), value :: device
      integer(c_size_t), value :: bytes
      type(c_ptr), value :: stream
      type(c_ptr), intent(out) :: pointer
      integer(c_int) :: status
    end function

    function im2win_cuda_free(device, pointer, stream) bind(c) result(status)
      import :: c_int, c_int32_t, c_ptr
      integer(c_int32_t), value :: device
      type(c_ptr), value :: pointer, stream
      integer(c_int) :: status
    end function

    function im2win_cuda_copy(device, target, source, bytes, stream) bind(c) result(status)
      import :: c_int, c_int32_t, c_ptr, c_size_t
      integer(c_int32_t), value :: device
      type(c_ptr), value :: target, source
      integer(c_size_t), value :: bytes
      type(c_ptr), value :: stream
      integer(c_int) :: status
    end function

    function im2win_cuda_synchronize(device, stream) bind(c) result(status)
      import :: c_int, c_int32_t, c_ptr
      integer(c_int32_t), value :: device
      type(c_ptr), value :: stream
      integer(c_int) :: status
    end function

    function strlen(text) bind(c) result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! A C string as Fortran has it.
  function c_text(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    call c_f_pointer(pointer, characters, [strlen(pointer)])
    text = copy_text(characters)
  end function

  pure function copy_text(characters) result(text)
    character(kind=c_char), intent(in) :: characters(:)
    character(size(characters)) :: text
    integer :: i
    do i = 1, size(characters)
      text(i:i) = characters(i)
    end do
  end function

  ! Stops the program with the library's message where a call has failed.
  subroutine im2win_check(status)
    integer(c_int), intent(in) :: status
    if (status /= im2win_success) error stop c_text(im2win_last_error())
  end subroutine

end module im2win
