"""Functions of two operands whose types differ, and of a tensor and a number of each kind: programs.py runs these for "mixed:NAME"."""

import torch
from programs import TYPES, healthy, record, to_npu

NAMES = """add sub mul div floor_divide remainder fmod pow atan2 maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor
bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift xlogy copysign isclose rsub""".split()
FUNCTIONS = {name: getattr(torch, name) for name in NAMES}
FUNCTIONS |= {f"div {way}": lambda a, b, way=way: torch.div(a, b, rounding_mode=way) for way in (None, "trunc", "floor")}
FUNCTIONS |= {f"div_ {way}": lambda a, b, way=way: a.clone().div_(b, rounding_mode=way) for way in (None, "trunc", "floor")}
IN_PLACE = ("add_", "sub_", "mul_", "div_", "remainder_", "fmod_", "copy_")
FUNCTIONS |= {name: lambda a, b, name=name: getattr(a.clone(), name)(b) for name in IN_PLACE}
FUNCTIONS["where"] = lambda a, b: torch.where(a.bool(), a, b)
WITH_OUT = ("add", "sub", "mul", "div", "eq", "lt")
NUMBERS = {"int": 3, "float": 1.5, "bool": True}


def operand(dtype, shape):
    return to_npu(torch.ones(shape, dtype=getattr(torch, dtype)))


def run(name):
    """With a tensor of one number as well, whose type counts for less; and with an output of each type."""
    function = FUNCTIONS[name]
    for first in TYPES:
        given = {f"{second}{len(shape)}": ((operand(first, (3,)), operand(second, shape)), {}) for second in TYPES for shape in ((3,), ())}
        given |= {kind: ((operand(first, (3,)), number), {}) for kind, number in NUMBERS.items()}
        if name in WITH_OUT:
            given |= {f"out {wide}": ((operand(first, (3,)), operand(first, (3,))), {"out": operand(wide, (3,))}) for wide in TYPES}
        if not all(record(f"mixed:{name}|{first} {label}", arguments, function, False) for label, arguments in given.items()):
            return False
    return healthy()
