"""How two clients use the executor cache around a launch:  python protocol.py OFFICIAL OURS

OFFICIAL and OURS are files of record.py, made with the cache on (ACLNN_CACHE_LIMIT=10000 bash ci/sweep.sh calls). What a thread calls from
one question about an operator to the next is a sequence; each is printed with the number of launches that have it. Ends with code 1 if ours
has a sequence that the official client was not seen to make: nothing says that CANN's cache takes another one.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from recording import is_phase_two, is_tensor, lines

WORDS = {"CanUsePTACache": "ask", "InitPTACacheThreadLocal": "open", "UnInitPTACacheThreadLocal": "close",
         "AddTensorAddrToCachedList": "address", "SetPTAHashKey": "number", "SetPTACacheHashKey": "bytes",
         "PTAGetExecCache": "search by number", "PTAFindExecCache": "search by bytes"}


def word_of(line: dict) -> str:
    """"" for a call that has nothing to do with it."""
    name = line.get("f", "")
    if name.startswith("PTA"):
        return WORDS.get(name, name) + (": found" if line["rc"] else ": none")
    if name.startswith("aclnn") and line["a"]:
        return "phase two" if is_phase_two(line) else "phase one"
    return WORDS.get(name, "")


def tensors_of(line: dict) -> int:
    values = [value for _, given in line["a"] for value in (given if isinstance(given, list) else [given])]
    return sum(map(is_tensor, values))


class Sequence(list):
    """Words, with one for all addresses."""

    addresses = 0

    def take(self, word: str, line: dict) -> None:
        if word == "address":
            self.addresses += 1
            if self[-1:] == ["addresses"]:
                return
            word = "addresses"
        elif word == "phase one" and self.addresses != tensors_of(line) and "open" in self:
            word = "phase one of more or fewer tensors"
        self.append(word)

    def is_over(self, word: str) -> bool:
        """What comes behind the end of the cache's use stands alone: at level 1 phase two, on whichever thread runs the queue."""
        return word == "ask" or "close" in self or ("phase two" in self and word != "close")


def sequences(file: Path) -> Iterator[str]:
    """Of launches inside of programs. The key is compared by how it is made, not by what it is."""
    threads: dict[int, Sequence] = defaultdict(Sequence)
    inside = False
    for line in lines(file):
        if "mark" in line:
            inside = line["mark"].startswith("B ")
            yield from (", ".join(each) for each in threads.values() if each)
            threads.clear()
        elif inside and (word := word_of(line)):
            open_one = threads[line["thread"]]
            if open_one and open_one.is_over(word):
                yield ", ".join(open_one)
                open_one = threads[line["thread"]] = Sequence()
            open_one.take(word, line)


def main(official: Path, ours: Path) -> int:
    theirs, here = Counter(sequences(official)), Counter(sequences(ours))
    print("official     ours")
    for each in sorted(theirs | here, key=lambda s: -theirs[s] - here[s]):
        print(f"{theirs[each]:8} {here[each]:8}  {each}")
    only = [each for each in here if each not in theirs]
    launches = sum(here[each] for each in only)
    print(f"{launches} of {sum(here.values())} launches here are made in {len(only)} ways that the official client was not seen to take")
    return int(bool(only))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*map(Path, sys.argv[1:])))
