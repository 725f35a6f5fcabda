"""Bad arguments that only callers of the C ABI can pass: statuses, messages, nothing written."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import capi
from capi import CPU
from im2win._library import ffi, last_error, lib
from numerics import normal
from problems import Problem
from targets import CUDA, DEVICES, Target, all_targets

PROBLEM = Problem(n=2, c=4, k=6)
ROLES = ("input", "filter", "bias", "residual", "output")


class Call:
    """A call of im2win_conv2d with all it can take, to be spoilt."""

    def __init__(self, target: Target) -> None:
        device = target.device
        shapes = (PROBLEM.input_shape, PROBLEM.weight_shape, (PROBLEM.k,), PROBLEM.output_shape)
        self.tensors = {
            role: capi.Tensor(device, normal(shape, "float32", role))
            for role, shape in zip(ROLES, shapes, strict=False)
        }
        output = capi.poisoned(PROBLEM.output_shape, np.dtype(np.float32))
        self.tensors["output"] = capi.Tensor(device, output)
        desc = capi.descriptor(PROBLEM, has_residual=1, bias_dtype=lib.IM2WIN_FLOAT32)
        if not capi.accepts(desc, device, target.algorithm):
            pytest.skip(last_error())
        self.plan = capi.create_plan(desc, device, target.algorithm)
        self.needed = capi.workspace_bytes(self.plan)
        self.memory = capi.new_workspace(self.plan, device)
        self.pointers = {role: self.tensors[role].address for role in ROLES}
        self.workspace, self.size = self.memory.address if self.needed else 0, self.needed

    def run(self) -> int:
        pointers = [capi.address(self.pointers[role]) for role in ROLES]
        status: int = lib.im2win_conv2d(
            self.plan, *pointers, capi.address(self.workspace), self.size, ffi.NULL
        )
        return status

    def assert_refused(self, message: str, status: int = lib.IM2WIN_INVALID_ARGUMENT) -> None:
        assert self.run() == status
        assert message in last_error()
        output = self.tensors["output"].read()
        assert (output.view(np.uint8) == capi.POISON).all()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("target", all_targets())
def test_null_and_misaligned_tensors(target: Target, role: str) -> None:
    call = Call(target)
    call.pointers[role] += 1
    call.assert_refused(f"{role} is 0x")
    call.pointers[role] = 0
    call.assert_refused(f"{role} is NULL")


@pytest.mark.parametrize("target", all_targets())
def test_short_workspace(target: Target) -> None:
    call = Call(target)
    if call.needed == 0:
        assert call.run() == lib.IM2WIN_SUCCESS
        return
    call.size -= 1
    status = lib.IM2WIN_WORKSPACE_TOO_SMALL
    call.assert_refused(f"workspace_bytes is {call.needed - 1}: algorithm", status)


@pytest.mark.parametrize("target", all_targets())
def test_wrong_workspace(target: Target) -> None:
    call = Call(target)
    if call.needed == 0:
        assert call.run() == lib.IM2WIN_SUCCESS
        return
    call.workspace += 128
    call.assert_refused("aligned to 256 bytes")
    call.workspace = 0
    call.assert_refused("workspace is NULL")
    for role in ROLES:
        call.workspace = call.pointers[role] & -256
        call.assert_refused("overlaps")


@pytest.mark.parametrize("role", ["bias", "residual"])
@pytest.mark.parametrize("target", all_targets())
def test_tensors_that_the_plan_has_not(target: Target, role: str) -> None:
    call = Call(target)
    call.plan = capi.create_plan(capi.descriptor(PROBLEM), target.device, target.algorithm)
    call.pointers["residual" if role == "bias" else "bias"] = 0
    call.assert_refused(f"{role} is 0x")


@pytest.mark.gpu
@pytest.mark.parametrize("role", ROLES)
def test_host_memory_on_the_gpu(role: str) -> None:
    """A pageable host pointer would be a fault inside the kernel."""
    host = np.zeros(4096, np.float32)
    call = Call(Target(CUDA, "direct"))
    call.pointers[role] = host.ctypes.data
    call.assert_refused(f"{role} is 0x")


def test_no_such_device() -> None:
    plan = ffi.new("im2win_plan **")
    options = capi.plan_options(999)
    status = lib.im2win_plan_create(capi.descriptor(PROBLEM), options, plan)
    assert status == lib.IM2WIN_NO_DEVICE
    assert last_error()


@pytest.mark.parametrize("device", DEVICES)
def test_null_everywhere(device: str) -> None:
    """No function dereferences a NULL that it was given."""
    ordinal = CPU if device == "cpu" else 0
    null, desc = ffi.NULL, capi.descriptor(PROBLEM)
    size, plan = ffi.new("int64_t *"), capi.create_plan(desc, ordinal)
    options = capi.plan_options(ordinal)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("cuda_device_count", (null,)),
        ("device_describe", (ordinal, null, 10)),
        ("device_describe", (ordinal, ffi.new("char[8]"), 0)),
        ("conv2d_desc_init", (null, ffi.sizeof("im2win_conv2d_desc"))),
        ("conv2d_output_size", (null, size, size)),
        ("conv2d_output_size", (desc, null, size)),
        ("conv2d_output_size", (desc, size, null)),
        ("plan_options_init", (null, ffi.sizeof("im2win_plan_options"))),
        ("algorithm_name", (ordinal, 0, null)),
        ("algorithm_name", (ordinal, -1, ffi.new("const char **"))),
        ("conv2d_supports", (null, options, b"direct")),
        ("conv2d_supports", (desc, options, null)),
        ("plan_create", (desc, options, null)),
        ("plan_create", (null, options, ffi.new("im2win_plan **"))),
        ("plan_output_shape", (null, size)),
        ("plan_output_shape", (plan, null)),
        ("plan_workspace_bytes", (plan, null)),
        ("plan_algorithm", (plan, null)),
        ("plan_algorithm", (null, ffi.new("const char **"))),
        ("conv2d", (null, null, null, null, null, null, null, 0, null)),
        ("transform_bytes", (desc, null)),
        ("transform", (desc, ordinal, null, null, 2**40, null)),
        ("cuda_alloc", (0, 16, null, null)),
    ]
    for name, arguments in calls:
        status = getattr(lib, f"im2win_{name}")(*arguments)
        assert status == lib.IM2WIN_INVALID_ARGUMENT, name
        assert last_error(), name
    lib.im2win_plan_destroy(null)
    assert lib.im2win_cuda_free(0, null, null) == lib.IM2WIN_SUCCESS


def test_messages_belong_to_their_thread() -> None:
    def fail(stride: int) -> str:
        desc = capi.descriptor(PROBLEM, stride_h=-stride)
        for _ in range(50):
            size = ffi.new("int64_t[2]")
            lib.im2win_conv2d_output_size(desc, size, size + 1)
        return last_error()

    strides = range(1, 65)
    with ThreadPoolExecutor(16) as pool:
        messages = list(pool.map(fail, strides))
    for stride, message in zip(strides, messages, strict=True):
        assert f"stride_h is {-stride}:" in message


def test_a_long_message_is_cut_and_a_description_too() -> None:
    options = capi.plan_options(CPU, "x" * 5000)
    plan = ffi.new("im2win_plan **")
    lib.im2win_plan_create(capi.descriptor(PROBLEM), options, plan)
    assert last_error().startswith('algorithm is "xxx')
    text = ffi.new("char[]", b"~" * 8)
    assert lib.im2win_device_describe(CPU, text, 4) == lib.IM2WIN_SUCCESS
    assert bytes(ffi.buffer(text))[3:] == b"\0" + b"~" * 4 + b"\0"
