"""What goes to a provider that is not softnpu, as the official client was seen to send it: names, types and order of calls, recorded on a
folder that looks like CANN. The programs compare their results with the CPU themselves. See Note [What is sent] in csrc/ops/provider.h.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/calls"), str(ROOT / "test/cann_like")]
from folder import make  # noqa: E402
from recording import is_tensor, lines, load  # noqa: E402

START = """
import ctypes, torch, torch_npu
import torch.nn.functional as F
torch.manual_seed(0)
def both(t):  # on the CPU and on the card
    return t.clone().requires_grad_(t.is_floating_point()), t.npu().requires_grad_(t.is_floating_point())
def close(a, b):
    tolerance = 5e-2 if a.dtype == torch.float16 else 1e-4
    torch.testing.assert_close(a, b.cpu(), rtol=tolerance, atol=tolerance)
def begin(name):
    ctypes.CDLL("libsoftnpu.so").softnpu_record(f"B {name}".encode())
def end():
    torch.npu.synchronize()
    mark = ctypes.CDLL("libsoftnpu.so").softnpu_record
    mark(b"E ok"), mark(None)
"""

PROGRAM = START + """
def compare(name, function, *inputs, second=False):
    pairs = [both(t) for t in inputs]
    expected, given = [p[0] for p in pairs], [p[1] for p in pairs]
    begin(name)
    result = function(*given)
    grads = torch.autograd.grad(result.float().square().sum(), given, create_graph=second, allow_unused=True)
    end()
    truth = function(*expected)
    close(truth, result)
    wanted = torch.autograd.grad(truth.float().square().sum(), expected, create_graph=second, allow_unused=True)
    for a, b in zip(wanted, grads):
        if a is not None:
            close(a, b)
    if second:
        close(torch.autograd.grad(wanted[0].sum(), expected)[0], torch.autograd.grad(grads[0].sum(), given)[0])

x = torch.randn(2, 3, 9, 8)
compare("pool", lambda t: F.max_pool2d(t, 3, 2, 1), x)
compare("pool twice", lambda t: F.max_pool2d(t, 2), x, second=True)
compare("pool row", lambda t: F.max_pool1d(t, 2), x[0])
compare("pool places", lambda t: F.max_pool2d(t, 2, return_indices=True)[0], x)
compare("pool solid", lambda t: F.max_pool3d(t, 2), x[None])
compare("attention", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), torch.randn(2, 6, 4, 8).transpose(1, 2))
compare("norm", lambda t, w, b: F.layer_norm(t, (8,), w, b), x.half(), torch.randn(8).half(), torch.randn(8).half())
compare("norm alone", lambda t: F.layer_norm(t, (8,)), x)
compare("gelu", F.gelu, x)
compare("clone", lambda t: t.clone(), x)
places = F.max_pool2d(x, 2, return_indices=True)[1]
assert torch.equal(places, F.max_pool2d(x.npu(), 2, return_indices=True)[1].cpu())
mask = x[0, 0] > 0
a, b = x.clone(), x.npu()
begin("mask")
b[:, :, mask.npu()] = 1
picked = b[:, :, mask.npu()]
end()
a[:, :, mask] = 1
close(a, b), close(a[:, :, mask], picked)
dropped = torch.ones(1000, device="npu", requires_grad=True)
begin("dropout")
result = F.dropout(dropped, 0.25)
grad, = torch.autograd.grad(result.sum(), dropped)
end()
assert torch.equal(grad, result) and 650 < (result > 0).sum() < 850
close(torch.tensor([0, 1 / 0.75]), result.unique())
for numbers in (torch.randn(20, dtype=torch.complex64), 1e-4 * torch.randn(4, 5, dtype=torch.complex64).t()):
    given = numbers.npu()
    begin("expm1")
    results = given.expm1(), given.clone().expm1_(), torch.expm1(given.conj(), out=torch.empty_like(given))
    end()
    for expected, result in zip((numbers.expm1(), numbers.expm1(), numbers.conj().expm1()), results):
        torch.testing.assert_close(expected, result.cpu(), rtol=1e-5, atol=1e-9)
"""


def run(tmp_path, program, **environment):
    file = tmp_path / "ours.jsonl"
    folder = make(tmp_path / "cann")
    environment = {**os.environ, **folder, **environment, "SOFTNPU_RECORD": str(file), "TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module", params=[0, 1, 2])
def regions(request, tmp_path_factory):
    return load(run(tmp_path_factory.mktemp("sent"), PROGRAM, TASK_QUEUE_ENABLE=str(request.param)))


def names(region):
    return [call.short for call in region.calls if call.short.startswith(("aclnn", "copy d2d"))]


def types(region, name):
    call, = [call for call in region.calls if call.short == name]
    return {argument: value["d"] for argument, value in call.arguments if is_tensor(value)}


HALF, FLOAT, INT32 = 1, 0, 3


def test_max_pooling_keeps_a_mask(regions):
    for program in ("pool", "pool row"):
        assert {n for n in names(regions[program]) if "Pool" in n} == {"aclnnMaxPool2dWithMask", "aclnnMaxPool2dWithMaskBackward"}


def test_places_are_32_bit_numbers(regions):
    for program in ("pool places", "pool solid"):
        assert types(regions[program], "aclnnMaxPool3dWithArgmax")["indices"] == INT32
        assert types(regions[program], "aclnnMaxPool3dWithArgmaxBackward")["indices"] == INT32


def test_attention_is_one_operator_each_way(regions):
    made = names(regions["attention"])
    assert made[0] == "aclnnFlashAttentionScore"
    assert [n for n in made if n.startswith("aclnnFlash")] == ["aclnnFlashAttentionScore", "aclnnFlashAttentionScoreGrad"]
    assert "aclnnLog" not in made


def test_gradients_of_parameters_are_float32(regions):
    found = types(regions["norm"], "aclnnLayerNormBackward")
    assert (found["grad_input"], found["grad_weight"], found["grad_bias"]) == (HALF, FLOAT, FLOAT)


def test_a_norm_without_parameters_gets_neutral_ones(regions):
    assert {"weight", "bias"} <= set(types(regions["norm alone"], "aclnnLayerNormBackward"))


def test_a_copy_is_an_operator(regions):
    assert "aclnnInplaceCopy" in names(regions["clone"])
    assert not any("copy d2d" in names(region) for region in regions.values())


def test_masks_are_sent_as_places(regions):
    for call in regions["mask"].calls:
        if call.short in ("aclnnIndex", "aclnnIndexPutImpl"):
            assert all(index is None or index["d"] == 9 for _, value in call.arguments if isinstance(value, list) for index in value)
    assert {"aclnnIndex", "aclnnIndexPutImpl"} <= set(names(regions["mask"]))


def test_dropout_has_a_mask_of_bits(regions):
    assert [n for n in names(regions["dropout"]) if "Dropout" in n] == ["aclnnDropoutGenMaskV2", "aclnnDropoutDoMask", "aclnnDropoutDoMask"]


def test_expm1_of_complex_numbers_is_made_of_their_parts(regions):
    sent = {value["d"] for call in regions["expm1"].calls if "Expm1" in call.name for _, value in call.arguments if is_tensor(value)}
    assert sent == {FLOAT} and "aclnnComplex" in names(regions["expm1"])


def test_gelu_has_the_first_version(regions):
    assert [n for n in names(regions["gelu"]) if "Gelu" in n] == ["aclnnGelu", "aclnnGeluBackward"]


def test_a_card_is_opened_with_infinities_and_a_limit_and_blocks_have_bytes_behind_them(tmp_path):
    program = START + "x = torch.empty(512, dtype=torch.uint8).npu(); assert torch.npu.memory_allocated() == 1024"  # 512 without
    calls = [line["f"] for line in lines(run(tmp_path, program)) if "f" in line]
    for name in ("aclrtSetDeviceSatMode", "aclrtSetOpExecuteTimeOutV2"):
        assert calls.index("aclrtSetDevice") < calls.index(name)


def test_cards_without_known_nodes_are_counted_before_the_first_use(tmp_path):
    run(tmp_path, START + "assert torch.npu.device_count() > 0 and torch.npu.is_available() and not torch.npu.is_initialized()")


STREAMS = START + """
import os, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
a, b, big = torch.ones(4).npu(), torch.ones(4).npu(), torch.ones(1500, 1500).npu()
dist.all_reduce(a), dist.all_reduce(b)
torch.npu.synchronize()
begin("two streams")
big @ big @ big
work = dist.all_reduce(a, async_op=True)
with torch.npu.stream(torch.npu.Stream()):
    dist.all_reduce(b)
end()
work.wait()
dist.destroy_process_group()
"""


def test_collectives_on_two_streams_wait_for_one_another(tmp_path):
    region = load(run(tmp_path, STREAMS, SOFTNPU_ASYNC="1", TASK_QUEUE_ENABLE="0"), silent=True)["two streams"]
    calls = [call.name for call in region.calls]
    first, second = [i for i, name in enumerate(calls) if name == "HcclAllReduce"]
    assert "aclrtStreamWaitEvent" in calls[first:second]
