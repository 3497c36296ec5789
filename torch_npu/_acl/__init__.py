"""`import acl` where CANN's Python interface is not installed: what programs ask of a machine before they use torch.

As there, functions return (value, code), code 0 for success; anything else of CANN's interface says that it is not here.
"""

from torch_npu import _C
from torch_npu._acl import rt as rt
from torch_npu._refusal import refusing_getattr


def init(config_path: str | None = None) -> int:
    """Initialises the runtime."""
    if config_path:
        raise NotImplementedError("acl.init of torch_npu takes no configuration file: set TORCH_ACL_INIT_CONFIG_PATH")
    _C.init()
    return 0


def finalize() -> int:
    """The runtime ends with the process; ending it earlier would take torch's tensors with it."""
    return 0


def get_soc_name() -> str:
    """The name of the cards, for example Ascend910B1."""
    return _C.get_soc_name()


__getattr__ = refusing_getattr("acl", {}, "torch_npu stands in for CANN's Python interface with init, get_soc_name and a few functions of "
                               "acl.rt; install CANN's, or use torch.npu")
