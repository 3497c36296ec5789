#!/usr/bin/env python3
"""What a client of CANN links and looks up by name, against what softnpu has: `client_symbols.py FOLDER [BUILD] [--list]`.

FOLDER is the package torch_npu of an installed official wheel, or any folder with libraries; BUILD the build folder (default build). A
linked name is one that the client's libraries leave undefined. A looked-up name is a text in them, because dlsym takes one: of an
operator the pair NAME and NAMEGetWorkspaceSize, of other functions a text that has the form of CANN's names and is not in TEXTS. Fails if
the client asks for a name that abi/symbols.txt does not have, or links one that softnpu has not.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import check_symbols

NAME = re.compile(rb"(?<=\0)("
                  rb"acl(?:nn|rt|op|mdl|prof|sys|tdt|sk)?[A-Z]\w+|aclshmem\w+|Hccl[A-Z]\w+|Hcom\w+|Lcc?a?l[A-Z]\w+|PTA[A-Z]\w+|Msprof\w+"
                  rb"|mspti[A-Z]\w+|mstx[A-Z]\w+|hal[A-Z]\w+|rt[A-Z]\w+|dcmi(?:v2)?_\w+|shmem_\w+|SetPTA\w+|\w+PTACache\w*"
                  rb"|\w*InitHugeMem\w+|ReleaseHugeMem|AddTensorAddrToCachedList)(?=\0)")
# Words of messages in the official wheel, which have the form of a name.
TEXTS = frozenset("""
    HcclAllgather HcclAllgatherBase HcclAllgatherTogather HcclAllreduce HcclAlltoAll_SendRecv HcclCommActivateCommMemoryFace
    HcclCommDeactivateCommMemoryFace HcclCommList HcclCommResumeFace HcclCommSetMemoryRangeFace HcclCommUnsetMemoryRangeFace
    HcclGather_SendRecv HcclGetCommNameFace HcclReduceScatterBase HcclScatter_SendRecv LcclAllgather LcclAllreduce LcclCommInit
    LcclCommInitRankLocal aclProfilingCreateConfig aclProfilingDestroyConfig aclProfilingInit aclProfilingStart aclProfilingStop
    aclQueryEventRecordedStatus aclQueryEventWaitStatus aclStressDetect aclnnNotFound aclnnNotFoundV2
""".split())
# Libraries that `import torch_npu` does not load, by a part of their path, and what they need that softnpu is none of.
APART = {"torchair": "CANN's graph engine (C++ classes)", "libop_plugin_atb": "the transformer boost library (C++ classes)"}


def undefined(library: Path) -> set[str]:
    output = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in output.splitlines() if " w " not in line}


def is_cann(name: str) -> bool:
    return bool(check_symbols.CANN_NAME.match(name))


def texts(library: Path) -> set[str]:
    """Of its constants; the names that it links stand elsewhere."""
    sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    content, found = library.read_bytes(), set()
    for offset, size in re.findall(r"\s\.rodata\S*\s+PROGBITS\s+\w+ (\w+) (\w+)", sections):
        start = int(offset, 16)
        found |= {name.decode() for name in NAME.findall(b"\0" + content[start:start + int(size, 16)])}
    return found


class Client:
    def __init__(self, folder: Path):
        self.linked: set[str] = set()
        self.apart: Counter[str] = Counter()  # names that libraries of APART link and softnpu lacks
        names: set[str] = set()
        self.c_linked_apart: set[str] = set()
        libraries = sorted(folder.rglob("*.so"))
        if not libraries:
            sys.exit(f"{folder} holds no library; give the folder of an installed torch_npu")
        for library in libraries:
            part = next((part for part in APART if part in str(library.relative_to(folder))), None)
            asked = {name for name in undefined(library) if is_cann(name)}
            if part:
                self.c_linked_apart |= asked
                self.apart[part] += sum(name.startswith("_ZN") and bool(re.match(r"_ZNK?(2ge|3atb)", name)) for name in undefined(library))
                continue
            self.linked |= asked
            names |= texts(library)
        self.operators = {name for name in names if name + "GetWorkspaceSize" in names}
        functions = {name for name in names if not name.endswith("GetWorkspaceSize")} - self.operators - TEXTS
        self.looked_up = self.operators | functions


def share(has: int, of: int) -> str:
    return f"{has} of {of} ({100 * has / max(1, of):.1f} %)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("folder", type=Path)
    parser.add_argument("build", type=Path, nargs="?", default=check_symbols.ROOT / "build")
    parser.add_argument("--list", action="store_true", help="the names that softnpu lacks")
    options = parser.parse_args()
    folder = options.build / "torch_npu/softnpu/lib64"
    if not (folder / "libsoftnpu.so").exists():
        sys.exit(f"{folder} holds no libsoftnpu.so; build first")
    client, table = Client(options.folder), {row[0]: row for row in check_symbols.read_table()}
    stubs = check_symbols.stubs()

    def there(name: str) -> bool:
        """Through the library in which the client looks."""
        return name in table and check_symbols.is_there(folder, name, table[name][1])

    linked, looked_up = sorted(client.linked), sorted(client.looked_up)
    refused = sum(name in stubs for name in linked)
    print(f"linked: {share(sum(map(there, linked)), len(linked))}; {refused} of them answer that softnpu cannot do it, or ignore the call")
    own = [name for name in looked_up if name in table and (folder / table[name][1]).exists()]
    print(f"looked up: {share(sum(map(there, looked_up)), len(looked_up))}; "
          f"{share(sum(map(there, own)), len(own))} of those in libraries that softnpu takes the place of")
    by_library: dict[str, list[str]] = {}
    for name in looked_up:
        by_library.setdefault(table[name][1] if name in table else "not in abi/symbols.txt", []).append(name)
    for library, names in sorted(by_library.items(), key=lambda entry: -len(entry[1])):
        print(f"  {library}: {share(sum(map(there, names)), len(names))}")
    for part, what in APART.items():
        c_names = sorted(name for name in client.c_linked_apart if not there(name))
        print(f"apart: {part} links {client.apart[part]} names of {what}" + (f", and lacks {' '.join(c_names)}" if c_names else ""))
    if options.list:
        print("\n".join(f"{table[name][1] if name in table else '?'}: {name}" for name in looked_up if not there(name)))
    unknown = [name for name in [*linked, *looked_up] if name not in table]
    missing = [name for name in linked if not there(name)]
    for name in unknown:
        print(f"abi/symbols.txt does not have {name}")
    for name in missing:
        print(f"softnpu has no {name}, which the client links: importing it fails")
    return int(bool(unknown or missing))


if __name__ == "__main__":
    sys.exit(main())
