"""Bad input: one clear sentence of the right type, and the process goes on."""

import pytest
import torch


def works():
    return torch.ones(3, device="npu").sum().item() == 3


def test_unknown_card():
    with pytest.raises(RuntimeError, match="invalid device ordinal: npu:99 .*sees [0-9]+ NPU"):
        torch.empty(1, device="npu:99")
    with pytest.raises(RuntimeError, match="invalid device ordinal: npu:99"):
        torch.ones(1).to("npu:99")
    assert works()


def test_cpu_tensor_met_with_npu_tensor():
    x, y = torch.ones(2, 2, device="npu"), torch.ones(2, 2)
    for call in (lambda: x + y, lambda: y + x, lambda: x.mm(y), lambda: y @ x, lambda: torch.cat([x, y]), lambda: x.add_(y)):
        with pytest.raises(RuntimeError, match="same device"):
            call()
    assert works()


def test_shape_errors_are_upstreams():
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.ones(3, device="npu") + torch.ones(4, device="npu")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.ones(2, 3, device="npu").mm(torch.ones(2, 3, device="npu"))
    with pytest.raises(IndexError):
        torch.ones(3, device="npu").sum(5)
    assert works()


def test_types_of_a_convolution_are_named_in_upstreams_words():
    x, weight = torch.ones(1, 1, 3, 3, device="npu"), torch.ones(1, 1, 2, 2, device="npu")
    for convolution in (torch.conv2d, torch.conv_transpose2d):
        with pytest.raises(RuntimeError, match=r"Input type \(c10::Half\) and weight type \(float\) should be the same"):
            convolution(x.half(), weight)
    with pytest.raises(RuntimeError, match=r"Input type \(c10::Half\) and bias type \(float\) should be the same"):
        torch.conv2d(x.half(), weight.half(), torch.ones(1, device="npu"))


def test_a_uint8_condition_is_deprecated_but_computes():
    with pytest.warns(UserWarning, match="where received a uint8 condition tensor"):
        torch._C._set_warnAlways(True)
        try:
            chosen = torch.where(torch.tensor([1, 0, 2], dtype=torch.uint8, device="npu"), 1.0, 0.0)
        finally:
            torch._C._set_warnAlways(False)
    assert chosen.tolist() == [1, 0, 1]
    with pytest.raises(RuntimeError, match="where expected condition to be a boolean tensor"):
        torch.where(torch.ones(2, dtype=torch.int32, device="npu"), 1.0, 0.0)


def test_out_of_memory_names_the_numbers_and_goes_on():
    free, total = torch.npu.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(total + 2**30, dtype=torch.uint8, device="npu")
    message = str(caught.value)
    assert "out of memory" in message
    assert "iB" in message
    assert "npu:0" in message or "NPU 0" in message
    assert isinstance(caught.value, torch.npu.OutOfMemoryError)
    assert works()


def test_operator_without_kernel_is_named_when_fallback_is_forbidden():
    x = torch.ones(2, dtype=torch.int32, device="npu")
    with pytest.raises(NotImplementedError, match=r"aten::_test_optional_intlist.* has no npu kernel .*FALLBACK_CPU_DISABLE"):
        torch.ops.aten._test_optional_intlist(x, [1, 2])
    assert works()


def test_a_host_read_of_device_memory_dies_with_a_sentence(run):
    code = """
import ctypes, torch, torch_npu
x = torch.ones(4, device="npu")
torch.npu.synchronize()
ctypes.c_float.from_address(x.data_ptr()).value
"""
    process = run(code, TORCH_NPU_RUNTIME="soft")
    assert process.returncode < 0
    assert "device memory" in process.stderr


@pytest.mark.parametrize("home", ["nowhere", "empty"])
def test_missing_cann_imports_and_explains_on_first_use(run, tmp_path, home):
    (tmp_path / "empty").mkdir()
    code = """
import torch, torch_npu
assert not torch.npu.is_available() and torch.npu.device_count() == 0
assert not torch.accelerator.is_available() and torch.version.cann is None
torch.manual_seed(0); torch.ones(2).add_(1)
torch.ones(1).npu()
"""
    environment = {"TORCH_NPU_RUNTIME": "cann", "ASCEND_HOME_PATH": str(tmp_path / home)}
    process = run(code, **environment)
    assert process.returncode == 1
    assert "libascendcl.so" in process.stderr
    assert str(tmp_path / home) in process.stderr


def test_broken_library_explains_on_first_use(run, tmp_path):
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libascendcl.so").write_text("not a library")
    code = "import torch, torch_npu; print(torch.npu.is_available()); torch.npu.synchronize()"
    process = run(code, TORCH_NPU_RUNTIME="cann", ASCEND_HOME_PATH=str(tmp_path))
    assert process.stdout == "False\n"
    assert "RuntimeError" in process.stderr
    assert "libascendcl.so" in process.stderr


def test_unknown_runtime_is_refused(run):
    process = run("import torch, torch_npu; torch.npu.synchronize()", TORCH_NPU_RUNTIME="cuda")
    assert process.returncode == 1
    assert "TORCH_NPU_RUNTIME" in process.stderr


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_type_without_kernel_is_the_cpus_error_at_once(level, check):
    code = """
for call in (lambda x: x.bitwise_not(), lambda x: x.gcd(x), lambda x: torch.nn.functional.one_hot(x, 3)):
    errors = []
    for device in ("cpu", "npu", "npu"):
        try:
            call(torch.ones(3, device=device))
        except Exception as error:
            errors.append(error)
    assert len(errors) == 3 and len({type(e) for e in errors}) == 1, errors
    if isinstance(errors[0], NotImplementedError):
        assert str(errors[0]) in str(errors[1]) and "aclnn" in str(errors[1]), errors
try:
    torch.ones(3, dtype=torch.int64, device="npu").softmax(0)
except NotImplementedError as error:
    assert "not implemented for 'Long'" in str(error), error
else:
    raise AssertionError("accepted")
torch.npu.synchronize()
print("done")
"""
    assert "done" in check(code, TASK_QUEUE_ENABLE=str(level))


@pytest.mark.parametrize("level", [0, 2])
def test_strict_mode_names_operator_argument_type_and_chip(level, check):
    code = """
x = torch.ones(3, dtype=torch.float64).npu()
assert x.float().sum().item() == 3
try:
    x.exp()
except NotImplementedError as error:
    assert "aclnnExp: argument 'self' is not implemented for float64 on Ascend910B1" in str(error), error
else:
    raise AssertionError("accepted")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Linear(8, 2)).npu()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(6, 4, device="npu")), torch.randint(2, (6,), device="npu"))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(loss.item(), "done")
"""
    assert "done" in check(code, SOFTNPU_STRICT="1", TASK_QUEUE_ENABLE=str(level))
    code = """
try:
    torch.ones(3, device="npu").bfloat16()
except NotImplementedError as error:
    assert "bfloat16 on Ascend910A" in str(error), error
    print("done")
"""
    assert "done" in check(code, SOFTNPU_STRICT="1", SOFTNPU_SOC="Ascend910A", TASK_QUEUE_ENABLE=str(level))
