"""Which torch_npu this is."""

from torch_npu import __version__ as __version__
from torch_npu._C import version as _built

git_version = _built  # what was built; wheels carry no commit
