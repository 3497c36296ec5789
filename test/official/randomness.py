"""Random numbers: reproducible from a seed, and of the right distribution."""

import torch
from rows import each

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


def even(draw):
    return draw(torch.empty(COUNT, device="npu")).float().cpu()


# A distribution: what fills a tensor, and the mean and standard deviation that it must have.
DISTRIBUTIONS = {
    "uniform_": (lambda x: x.uniform_(), 0.5, 12**-0.5),
    "uniform_ between": (lambda x: x.uniform_(-2, 4), 1, 6 * 12**-0.5),
    "normal_": (lambda x: x.normal_(), 0, 1),
    "normal_ of": (lambda x: x.normal_(3, 0.5), 3, 0.5),
    "exponential_": (lambda x: x.exponential_(2.0), 0.5, 0.5),
    "geometric_": (lambda x: x.geometric_(0.5), 2, 2**0.5),
    "log_normal_": (lambda x: x.log_normal_(0, 0.25), 1.0317, 0.262),
    "random_ below": (lambda x: x.random_(10), 4.5, 2.872),
    "random_ between": (lambda x: x.random_(5, 15), 9.5, 2.872),
    "bernoulli_": (lambda x: x.bernoulli_(0.25), 0.25, 0.433),
    "bernoulli_ of a tensor": (lambda x: x.bernoulli_(torch.full_like(x, 0.75)), 0.75, 0.433),
    "rand": (lambda x: torch.rand(COUNT, device=x.device), 0.5, 12**-0.5),
    "rand_like": (torch.rand_like, 0.5, 12**-0.5),
    "randn": (lambda x: torch.randn(COUNT, device=x.device), 0, 1),
    "randn_like": (torch.randn_like, 0, 1),
    "randn in half precision": (lambda x: torch.randn(COUNT, device=x.device, dtype=torch.float16), 0, 1),
    "rand in bfloat16": (lambda x: torch.rand(COUNT, device=x.device, dtype=torch.bfloat16), 0.5, 12**-0.5),
    "randint": (lambda x: torch.randint(0, 10, (COUNT,), device=x.device), 4.5, 2.872),
    "randint_like": (lambda x: torch.randint_like(x, 0, 10), 4.5, 2.872),
    "normal of tensors": (lambda x: torch.normal(torch.full_like(x, 2), torch.full_like(x, 3)), 2, 3),
    "normal of a mean": (lambda x: torch.normal(torch.full_like(x, 2), 3.0), 2, 3),
    "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, 0.25)), 0.25, 0.433),
    "multinomial": (lambda x: torch.multinomial(torch.tensor([1.0, 1, 1, 1], device=x.device), COUNT, replacement=True), 1.5, 1.118),
    "dropout": (lambda x: torch.nn.functional.dropout(torch.ones_like(x), 0.5), 1, 1),
    "distribution of Normal": (lambda x: torch.distributions.Normal(torch.zeros_like(x), 2.0).sample(), 0, 2),
    "distribution of Categorical": (lambda x: torch.distributions.Categorical(torch.ones(4, device=x.device)).sample((COUNT,)), 1.5, 1.118),
    "distribution of Laplace": (lambda x: torch.distributions.Laplace(torch.zeros_like(x), 1.0).sample(), 0, 2**0.5),
    "kaiming": (lambda x: torch.nn.init.kaiming_uniform_(x.view(128, 128)).flatten(), 0, (2 / (1 + 5 * 0) / 128) ** 0.5),
    "xavier": (lambda x: torch.nn.init.xavier_normal_(x.view(128, 128)).flatten(), 0, (2 / 256) ** 0.5),
    "truncated normal": (lambda x: torch.nn.init.trunc_normal_(x, a=-2, b=2), 0, 0.8796),
}


@each(DISTRIBUTIONS)
def check_mean_and_deviation(row):
    draw, mean, deviation = row
    torch.npu.manual_seed(0)
    found = even(draw)
    assert abs(found.mean() - mean) < 0.06 * max(deviation, 0.2), found.mean()
    assert abs(found.std() - deviation) < 0.06 * max(deviation, 0.2), found.std()


# The client draws the others on the CPU, whose seed is another.
@each({name: row for name, row in DISTRIBUTIONS.items() if name not in ("geometric_", "log_normal_")})
def check_a_seed_repeats_and_another_does_not(row):
    draw, first = row[0], []
    for seed in (1, 1, 2):
        torch.npu.manual_seed(seed)
        first.append(even(draw))
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])


def check_permutations():
    torch.npu.manual_seed(0)
    found = [torch.randperm(100, device="npu") for _ in range(2)]
    assert all(sorted(each.tolist()) == list(range(100)) for each in found) and not torch.equal(*found)


def check_sampling_without_replacement_repeats_nothing():
    found = torch.multinomial(torch.ones(50, device="npu"), 50)
    assert sorted(found.tolist()) == list(range(50))


def check_weights_of_zero_are_not_drawn():
    found = torch.multinomial(torch.tensor([0.0, 1.0, 0.0, 3.0], device="npu"), 1000, replacement=True).cpu()
    assert set(found.tolist()) == {1, 3} and 650 < (found == 3).sum() < 850


def drawn(card=0):
    return torch.rand(5, device=f"npu:{card}").tolist()


def check_torch_manual_seed_is_for_all_cards():
    torch.manual_seed(3)
    first = [drawn(card) for card in (0, 1)]
    torch.manual_seed(3)
    assert [drawn(card) for card in (0, 1)] == first


def check_manual_seed_is_for_the_current_card():
    torch.npu.manual_seed_all(1)
    drawn(1)
    other = torch.npu.get_rng_state(1)
    torch.npu.manual_seed(9)
    assert torch.equal(torch.npu.get_rng_state(1), other)


def check_initial_seed_is_the_given_one():
    torch.npu.manual_seed(77)
    assert torch.npu.initial_seed() == 77


@each({"seed": torch.npu.seed, "seed_all": torch.npu.seed_all})
def check_seeds_by_chance_differ(function):
    torch.npu.manual_seed(1)
    first = drawn()
    torch.npu.manual_seed(1)
    function()
    assert drawn() != first


def check_states_of_all_cards():
    torch.npu.manual_seed_all(1)
    states = torch.npu.get_rng_state_all()
    assert len(states) == torch.npu.device_count()
    first = [drawn(card) for card in (0, 1)]
    torch.npu.set_rng_state_all(states)
    assert [drawn(card) for card in (0, 1)] == first


def check_forked_numbers_do_not_count():
    torch.npu.manual_seed(4)
    state = torch.npu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        drawn()
    assert torch.equal(torch.npu.get_rng_state(), state)


def check_default_generators():
    torch.npu.init()
    generator = torch.npu.default_generators[0]
    generator.manual_seed(11)
    first = drawn()
    torch.npu.manual_seed(11)
    assert drawn() == first and generator.device == torch.device("npu:0")


def check_a_generator_has_its_own_state():
    generator = torch.Generator("npu")
    generator.manual_seed(5)
    state = generator.get_state()
    first = torch.rand(5, device="npu", generator=generator).tolist()
    generator.set_state(state)
    assert torch.rand(5, device="npu", generator=generator).tolist() == first
    torch.npu.manual_seed(5)
    before = torch.npu.get_rng_state()
    torch.rand(5, device="npu", generator=generator)
    assert torch.equal(torch.npu.get_rng_state(), before)


def check_a_generator_of_the_cpu_is_refused():
    try:
        torch.rand(5, device="npu", generator=torch.Generator())
    except RuntimeError as error:
        assert "generator" in str(error).lower()
    else:
        raise AssertionError("a CPU's generator")


def check_clones_of_generators_go_the_same_way():
    generator = torch.Generator("npu").manual_seed(6)
    torch.rand(3, device="npu", generator=generator)
    twin = generator.clone_state() if hasattr(generator, "clone_state") else torch.Generator("npu").set_state(generator.get_state())
    assert torch.equal(*(torch.rand(5, device="npu", generator=each).cpu() for each in (generator, twin)))
