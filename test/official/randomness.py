"""Random numbers: reproducible from a seed, and of the right distribution."""

import torch

import torch_npu  # noqa: F401

COUNT = 1 << 14


def check_seed_repeats():
    torch.npu.manual_seed(5)
    first = torch.randn(100, device="npu"), torch.rand(100, device="npu")
    torch.npu.manual_seed(5)
    second = torch.randn(100, device="npu"), torch.rand(100, device="npu")
    for a, b in zip(first, second):
        assert torch.equal(a.cpu(), b.cpu())
    assert not torch.equal(first[1].cpu(), torch.rand(100, device="npu").cpu())


def check_state_can_be_kept():
    state = torch.npu.get_rng_state()
    first = torch.rand(10, device="npu").cpu()
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.rand(10, device="npu").cpu(), first)


def check_own_generator():
    numbers = [torch.rand(10, device="npu", generator=torch.Generator("npu").manual_seed(3)).cpu() for _ in range(2)]
    assert torch.equal(*numbers)


def check_distributions():
    torch.npu.manual_seed(0)
    uniform = torch.empty(COUNT, device="npu").uniform_(-1, 3).cpu()
    assert uniform.min() >= -1 and uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.05
    normal = torch.empty(COUNT, device="npu").normal_(2, 3).cpu()
    assert abs(normal.mean() - 2) < 0.15 and abs(normal.std() - 3) < 0.15
    integers = torch.randint(2, 7, (COUNT,), device="npu").cpu()
    assert integers.unique().tolist() == [2, 3, 4, 5, 6]
    assert abs(torch.bernoulli(torch.full((COUNT,), 0.25, device="npu")).mean().item() - 0.25) < 0.02
    assert sorted(torch.randperm(50, device="npu").tolist()) == list(range(50))


def check_dropout():
    torch.npu.manual_seed(0)
    x = torch.ones(COUNT, device="npu", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.2)
    values = y.detach().cpu()
    kept = values != 0
    assert abs(kept.float().mean() - 0.8) < 0.02
    torch.testing.assert_close(values[kept], torch.full_like(values[kept], 1.25))
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), values)  # the same elements, the same factor
