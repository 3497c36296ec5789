"""Faults of a card on demand, in the process that uses it. See "Faults on demand" in docs/softnpu.md."""

import ctypes
from enum import IntEnum

from softnpu import place


class Fault(IntEnum):
    """Codes that a failing card returns; the C function takes any other code, too."""

    MEMORY = 507053  # an error of the card's memory, at an address
    MEMORY_ECC = 507054
    MEMORY_SUSPECT = 507055
    LINK = 507056  # the link to another card
    REMOTE = 507057  # another card is suspected
    HEARTBEAT = 507010  # the card is lost until it is reset
    DRIVER = 507899  # as well


def break_down(card: int, fault: int, address: int = 0, size: int = 0) -> None:
    """Lets `card` fail: its streams drop their work, and the next synchronise of each returns the code `fault`. With `address` and `size`
    (bytes), an error of memory is known by its place until it is repaired. The card must be open: use it before."""
    found = place.loaded()
    if found is None:
        raise RuntimeError("break_down: this process has not loaded softnpu; use a card first (start the program with `softnpu run --`)")
    function = ctypes.CDLL(found).softnpu_break_down
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    code = function(card, int(fault), address or None, size)
    if code:
        raise RuntimeError(f"break_down: card {card} cannot fail: {_last_message(found) or 'it is not open'} (code {code})")


def _last_message(library: str) -> str:
    message = ctypes.CDLL(library).aclGetRecentErrMsg
    message.restype = ctypes.c_char_p
    return (message() or b"").decode(errors="replace").strip()
