"""Which dtypes an operator takes on npu, and how: what a sweep over torch's operator database has shown.

The data is dtypes.txt, written by test/ops/dtype_support.py. It was measured on softnpu; an Ascend card may take less.
"""

import functools
from pathlib import Path

from torch_npu.migrate.analysis.operators import Support

DATA = Path(__file__).with_name("dtypes.txt")
DIFFERS = "differs"
_WORDS = {"e": str(Support.EXTENSION), "f": str(Support.FALLBACK), "x": DIFFERS}


@functools.cache
def _table() -> tuple[list[str], dict[str, str]]:
    """The dtypes, and for an operator under each of its names (linalg.det, linalg_det) one letter for each of them."""
    head, *rows = (line for line in DATA.read_text().splitlines() if not line.startswith("#"))
    letters = dict(row.split() for row in rows)
    named = {name.replace(".", "_"): text for name, text in letters.items()}
    functional = {name.rpartition(".")[2]: text for name, text in letters.items() if name.startswith("nn.functional.")}
    return head.split(), {**functional, **named, **letters}


def dtypes_of(name: str, support: Support | None) -> dict[str, str]:
    """dtype -> native, extension, composite, fallback or differs (not as on the CPU), for an operator such as aten::relu or
    a function such as torch.linalg.det whose support is known; without the dtypes that the CPU does not take either.

    Empty for what the sweep does not know."""
    dtypes, letters = _table()
    short = name.removeprefix("aten::").removeprefix("torch.").removeprefix("Tensor.")
    text = letters.get(short) or letters.get(short.removesuffix("_"), "")
    own = str(Support.NATIVE if support is None else support)
    return {dtype: _WORDS.get(letter, own) for dtype, letter in zip(dtypes, text) if letter != "-"}
