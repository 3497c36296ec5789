"""torch.npu's generators: seeds, states, forks."""

import pytest
import torch

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")
pytestmark = pytest.mark.usefixtures("restore_device")


def draw(device="npu"):
    return torch.rand(100, device=device).cpu()


def test_same_seed_same_numbers():
    torch.manual_seed(7)
    first, second = draw(), draw()
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert torch.equal(draw(), first)
    torch.npu.manual_seed(7)
    assert torch.equal(draw(), first)
    assert torch.npu.initial_seed() == 7
    torch.npu.manual_seed_all(8)
    assert not torch.equal(draw(), first)


def test_the_cpu_generator_is_left_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    draw()
    assert torch.equal(torch.rand(3), expected)


@two_cards
def test_each_card_has_its_generator():
    torch.manual_seed(7)
    first = draw("npu:0")
    draw("npu:0")
    assert torch.equal(draw("npu:1"), first)


@two_cards
def test_manual_seed_seeds_the_current_card_only():
    torch.npu.manual_seed_all(1)
    before = torch.npu.get_rng_state(0)
    with torch.npu.device(1):
        torch.npu.manual_seed(2)
        assert torch.npu.initial_seed() == 2
    assert torch.equal(torch.npu.get_rng_state(0), before)


def test_state_round_trip():
    state = torch.npu.get_rng_state()
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    first = draw()
    torch.npu.set_rng_state(state)
    assert torch.equal(draw(), first)
    states = torch.npu.get_rng_state_all()
    assert len(states) == torch.npu.device_count()
    torch.npu.set_rng_state_all(states)
    with pytest.raises((RuntimeError, TypeError)):
        torch.npu.set_rng_state(torch.zeros(3))


def test_offset():
    torch.npu.manual_seed(7)
    assert torch.npu._get_rng_state_offset() == 0
    first = draw()
    assert torch.npu._get_rng_state_offset() > 0
    torch.npu._set_rng_state_offset(0)
    assert torch.equal(draw(), first)


def test_random_seeds_differ():
    torch.npu.seed()
    first = torch.npu.initial_seed()
    torch.npu.seed_all()
    assert torch.npu.initial_seed() != first
    assert len({generator.initial_seed() for generator in torch.npu.default_generators}) == 1


def test_default_generators_are_the_ones_in_use():
    assert len(torch.npu.default_generators) == torch.npu.device_count()
    torch.npu.default_generators[0].manual_seed(3)
    assert torch.npu.initial_seed() == 3
    assert torch.npu.default_generators[0].device == torch.device("npu:0")


def test_own_generator():
    generator = torch.Generator("npu").manual_seed(5)
    default = torch.npu.get_rng_state()
    first = torch.rand(10, device="npu", generator=generator)
    assert torch.equal(torch.npu.get_rng_state(), default)
    generator.manual_seed(5)
    assert torch.equal(torch.rand(10, device="npu", generator=generator), first)
    with pytest.raises(RuntimeError, match="[Gg]enerator"):
        torch.rand(10, device="npu", generator=torch.Generator("cpu"))


def test_fork_rng():
    torch.manual_seed(7)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.manual_seed(99)
        inside = draw()
    outside = draw()
    torch.manual_seed(7)
    assert torch.equal(draw(), outside)
    assert not torch.equal(inside, outside)


def test_seed_before_first_use_is_kept(check):
    numbers = "print(torch.rand(3, device='npu').tolist())"
    assert check("torch.manual_seed(5)\n" + numbers) == check("torch.empty(1, device='npu'); torch.manual_seed(5)\n" + numbers)


def test_multinomial_refuses_too_many_categories():
    with pytest.raises(RuntimeError) as cpu:
        torch.multinomial(torch.ones(2**24 + 1), 3)
    with pytest.raises(RuntimeError) as npu:
        torch.multinomial(torch.ones(2**24 + 1, device="npu"), 3)
    assert type(npu.value) is type(cpu.value)
    assert str(npu.value).splitlines()[0] == str(cpu.value).splitlines()[0] == "number of categories cannot exceed 2^24"
    assert torch.multinomial(torch.ones(2**24, device="npu"), 3).shape == (3,)


def test_one_card_is_seeded_by_all(check):
    code = "torch.npu.manual_seed(5); torch.npu.seed_all(); print(torch.npu.device_count(), torch.npu.initial_seed() != 5)"
    assert check(code, ASCEND_RT_VISIBLE_DEVICES="0") == "1 True"
