"""Which tests belong to a source file: the ones that a mutant of it is given to. A file without a row is not mutated."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "test/python/test_"
# Source file or folder below torch_npu/ -> arguments of pytest.
TESTS = {
    "_torchvision/": [f"{PYTHON}torchvision.py"],
    "contrib/_transfer/": [f"{PYTHON}transfer_to_npu.py"],
    "contrib/transfer_to_npu.py": [f"{PYTHON}transfer_to_npu.py"],
    "contrib/function/": ["test/contrib/test_functions.py", "test/contrib/test_gradients_and_shapes.py"],
    "contrib/module/": ["test/contrib/test_modules.py", "test/contrib/test_gradients_and_shapes.py"],
    "custom_ops/__init__.py": ["test/custom_ops/test_custom_ops.py", "-k", "rms or refus or functions or schema"],
    "migrate/analysis/": [f"{PYTHON}migrate_analyse.py"],
    "migrate/profiling.py": [f"{PYTHON}migrate_analyse.py", f"{PYTHON}migrate_convert.py"],
    "migrate/": [f"{PYTHON}migrate_convert.py", f"{PYTHON}migrate_analyse.py"],
    "npu/amp/": [f"{PYTHON}amp.py"],
    "npu/autocast_utils.py": [f"{PYTHON}amp.py"],
    "npu/overflow.py": [f"{PYTHON}amp.py"],
    "npu/devices.py": [f"{PYTHON}devices.py", f"{PYTHON}visible_devices.py"],
    "npu/memory.py": [f"{PYTHON}memory.py"],
    "npu/random.py": [f"{PYTHON}random.py"],
    "npu/streams.py": [f"{PYTHON}streams.py"],
    "npu/tensor_types.py": [f"{PYTHON}tensor_types.py"],
    "npu/utils.py": [f"{PYTHON}utils.py", f"{PYTHON}amp.py", f"{PYTHON}devices.py"],
    "optim/": ["test/optim/test_fused_optimizers.py"],
    "utils/combine_tensors.py": ["test/optim/test_combine_tensors.py"],
    "utils/op_support.py": [f"{PYTHON}utils.py"],
    "utils/serialization.py": [f"{PYTHON}serialization.py"],
}
# Families of custom operators with a test file of their own; the others are tested case by case, named after the operator.
FAMILIES = {
    "attention": ["test/custom_ops/test_attention.py"],
    "attention_core": ["test/custom_ops/test_attention.py"],
    "inference": ["test/custom_ops/test_attention.py"],
    "dropout": ["test/custom_ops/test_random_and_steps.py"],
    "optimizer": ["test/custom_ops/test_random_and_steps.py"],
}
NOT_CODE = {"custom_ops/schemas.py", "custom_ops/refused.py"}  # tables, compared with facts by tests


def tests_of(path: str, function: str) -> list[str] | None:
    """Arguments of pytest for a mutant in `function` of torch_npu/<path>; None: the file is not mutated."""
    if path in NOT_CODE:
        return None
    folder, _, name = path.rpartition("/")
    if folder == "custom_ops" and name != "__init__.py":
        family = name.removesuffix(".py")
        return FAMILIES.get(family) or ["test/custom_ops/test_custom_ops.py", "-k", " or ".join(cases(family, function))]
    return next((tests for key, tests in TESTS.items() if path == key or (key.endswith("/") and path.startswith(key))), None)


@cache
def cases(family: str, function: str) -> list[str]:
    """The operators whose cases go through `function`: itself, or all that call it."""
    tree = ast.parse((ROOT / f"torch_npu/custom_ops/{family}.py").read_text())
    functions = {node.name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                 for node in tree.body if isinstance(node, ast.FunctionDef)}
    reached, before = {function}, set()
    while reached != before:
        before = set(reached)
        reached |= {name for name, used in functions.items() if used & reached}
    public = sorted(name for name in reached if not name.startswith("_"))
    return public or sorted(name for name in functions if not name.startswith("_"))
