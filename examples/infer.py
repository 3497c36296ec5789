"""Serves a trained network: loads a checkpoint of train_resnet18.py, checks the answers against the CPU, measures.

The same for a traced TorchScript file (`--script`), and, with a checkpoint of char_gpt.py, for text token by token (`--generate`).
"""

import argparse
import time

import torch
from char_gpt import CharGPT
from train_resnet18 import CLASSES, ResNet18, draw


def percentile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def measure(call, batches):
    """Milliseconds of each batch, results waited for."""
    times = []
    for batch in batches:
        begin = time.perf_counter()
        call(batch)
        torch.accelerator.synchronize()
        times.append((time.perf_counter() - begin) * 1000)
    return times


def report(name, times, items):
    print(f"{name}: p50 {percentile(times, 0.5):.2f} ms, p99 {percentile(times, 0.99):.2f} ms, {items / sum(times) * 1000:.0f} per second")


@torch.inference_mode()
def classify(options):
    model = ResNet18()
    model.load_state_dict(torch.load(options.checkpoint or "resnet18.pt", map_location="cpu")["model"])
    model.eval()
    pictures = torch.Generator().manual_seed(3)
    batches = [draw(torch.randint(len(CLASSES), (options.batch_size,), generator=pictures), pictures) for _ in range(options.batches)]
    expected = [model(batch).topk(5).indices for batch in batches]
    model.to(options.device)
    if options.script:
        torch.jit.trace(model, batches[0].to(options.device)).save(options.script)
        model = torch.jit.load(options.script, map_location=options.device)
    answers = []
    times = measure(lambda batch: answers.append(model(batch.to(options.device, non_blocking=True)).topk(5).indices), batches)
    same = sum(torch.equal(a.cpu(), e) for a, e in zip(answers, expected))
    report("classification" + (" (TorchScript)" if options.script else ""), times[1:], options.batch_size * (len(times) - 1))
    print(f"top 5 as on the CPU in {same} of {len(batches)} batches")
    if same != len(batches):
        raise SystemExit("the answers differ from the CPU's")


@torch.inference_mode()
def generate(options):
    saved = torch.load(options.checkpoint or "char_gpt.pt", map_location="cpu")
    model = CharGPT(len(saved["characters"]))
    model.load_state_dict(saved["model"])
    model.eval()
    start = torch.zeros(1, 1, dtype=torch.long)
    expected = model.write(start, options.tokens, temperature=0)
    model.to(options.device)
    tokens = start.to(options.device)

    def one_more(_):
        nonlocal tokens
        tokens = model.write(tokens, 1, temperature=0)

    times = measure(one_more, range(options.tokens))
    report("generation", times[1:], len(times) - 1)
    print("".join(saved["characters"][i] for i in tokens[0].tolist()))
    if not torch.equal(tokens.cpu(), expected):
        raise SystemExit("the tokens differ from the CPU's")
    print(f"{options.tokens} tokens as on the CPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu")
    parser.add_argument("--checkpoint", help="default: resnet18.pt, or char_gpt.pt with --generate")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--script", help="file for the traced network, which then answers instead of the module")
    parser.add_argument("--generate", action="store_true", help="write text instead")
    parser.add_argument("--tokens", type=int, default=100)
    options = parser.parse_args()
    generate(options) if options.generate else classify(options)


if __name__ == "__main__":
    main()
