"""Stress run: threads x streams x cards doing random alloc, copy, op, record, wait and free, with every result checked.

    python test/stress/stress.py --seconds 60        # SOFTNPU_ASYNC, SOFTNPU_WORKSPACE, TASK_QUEUE_ENABLE select the mode

Ends with `OK` when all results were right, allocated and reserved bytes are back to zero, and host RSS at the end is at
most 1.05 x what it was after the first sixth of the run. Host RSS leaves out shared pages: those are the cards' memory,
which the caching allocator takes and returns all the time and which is judged by its own counters. It is taken after
malloc_trim: with 70 threads glibc spreads freed blocks over 16 heaps, and how many of their pages it keeps is chance.
"""

import argparse
import ctypes
import random
import sys
import threading
import time

import torch


def host_rss_bytes() -> int:
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssFile")) * 1024


class Worker(threading.Thread):
    """One thread with its own streams on each card. A slot holds a device tensor and the host value it must have."""

    def __init__(self, seed: int, cards: int, streams: int, stop: threading.Event):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.cards, self.streams_per_card, self.stop = cards, streams, stop
        self.steps, self.failure = 0, None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001  (reported by the main thread)
            self.failure = error

    def work(self) -> None:
        streams = {card: [torch.npu.Stream(device=card) for _ in range(self.streams_per_card)] for card in range(self.cards)}
        while not self.stop.is_set():
            card = self.random.randrange(self.cards)
            with torch.npu.device(card):
                self.one_round(card, streams[card])
            self.steps += 1

    def one_round(self, card: int, streams: list) -> None:
        choose = self.random
        size = choose.choice([1, 7, 64, 1000, 4096, 65536])
        host = torch.full((size,), float(choose.randrange(100)))
        first, second = choose.sample(streams, 2)
        with torch.npu.stream(first):
            a = host.pin_memory().to("npu", non_blocking=True) if choose.random() < 0.3 else host.to("npu")
            b = a * 2 + 1
            event = torch.npu.Event()
            event.record(first)
        with torch.npu.stream(second):
            second.wait_event(event)
            c = b - a
            b.record_stream(second)
            a.record_stream(second)
            if choose.random() < 0.3:
                c = c.view(-1).flip(0).contiguous()
            if choose.random() < 0.2 and self.cards > 1:
                c = c.to(f"npu:{(card + 1) % self.cards}").to(f"npu:{card}")
        del a, b  # freed while the second stream may still read them
        if choose.random() < 0.1:
            torch.npu.empty_cache()
        with torch.npu.stream(second):
            result = c.cpu()
        expected = host + 1
        if not torch.equal(result, expected):
            raise AssertionError(f"card {card}, size {size}: got {result[:4]}, expected {expected[:4]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--cards", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    stop = threading.Event()
    workers = [Worker(seed, options.cards, options.streams, stop) for seed in range(options.threads)]
    for worker in workers:
        worker.start()
    start = time.time()
    early_rss = None
    while time.time() - start < options.seconds and all(w.is_alive() for w in workers):
        time.sleep(0.2)
        if early_rss is None and time.time() - start >= options.seconds / 6:
            early_rss = host_rss_bytes()
        print(f"\r{time.time() - start:5.0f} s  {sum(w.steps for w in workers)} rounds", end="", file=sys.stderr)
    late_rss = host_rss_bytes()
    stop.set()
    for worker in workers:
        worker.join(30)
    print(file=sys.stderr)
    failures = [w.failure for w in workers if w.failure]
    for failure in failures:
        print(f"FAILED: {type(failure).__name__}: {failure}")
    allocated, reserved = [], []
    for card in range(options.cards):
        torch.npu.synchronize(card)
        with torch.npu.device(card):
            torch.npu.empty_cache()
        allocated.append(torch.npu.memory_allocated(card))
        reserved.append(torch.npu.memory_reserved(card))
    ratio = late_rss / early_rss if early_rss else float("nan")
    rounds = sum(w.steps for w in workers)
    print(f"{rounds} rounds, allocated bytes at the end {allocated}, reserved {reserved}, host RSS late : early {ratio:.3f}")
    good = not failures and rounds > 0 and not any(allocated + reserved) and ratio <= 1.05 and not any(w.is_alive() for w in workers)
    print("OK" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
