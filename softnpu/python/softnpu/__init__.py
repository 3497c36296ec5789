"""softnpu: a software NPU behind CANN's library names, to test NPU code on machines that have no NPU.

    softnpu run -- python train.py        any client of the CANN C ABI finds softnpu: the official torch-npu wheel, a C++ program
    softnpu info                          the cards that a program would get

    import softnpu
    softnpu.configure(cards=2, memory="1G", strict=True)     # before the first use of a device in this process
    subprocess.run(command, env=softnpu.environment(cards=2))
    softnpu.break_down(0, softnpu.Fault.LINK)                # a card fails

Importing it loads nothing and changes nothing. docs/softnpu.md describes the software NPU, docs/ci.md how to test with it.
"""

from importlib.metadata import PackageNotFoundError as _NotFound, version as _version

from softnpu.faults import Fault as Fault, break_down as break_down
from softnpu.place import library_folder as library_folder, toolkit as toolkit
from softnpu.settings import configure as configure, environment as environment

try:
    __version__ = _version("softnpu")
except _NotFound:  # from a checkout
    __version__ = "unknown"
