"""torch's own tests of graphs (test/test_cuda.py), on npu. Run: python test/generic/graph_cases.py FILE [NAME ...]

The wheel does not have FILE: take it from PyTorch's repository, or from Debian's `apt-get source pytorch`. Its graph cases are run with
the names mapped: torch.cuda is torch.npu, "cuda" is "npu", CUDAGraph is NPUGraph, words of errors likewise. Prints each case, and counts;
fails if one fails that is not in EXPECTED.
"""

import ast
import importlib.util
import re
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch.testing._internal import common_utils

import torch_npu  # noqa: F401

NAMES = [
    (r"\btorch\.cuda\b(?!\._memory_viz)", "torch.npu"),
    (r"""(["'])cuda\1(?! in optim)""", r"\1npu\1"),
    (r"\bCUDAGraph\b", "NPUGraph"),
    (r"\.cuda\(\)", ".npu()"),
    (r"CUDA graphs must", "NPU graphs must"),
    (r"The CUDA Graph is empty", "The NPU Graph is empty"),
    (r"Attempting CUDA graph", "Attempting NPU graph"),
    (r"CUDAGeneratorImpl::", "NPUGeneratorImpl::"),
    (r"@onlyCUDA\n", "@onlyPRIVATEUSE1\n"),
    (r"    onlyCUDA,\n", "    onlyCUDA, onlyPRIVATEUSE1,\n"),
    (r"torch\.npu\._sleep\([^)]*\)", "None"),  # an npu has no kernel that only waits
]

# Case -> why it does not hold on an npu.
EXPECTED = {
}


def is_graph_case(name: str) -> bool:
    return name.startswith("test") and ("graph" in name) and name != "test_streaming_backwards_sync_graph_root"


def source_of(path: Path) -> str:
    """The file with the names mapped, without the cases that are not of graphs."""
    text = path.read_text()
    for pattern, name in NAMES:
        text = re.sub(pattern, name, text)
    tree = ast.parse(text)
    body = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.body = [each for each in node.body if not isinstance(each, ast.FunctionDef)
                         or not each.name.startswith("test") or is_graph_case(each.name)]
            if not any(isinstance(each, ast.FunctionDef) and is_graph_case(each.name) for each in node.body):
                continue
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):  # instantiate_...(Class, ...)
            arguments = [each.id for each in node.value.args if isinstance(each, ast.Name)]
            if not {"TestCuda", "TestCudaOptims"} & set(arguments):
                continue
        elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        body.append(node)
    tree.body = body
    return ast.unparse(tree)


def load(path: Path):
    common_utils.TEST_CUDA = common_utils.TEST_CUDA_GRAPH = True
    if torch.version.cuda is None:
        torch.version.cuda = "12.6"  # some cases ask for at least 11
    copy = Path(tempfile.mkdtemp()) / "graph_cases_of_torch.py"
    copy.write_text(source_of(path))
    spec = importlib.util.spec_from_file_location("graph_cases_of_torch", copy)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Result(unittest.TextTestResult):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.outcomes: dict[str, str] = {}

    def stopTest(self, test):
        super().stopTest(test)
        name = test._testMethodName
        skipped = {each.id(): why for each, why in self.skipped}
        if test.id() in {each.id() for each, _ in self.failures + self.errors}:
            self.outcomes[name] = "failed"
        else:
            self.outcomes[name] = f"skipped: {skipped[test.id()]}" if test.id() in skipped else "passed"


def main() -> None:
    path, names = Path(sys.argv[1]), sys.argv[2:]
    module = load(path)
    suite = unittest.TestSuite()
    for tests in unittest.TestLoader().loadTestsFromModule(module):
        for test in tests:
            if is_graph_case(test._testMethodName) and (not names or any(name in test._testMethodName for name in names)):
                suite.addTest(test)
    result = unittest.TextTestRunner(resultclass=Result, verbosity=0).run(suite)
    bad = 0
    for name, outcome in result.outcomes.items():
        if outcome == "failed":
            reason = next((why for case, why in EXPECTED.items() if name.startswith(case)), None)
            bad += reason is None
            outcome = f"FAILED{'' if reason is None else ', as expected: ' + reason}"
        print(f"{name}: {outcome}")
    outcomes = list(result.outcomes.values())
    print(f"{len(outcomes)} cases: {outcomes.count('passed')} passed, {outcomes.count('failed')} failed ({bad} of them unexpectedly), "
          f"{sum(outcome.startswith('skipped') for outcome in outcomes)} skipped")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
