"""Tensors on the npu: moving, viewing, resizing, sharing. Operators have their own tests."""

import copy
import pickle
import warnings

import numpy
import pytest
import torch

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")
pytestmark = pytest.mark.usefixtures("restore_device")

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


def some(dtype, *shape):
    """Numbers of any dtype, made by viewing bytes so that no kernel of the dtype is needed."""
    if dtype == torch.bool:
        return torch.arange(torch.Size(shape).numel()).reshape(shape) % 3 == 0
    size = torch.empty(0, dtype=dtype).element_size()
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 60, (*shape, size), dtype=torch.uint8, generator=generator).view(dtype).squeeze(-1)


def same_bytes(left, right):
    left, right = (tensor.cpu().contiguous().view(torch.uint8) for tensor in (left, right))
    return torch.equal(left, right)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_goes_there_and_back(dtype):
    x = some(dtype, 3, 5)
    y = x.npu()
    assert y.device == torch.device("npu:0")
    assert (y.dtype, y.shape, y.stride()) == (x.dtype, x.shape, x.stride())
    assert same_bytes(y, x)
    assert same_bytes(y.clone(), x)
    assert same_bytes(y.t().contiguous(), x.t().contiguous())


def test_npu_method_and_property():
    x = torch.ones(2)
    assert not x.is_npu
    y = x.npu()
    assert y.is_npu
    assert y.npu() is y
    assert y.npu(0) is y
    assert y.npu("npu:0") is y
    assert y.npu(non_blocking=True) is y
    with pytest.raises(RuntimeError, match="npu"):
        x.npu("cpu")


def test_to_in_all_forms():
    x = torch.ones(2, 2)
    targets = [("npu",), ("npu:0",), (0,), (torch.device("npu"),), (torch.device(0),), (x.npu(),)]
    for arguments in targets:
        assert x.to(*arguments).device == torch.device("npu:0")
    y = x.to("npu", torch.float64)
    assert (y.device.type, y.dtype) == ("npu", torch.float64)
    assert x.to(device="npu", dtype=torch.int32).dtype == torch.int32
    assert y.to(torch.float64) is y
    assert y.to("npu", copy=True) is not y
    assert y.to("cpu").device.type == "cpu"
    assert y.to(x).dtype == x.dtype
    assert y.cpu().device.type == "cpu"
    image = torch.ones(2, 3, 4, 5).to("npu", memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)


@two_cards
def test_between_cards():
    x = torch.arange(1000.0).npu(0)
    y = x.to("npu:1")
    assert y.device == torch.device("npu:1")
    assert x.to(1).device == torch.device("npu:1")
    z = torch.zeros(1000, device="npu:0").copy_(y, non_blocking=True)
    assert torch.equal(z.cpu(), torch.arange(1000.0))
    assert torch.equal(x[::3].to("npu:1").cpu(), torch.arange(1000.0)[::3])


def test_strided_expanded_and_overlapping_copies():
    base = torch.arange(60.0).reshape(6, 10)
    views = [base.t(), base[::2, 1::3], base[:, :1].expand(6, 10), base.as_strided((4, 4), (1, 2)), base.unfold(1, 4, 2)]
    for view in views:
        assert torch.equal(view.npu().cpu(), view)
    on_npu = base.npu()
    for view in (on_npu.t(), on_npu[::2, 1::3], on_npu[:, :1].expand(6, 10), on_npu.as_strided((4, 4), (1, 2))):
        host = view.cpu()
        assert torch.equal(host, base.as_strided(view.size(), view.stride(), view.storage_offset()))
    target = torch.zeros(6, 10).npu()
    target[::2, ::5] = base[:3, :2]
    target.t()[9] = torch.full((6,), 7.0)
    expected = torch.zeros(6, 10)
    expected[::2, ::5] = base[:3, :2]
    expected.t()[9] = 7
    assert torch.equal(target.cpu(), expected)


def test_copy_converts_and_broadcasts():
    target = torch.zeros(2, 3, dtype=torch.float64, device="npu")
    target.copy_(torch.tensor([1, 2, 3]))
    assert target.cpu().tolist() == [[1, 2, 3], [1, 2, 3]]
    host = torch.zeros(2, 3, dtype=torch.int16)
    host.copy_(target)
    assert host.tolist() == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(RuntimeError, match="broadcast|match|size"):
        target.copy_(torch.zeros(4))


def test_pinned_memory_and_non_blocking():
    pinned = torch.arange(10000.0).pin_memory()
    assert pinned.is_pinned()
    assert not torch.arange(3).is_pinned()
    y = pinned.npu(non_blocking=True)
    back = torch.empty(10000).pin_memory()
    back.copy_(y, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(back, torch.arange(10000.0))


def test_views_share_memory():
    x = torch.zeros(4, 6, device="npu")
    views = [x.view(24), x.reshape(2, 12), x.t(), x[1:3], x.unsqueeze(0), x.narrow(1, 2, 3), x.view(torch.int32), x.detach()]
    for view in views:
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x[1:3].fill_(5)
    assert x.view(24)[6:18].cpu().eq(5).all()
    assert torch.view_as_real(torch.zeros(3, dtype=torch.complex64, device="npu")).shape == (3, 2)


def test_set_and_resize():
    x = torch.arange(6.0).npu()
    y = torch.empty(0, device="npu").set_(x)
    assert y.data_ptr() == x.data_ptr()
    y.set_(x.untyped_storage(), 2, (2, 2), (2, 1))
    assert y.cpu().tolist() == [[2, 3], [4, 5]]
    x.resize_(3)
    assert x.cpu().tolist() == [0, 1, 2]
    x.resize_(100)
    assert x.shape == (100,)
    assert x[:3].cpu().tolist() == [0, 1, 2]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == 0


def test_data_assignment_is_silent():
    parameter = torch.nn.Parameter(torch.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameter.data = torch.ones(3).npu()
        parameter.data = parameter.data.npu()
    assert parameter.device.type == "npu"
    assert parameter.cpu().tolist() == [1, 1, 1]


def test_deepcopy_and_pickle():
    x = torch.arange(6.0).npu()[1:4].requires_grad_()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.device == x.device
        assert y.requires_grad
        assert y.data_ptr() != x.data_ptr()
        assert torch.equal(y.detach().cpu(), x.detach().cpu())
    model = torch.nn.Linear(2, 2).npu()
    assert torch.equal(copy.deepcopy(model).weight.detach().cpu(), model.weight.detach().cpu())


def test_numpy_is_refused_in_upstreams_words():
    x = torch.ones(2, device="npu")
    with pytest.raises(TypeError, match=r"can't convert npu:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
        x.numpy()
    with pytest.raises(TypeError, match="can't convert npu:0"):
        numpy.asarray(x)
    assert x.numpy(force=True).tolist() == [1, 1]
    assert torch.from_numpy(numpy.arange(3)).npu().tolist() == [0, 1, 2]


def test_factories_and_device_context():
    with torch.device("npu"):
        made = [torch.empty(2), torch.ones(2), torch.tensor([1.0]), torch.arange(3), torch.rand(2), torch.eye(2)]
    assert all(x.is_npu for x in made)
    assert not torch.ones(1).is_npu
    torch.set_default_device("npu")
    try:
        assert torch.ones(1).is_npu
    finally:
        torch.set_default_device(None)
    x = torch.ones(2, 3, device="npu")
    for y in (torch.zeros_like(x), x.new_ones(2), x.new_tensor([1, 2]), torch.empty_strided((2, 2), (1, 2), device="npu")):
        assert y.is_npu


def test_modules_and_packed_sequences_move():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).npu()
    assert {p.device.type for p in model.parameters()} == {b.device.type for b in model.buffers()} == {"npu"}
    assert next(model.cpu().parameters()).device.type == "cpu"
    assert next(model.to("npu:0").parameters()).is_npu
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert not packed.is_npu
    assert packed.npu().is_npu


def test_gradients_live_where_the_parameters_do():
    x = torch.tensor([1.0, 2.0, 3.0], device="npu", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.is_npu
    assert x.grad.tolist() == [2, 4, 6]


def test_item_tolist_and_bool():
    x = torch.tensor([1.5, -2.0], device="npu")
    assert x[0].item() == 1.5
    assert x.tolist() == [1.5, -2.0]
    assert bool(torch.tensor(True, device="npu"))
    assert int(torch.tensor(7, device="npu")) == 7
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()


def test_dlpack_makes_the_consumers_stream_wait():
    consumer = torch.npu.Stream()
    x = torch.zeros(1 << 16, device="npu")
    for _ in range(20):
        x.add_(1)
    capsule = x.__dlpack__(stream=consumer.npu_stream)
    with torch.npu.stream(consumer):
        y = torch.utils.dlpack.from_dlpack(capsule) * 1
    consumer.synchronize()
    assert y.min().item() == y.max().item() == 20
    with pytest.raises(BufferError, match="must be the address of an aclrtStream"):
        x.__dlpack__(stream=0)
    with pytest.raises(RuntimeError):
        x.__dlpack__(stream=8)


def test_dlpack():
    x = torch.arange(6.0).npu()
    kind, index = x.__dlpack_device__()
    assert (kind.name, index) == ("kDLExtDev", 0)
    assert torch.ones(1).__dlpack_device__()[1] == 0
    y = torch.from_dlpack(x)
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()


def test_type_names():
    x = torch.ones(2, device="npu")
    assert x.type() == "torch.npu.FloatTensor"
    assert x.type(torch.float64).type() == "torch.npu.DoubleTensor"
    assert torch.ones(2).type("torch.npu.FloatTensor").is_npu
    assert x.get_device() == 0


def test_indices_may_be_on_the_cpu():
    host = torch.arange(12.0).view(3, 4)
    x, rows, mask = host.npu(), torch.tensor([2, 0]), host > 5
    assert torch.equal(x[rows].cpu(), host[rows])
    assert torch.equal(x[:, rows.npu()].cpu(), host[:, rows])
    assert torch.equal(x[mask].cpu(), host[mask])
    x[rows], host[rows] = 1.0, 1.0
    x[mask], host[mask] = -1.0, -1.0
    x.index_put_((rows, rows), torch.ones(2).npu(), accumulate=True)
    host.index_put_((rows, rows), torch.ones(2), accumulate=True)
    assert torch.equal(x.cpu(), host)
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        host[rows.npu()]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz], ids=str)
def test_types_without_a_number_in_the_abi_are_refused_and_printed(dtype):
    x = torch.tensor([1.0, 2.0, 4.0]).to(dtype)
    a = x.npu()
    for compute in (lambda: a == a, lambda: a + a):
        with pytest.raises(NotImplementedError, match="do not take tensors of type"):
            compute()
    assert str(a)[: str(a).index("]")] == str(x)[: str(x).index("]")]
    assert a.half().tolist() == [1, 2, 4]
    assert a[::2].half().tolist() == [1, 4]
    assert torch.tensor([1.0, 3.0], device="npu").to(dtype).cpu().half().tolist() == [1, 3]


def test_arange_into_memory_of_another_shape():
    for make in (lambda d: torch.zeros(4, 3, device=d).t(), lambda d: torch.zeros(2, 3, 4, device=d)[:, :, 1:3]):
        npu, cpu = make("npu"), make("cpu")
        torch.arange(0, 12, out=npu)
        torch.arange(0, 12, out=cpu)
        assert torch.equal(npu.cpu(), cpu)


def test_places_of_a_tensor_are_written_on_its_card():
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.nonzero(torch.ones(2, device="npu"), out=torch.empty(0, dtype=torch.int64))


def test_masks_of_bytes_are_deprecated():
    x, mask = torch.arange(4.0, device="npu"), torch.tensor([1, 0, 1, 0], dtype=torch.uint8, device="npu")
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        x[mask] = 9.0
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        assert x[mask].tolist() == [9, 9]


@pytest.mark.parametrize("call", [
    lambda x, i: x.index_fill_(0, i, 1j),
    lambda x, i: x.index_fill(0, i, 1j),
    lambda x, i: x.masked_select((x > 0).to(torch.uint8)),
    lambda x, i: x.put_(i, x[:2]),
    lambda x, i: torch.lerp(x, x, 1j),
    lambda x, i: x.lerp_(x, 1j),
    lambda x, i: torch.addcmul(x, x, x, value=1j),
    lambda x, i: x.addcdiv_(x, x, value=1j),
    lambda x, i: i.int().addcmul_(i.int(), i.int(), value=2**40),
])
def test_mistakes_are_refused_in_the_words_of_the_cpu(call):
    words = []
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError) as error:
            call(torch.arange(4.0, device=device), torch.tensor([0, 2], device=device))
        words.append(str(error.value).splitlines()[0])
    assert words[0] == words[1]


COMPLEX_HALVES = """
import warnings
import torch
for make in (torch.empty, torch.zeros, torch.rand):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        make(3, dtype=torch.chalf, device="npu")
    assert any("ComplexHalf support is experimental" in str(w.message) for w in seen), make
"""


def test_complex_numbers_of_half_precision_are_experimental(check):
    check(COMPLEX_HALVES)
