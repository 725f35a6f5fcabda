! Edges of an image: two filters with bias and ReLU, on the CPU and, where there is one, a GPU.
!
!   edges IMAGE.pgm
program edges
  use im2win
  implicit none

  integer, parameter :: filters = 2, window = 3
  type(c_ptr), parameter :: stream = c_null_ptr

  ! Changes of brightness from left to right and from top to bottom, above 100.
  real(c_float), target :: filter(window, window, filters) = reshape( &
    [real(c_float) :: -1, 0, 1, -2, 0, 2, -1, 0, 1, -1, -2, -1, 0, 0, 0, 1, 2, 1], &
    [window, window, filters])
  real(c_float), target :: bias(filters) = -100
  real(c_float), allocatable, target :: image(:, :)  ! (width, height)
  integer(c_int32_t) :: gpus

  call read_image(image)
  call find_edges(im2win_cpu)
  if (im2win_cuda_device_count(gpus) == im2win_success) then
    call find_edges(0)
  else
    print '(2a)', 'no GPU: ', c_text(im2win_last_error())
  end if

contains

  ! A PGM file of plain text.
  subroutine read_image(pixels)
    real(c_float), allocatable, intent(out) :: pixels(:, :)
    character(4096) :: path
    character(2) :: magic
    integer :: unit, width, height, maximum
    if (command_argument_count() /= 1) error stop 'usage: edges IMAGE.pgm'
    call get_command_argument(1, path)
    open (newunit=unit, file=path, status='old', action='read')
    read (unit, *) magic
    if (magic /= 'P2') error stop 'not a plain PGM file'
    read (unit, *) width, height
    read (unit, *) maximum
    allocate (pixels(width, height))
    read (unit, *) pixels
    close (unit)
  end subroutine

  subroutine find_edges(device)
    integer(c_int32_t), intent(in) :: device
    real(c_float), target :: output(size(image, 1), size(image, 2), filters)
    type(c_ptr) :: plan, name
    plan = create_plan(device)
    if (device == im2win_cpu) then
      call run_on_cpu(plan, output)
    else
      call run_on_gpu(plan, output)
    end if
    ! The outputs are whole numbers: they have to be right to the last bit.
    if (any(abs(output - expected()) > 0)) error stop 'wrong'
    call im2win_check(im2win_plan_algorithm(plan, name))
    print '(4a, i0)', trim(merge('cpu ', 'cuda', device == im2win_cpu)), ': ', &
      c_text(name), ', sum ', nint(sum(real(output, c_double)))
    call im2win_plan_destroy(plan)
  end subroutine

  function create_plan(device) result(plan)
    integer(c_int32_t), intent(in) :: device
    type(im2win_conv2d_desc) :: desc
    type(im2win_plan_options) :: options
    type(c_ptr) :: plan
    call im2win_check(im2win_conv2d_desc_init(desc, c_sizeof(desc)))
    desc%n = 1
    desc%c = 1
    desc%h = size(image, 2)
    desc%w = size(image, 1)
    desc%k = filters
    desc%r = window
    desc%s = window
    desc%padding_top = 1
    desc%padding_bottom = 1
    desc%padding_left = 1
    desc%padding_right = 1
    desc%bias_dtype = im2win_float32
    desc%activation = im2win_relu
    call im2win_check(im2win_plan_options_init(options, c_sizeof(options)))
    options%device = device
    call im2win_check(im2win_plan_create(desc, options, plan))
  end function

  subroutine run_on_cpu(plan, output)
    type(c_ptr), intent(in) :: plan
    real(c_float), intent(out), contiguous, target :: output(:, :, :)
    integer(c_int8_t), allocatable, target :: workspace(:)
    integer(c_size_t) :: bytes
    integer :: first
    call im2win_check(im2win_plan_workspace_bytes(plan, bytes))
    allocate (workspace(bytes + 256))
    first = 257 - int(modulo(transfer(c_loc(workspace), 0_c_intptr_t), 256_c_intptr_t))
    call im2win_check(im2win_conv2d(plan, c_loc(image), c_loc(filter), c_loc(bias), c_null_ptr, &
                                    c_loc(output), c_loc(workspace(first)), bytes, stream))
  end subroutine

  subroutine run_on_gpu(plan, output)
    type(c_ptr), intent(in) :: plan
    real(c_float), intent(out), contiguous, target :: output(:, :, :)
    integer(c_size_t) :: bytes, image_bytes
    type(c_ptr) :: memory(5)
    integer :: i
    image_bytes = c_sizeof(0.0_c_float) * size(image)
    call im2win_check(im2win_plan_workspace_bytes(plan, bytes))
    memory(1) = on_gpu(c_loc(image), image_bytes)
    memory(2) = on_gpu(c_loc(filter), c_sizeof(filter))
    memory(3) = on_gpu(c_loc(bias), c_sizeof(bias))
    memory(4) = on_gpu(c_null_ptr, filters * image_bytes)
    memory(5) = on_gpu(c_null_ptr, bytes)
    call im2win_check(im2win_conv2d(plan, memory(1), memory(2), memory(3), c_null_ptr, memory(4), &
                                    memory(5), bytes, stream))
    call im2win_check(im2win_cuda_copy(0, c_loc(output), memory(4), filters * image_bytes, &
                                      stream))
    call im2win_check(im2win_cuda_synchronize(0, stream))
    do i = 1, size(memory)
      call im2win_check(im2win_cuda_free(0, memory(i), stream))
    end do
  end subroutine

  ! Device memory with a copy of the source, if there is one.
  function on_gpu(source, bytes) result(memory)
    type(c_ptr), intent(in) :: source
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr) :: memory
    memory = c_null_ptr
    if (bytes == 0) return
    call im2win_check(im2win_cuda_alloc(0, bytes, stream, memory))
    if (c_associated(source)) call im2win_check(im2win_cuda_copy(0, memory, source, bytes, stream))
  end function

  function expected() result(output)
    real(c_float) :: output(size(image, 1), size(image, 2), filters)
    real(c_float) :: padded(0:size(image, 1) + 1, 0:size(image, 2) + 1)
    integer :: k, p, q
    padded = 0
    padded(1:size(image, 1), 1:size(image, 2)) = image
    do k = 1, filters
      do p = 1, size(image, 2)
        do q = 1, size(image, 1)
          output(q, p, k) = max(0.0, bias(k) + &
            sum(filter(:, :, k) * padded(q - 1:q + 1, p - 1:p + 1)))
        end do
      end do
    end do
  end function

end program edges
