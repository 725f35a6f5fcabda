package main

// #cgo pkg-config: im2win
// #include <im2win/im2win.h>
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

const cpu = C.IM2WIN_CPU

// check runs a call and turns its status into an error. The message belongs to the thread, which the
// goroutine keeps until it has been read.
func check(call func() C.im2win_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if call() != C.IM2WIN_SUCCESS {
		return errors.New(C.GoString(C.im2win_last_error()))
	}
	return nil
}

// cudaDeviceCount is the number of GPUs; where there is none, the error says why.
func cudaDeviceCount() (int, error) {
	var count C.int32_t
	err := check(func() C.im2win_status { return C.im2win_cuda_device_count(&count) })
	return int(count), err
}

// A conv2d is relu(convolution + bias) of one dense image, with square filters that keep its size.
type conv2d struct {
	channels, height, width, filters, size int
}

// A plan is for one device, and must be closed.
type plan struct {
	plan      *C.im2win_plan
	device    C.int32_t
	workspace C.size_t
	outputs   int
}

func newPlan(conv conv2d, device int) (*plan, error) {
	var desc C.im2win_conv2d_desc
	var options C.im2win_plan_options
	err := check(func() C.im2win_status {
		return C.im2win_conv2d_desc_init(&desc, C.size_t(unsafe.Sizeof(desc)))
	})
	if err != nil {
		return nil, err
	}
	desc.n, desc.c = 1, C.int64_t(conv.channels)
	desc.h, desc.w = C.int64_t(conv.height), C.int64_t(conv.width)
	desc.k = C.int64_t(conv.filters)
	desc.r, desc.s = C.int64_t(conv.size), C.int64_t(conv.size)
	padding := C.int64_t(conv.size / 2)
	desc.padding_top, desc.padding_bottom = padding, padding
	desc.padding_left, desc.padding_right = padding, padding
	desc.bias_dtype = C.IM2WIN_FLOAT32
	desc.activation = C.IM2WIN_RELU
	err = check(func() C.im2win_status {
		return C.im2win_plan_options_init(&options, C.size_t(unsafe.Sizeof(options)))
	})
	if err != nil {
		return nil, err
	}
	options.device = C.int32_t(device)
	p := &plan{device: options.device, outputs: conv.filters * conv.height * conv.width}
	err = check(func() C.im2win_status { return C.im2win_plan_create(&desc, &options, &p.plan) })
	if err != nil {
		return nil, err
	}
	err = check(func() C.im2win_status { return C.im2win_plan_workspace_bytes(p.plan, &p.workspace) })
	return p, err
}

func (p *plan) close() { C.im2win_plan_destroy(p.plan) }

func (p *plan) algorithm() string {
	var name *C.char
	C.im2win_plan_algorithm(p.plan, &name)
	return C.GoString(name)
}

// run convolves tensors of the host: to and from a GPU they are copied.
func (p *plan) run(input, filter, bias []float32) ([]float32, error) {
	output := make([]float32, p.outputs)
	if p.device != cpu {
		return output, p.runOnGPU(input, filter, bias, output)
	}
	workspace := make([]byte, p.workspace+256) // of which 256 bytes align the rest
	offset := 256 - uintptr(unsafe.Pointer(&workspace[0]))%256
	return output, check(func() C.im2win_status {
		return C.im2win_conv2d(p.plan, unsafe.Pointer(&input[0]), unsafe.Pointer(&filter[0]),
			unsafe.Pointer(&bias[0]), nil, unsafe.Pointer(&output[0]),
			unsafe.Pointer(&workspace[offset]), p.workspace, nil)
	})
}

func (p *plan) runOnGPU(input, filter, bias, output []float32) error {
	var memory [5]unsafe.Pointer
	defer func() {
		for _, pointer := range memory {
			C.im2win_cuda_free(p.device, pointer, nil)
		}
	}()
	for i, values := range [][]float32{input, filter, bias} {
		if err := p.upload(values, &memory[i]); err != nil {
			return err
		}
	}
	for i, size := range []C.size_t{bytes(output), p.workspace} {
		if err := p.allocate(size, &memory[3+i]); err != nil {
			return err
		}
	}
	err := check(func() C.im2win_status {
		return C.im2win_conv2d(p.plan, memory[0], memory[1], memory[2], nil, memory[3], memory[4],
			p.workspace, nil)
	})
	if err != nil {
		return err
	}
	return p.copy(unsafe.Pointer(&output[0]), memory[3], bytes(output))
}

func (p *plan) upload(values []float32, memory *unsafe.Pointer) error {
	if err := p.allocate(bytes(values), memory); err != nil {
		return err
	}
	return p.copy(*memory, unsafe.Pointer(&values[0]), bytes(values))
}

func (p *plan) allocate(size C.size_t, memory *unsafe.Pointer) error {
	if size == 0 {
		return nil
	}
	var pointer unsafe.Pointer
	err := check(func() C.im2win_status { return C.im2win_cuda_alloc(p.device, size, nil, &pointer) })
	*memory = pointer
	return err
}

// copy is done on return: Go's memory is C's only during a call.
func (p *plan) copy(target, source unsafe.Pointer, size C.size_t) error {
	return check(func() C.im2win_status {
		if status := C.im2win_cuda_copy(p.device, target, source, size, nil); status != C.IM2WIN_SUCCESS {
			return status
		}
		return C.im2win_cuda_synchronize(p.device, nil)
	})
}

func bytes(values []float32) C.size_t { return C.size_t(len(values)) * 4 }
