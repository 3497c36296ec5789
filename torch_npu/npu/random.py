"""Random numbers: one generator for each card. They are host state, so that nothing here initialises a card."""

from collections.abc import Iterable

import torch

from torch_npu import _C
from torch_npu.npu.devices import current_device, device_count, is_initialized as is_initialized

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def default_generators() -> tuple[torch.Generator, ...]:
    """The generators of all cards; torch.npu.default_generators is this tuple."""
    return tuple(_C.default_generator(index) for index in range(device_count()))


def get_default_generator(device_index: int):
    """The generator of a card."""
    if isinstance(device_index, bool) or not isinstance(device_index, int):
        raise TypeError(f"device_index must be an int, but got {type(device_index).__name__}")
    if not 0 <= device_index < device_count():
        raise ValueError(f"device_index {device_index} is not a card: this process sees {device_count()}")
    return _C.default_generator(device_index)


def _get_generator(device) -> torch.Generator:
    index = _C.device_index(device)
    return _C.default_generator(current_device() if index < 0 else index)


def get_rng_state(device: int | str | torch.device = "npu") -> torch.Tensor:
    """The state of a card's generator as a ByteTensor on the CPU."""
    return _get_generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: int | str | torch.device = "npu") -> None:
    """Puts a card's generator into a state that get_rng_state() returned."""
    _get_generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all cards."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Puts the generators of all cards into the given states."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current card's generator. Ignored where there is no npu."""
    if device_count():
        _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all cards. torch.manual_seed() calls it."""
    for generator in default_generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current card's generator with a random number. Ignored where there is no npu."""
    if device_count():
        _get_generator(None).seed()


def seed_all() -> None:
    """Seeds the generators of all cards with one random number."""
    if generators := default_generators():
        manual_seed_all(generators[0].seed())


def initial_seed() -> int:
    """The seed of the current card's generator."""
    return _get_generator(None).initial_seed()


def _set_rng_state_offset(offset: int, device: int | str | torch.device = "npu") -> None:
    _get_generator(device).set_offset(offset)


def _get_rng_state_offset(device: int | str | torch.device = "npu") -> int:
    return _get_generator(device).get_offset()
