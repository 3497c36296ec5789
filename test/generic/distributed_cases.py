"""torch's own tests of process groups and DDP (torch.testing._internal.distributed.distributed_test), on npu over hccl.

They are written for CUDA and NCCL; transfer_to_npu makes of them tests of this backend. The environment is set before the import, which
reads it. Ranks are processes that import this module again.
"""

import os
import tempfile

os.environ.setdefault("BACKEND", "nccl")  # transfer_to_npu: hccl
os.environ.setdefault("WORLD_SIZE", "2")
if "TEMP_DIR" not in os.environ:
    os.environ["TEMP_DIR"] = tempfile.mkdtemp(prefix="torch-distributed-")
for folder in ("barrier", "test_dir", "init_dir"):
    os.makedirs(os.path.join(os.environ["TEMP_DIR"], folder), exist_ok=True)

from torch.testing._internal import common_distributed  # noqa: E402
from torch.testing._internal.common_utils import run_tests  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

import torch_npu.contrib.transfer_to_npu  # noqa: E402, F401

# transfer_to_npu tells modules of torch the truth, that there is no CUDA. These two are programs that use torch, and are named like one.
for module in (common_distributed, distributed_test):
    module.__name__ = "test." + module.__name__
common_distributed.TEST_CUDA = True


class TestHccl(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()


if __name__ == "__main__":
    run_tests()
