"""The version of CANN's operator library."""

import warnings

__all__ = ["version"]


def version():
    """None, with a warning: the library does not tell its version. torch_npu.npu.utils.get_cann_version("OPP") is what there is."""
    warnings.warn('the aclnn library does not tell its version; ask torch_npu.npu.utils.get_cann_version("OPP")', stacklevel=2)
