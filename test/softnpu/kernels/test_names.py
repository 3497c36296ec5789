"""Every aclnn name that softnpu implements has a checked result: through the adapter's operators, or here by its name."""

import ctypes
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import abi_calls  # noqa: E402
from names import CASES  # noqa: E402


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_name_that_the_adapter_does_not_call_gives_plain_torchs_result(name):
    for function in CASES[name]:
        function(name)


def test_an_executor_ends_through_the_library_in_which_the_official_client_looks():
    opapi, _ = abi_calls.libraries()
    compiler = ctypes.CDLL(str(Path(opapi._name).parent / "libacl_op_compiler.so"))
    x = torch.zeros(3, device="npu")
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    abi_calls.check(
        opapi.aclnnAbsGetWorkspaceSize(*map(ctypes.c_void_p, map(abi_calls.tensor, (x, x))), ctypes.byref(size), ctypes.byref(executor))
    )
    assert compiler.aclDestroyAclOpExecutor(executor) == 0
    assert compiler.aclDestroyAclOpExecutor(executor) != 0
    with pytest.raises(abi_calls.Refused, match="phase two"):
        abi_calls.check(opapi.aclnnAbs(None, size, executor, None) or compiler.aclDestroyAclOpExecutor(executor))
