"""torch.npu: the device, stream, event, memory and random functions of torch.cuda, for the npu device.

Nothing here touches a card before it is used; questions (count, name, memory) never do.
"""

from torch._C import AcceleratorError as AcceleratorError, OutOfMemoryError as OutOfMemoryError

from torch_npu.npu import (
    _gpu_trace as _gpu_trace,
    aclnn as aclnn,
    amp as amp,
    backends as backends,
    graphs as graphs,
    memory as memory,
    nvtx as nvtx,
    random as random,
    streams as streams,
    utils as utils,
)
from torch_npu.npu._dump import *  # noqa: F403
from torch_npu.npu._further import *  # noqa: F403
from torch_npu.npu._recovery import *  # noqa: F403
from torch_npu.npu._recovery import _get_uce_addr as _get_uce_addr
from torch_npu.npu.autocast_utils import *  # noqa: F403
from torch_npu.npu.backends import (
    enable_flash_sdp as enable_flash_sdp,
    enable_math_sdp as enable_math_sdp,
    enable_mem_efficient_sdp as enable_mem_efficient_sdp,
    flash_sdp_enabled as flash_sdp_enabled,
    math_sdp_enabled as math_sdp_enabled,
    mem_efficient_sdp_enabled as mem_efficient_sdp_enabled,
    preferred_linalg_library as preferred_linalg_library,
    sdp_kernel as sdp_kernel,
)
from torch_npu.npu.core_limits import *  # noqa: F403
from torch_npu.npu.deterministic import *  # noqa: F403
from torch_npu.npu.devices import *  # noqa: F403
from torch_npu.npu.devices import (
    _get_device_index as _get_device_index,
    _is_in_bad_fork as _is_in_bad_fork,
    _lazy_call as _lazy_call,
    _lazy_init as _lazy_init,
)
from torch_npu.npu.graphs import *  # noqa: F403
from torch_npu.npu.memory import *  # noqa: F403
from torch_npu.npu.mstx import mstx as mstx  # the class, as with the official plugin; its module is in sys.modules
from torch_npu.npu.npu_config import *  # noqa: F403
from torch_npu.npu.npu_config import CubeMathType as CubeMathType, config as config, conv as conv, matmul as matmul
from torch_npu.npu.overflow import clear_npu_overflow_flag as clear_npu_overflow_flag, get_npu_overflow_flag as get_npu_overflow_flag
from torch_npu.npu.random import *  # noqa: F403
from torch_npu.npu.random import (
    _get_generator as _get_generator,
    _get_rng_state_offset as _get_rng_state_offset,
    _set_rng_state_offset as _set_rng_state_offset,
    get_default_generator as get_default_generator,
)
from torch_npu.npu.streams import *  # noqa: F403
from torch_npu.npu.sync_debug import *  # noqa: F403
from torch_npu.npu.tensor_types import *  # noqa: F403


def __getattr__(name: str):
    if name == "default_generators":
        return random.default_generators()
    if name == "_initialized":  # torch.utils.checkpoint asks whether there is random state to keep
        return is_initialized()  # noqa: F405
    if name == "npugraph_ex":  # imports torch.compile's modules, which takes seconds
        from importlib import import_module

        return import_module("torch_npu.npu.npugraph_ex")
    raise AttributeError(f"module 'torch.npu' has no attribute '{name}'")
