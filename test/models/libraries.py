#!/usr/bin/env python3
"""One row per library that people train with: a small job on the npu, as installed from PyPI, compared with the CPU.

Usage: python test/models/libraries.py [NAME ...]. The CPU fallback is forbidden. Exit code 1 if a row fails; a library that is
not installed is a row of its own, which fails only when it was asked for by name.
"""

import os

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import importlib.util
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from torch import nn

import torch_npu  # noqa: F401


def close(a, b, tolerance=1e-4):
    torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), rtol=tolerance, atol=tolerance)


def tiny_gpt2():
    from transformers_zoo import gpt2

    torch.manual_seed(0)
    return gpt2()


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        tokens = torch.randint(4, 64, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": tokens, "labels": tokens}


def transformers():
    """Trainer for one epoch on npu and CPU: same losses; a checkpoint that loads; the pipeline of generate."""
    from transformers import GPT2LMHeadModel, Trainer, TrainingArguments

    def losses(folder, cpu):
        options = {"output_dir": folder, "num_train_epochs": 2, "per_device_train_batch_size": 8, "logging_steps": 1, "report_to": [],
                   "disable_tqdm": True, "use_cpu": cpu, "seed": 0, "dataloader_num_workers": 0, "save_strategy": "no"}
        trainer = Trainer(tiny_gpt2(), TrainingArguments(**options), train_dataset=Sentences())
        trainer.train()
        assert trainer.model.device.type == ("cpu" if cpu else "npu")
        trainer.save_model(folder)
        return torch.tensor([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])

    with tempfile.TemporaryDirectory() as folder:
        close(losses(folder, False), losses(folder, True), 2e-3)  # logged losses are rounded
        again = GPT2LMHeadModel.from_pretrained(folder).npu()
        sampled = again.generate(torch.tensor([[5]]).npu(), max_new_tokens=5, do_sample=True, pad_token_id=0)
        assert sampled.device.type == "npu"


def accelerate():
    """Accelerator chooses the npu, wraps model, optimiser and loader, and clips."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    torch.manual_seed(0)
    AcceleratorState._reset_state(reset_partial_state=True)  # the device is chosen once in a process, here by an earlier row
    accelerator = Accelerator()
    assert accelerator.device.type == "npu", accelerator.device
    model = nn.Linear(4, 1)
    points = torch.randn(16, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, points.sum(1, keepdim=True)), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    first = None
    for _ in range(5):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            first = first if first is not None else loss.item()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    assert x.device.type == "npu" and loss.item() < first


def accelerate_scripts():
    """accelerate's own test scripts under 2 ranks: operations, training, gradient accumulation, data loops, DDP hooks, commands."""
    import accelerate.test_utils.scripts as scripts

    folder = Path(scripts.__file__).parent
    for name in ("ops", "sync", "script", "distributed_data_loop", "ddp_comm_hook", "merge_weights", "cli"):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(folder / f"test_{name}.py")]
        with tempfile.TemporaryDirectory() as work:
            run = subprocess.run(command, cwd=work, env={"OMP_NUM_THREADS": "1", **os.environ}, capture_output=True, text=True)
        if run.returncode:
            reasons = [line for line in run.stderr.splitlines() if "Error" in line]
            raise RuntimeError(f"{name}: {reasons[0] if reasons else run.stderr[-500:]}")


def peft():
    """LoRA on GPT-2: only the adapter trains; it is saved and loaded; merging keeps the output."""
    from peft import LoraConfig, PeftModel, get_peft_model

    tokens = torch.randint(4, 64, (2, 8)).npu()
    model = get_peft_model(tiny_gpt2(), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)).npu()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(5):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all("lora" in name for name, p in model.named_parameters() if p.requires_grad)
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(tiny_gpt2(), folder).npu().eval()
    close(again(tokens).logits, model(tokens).logits)
    close(model.merge_and_unload()(tokens).logits, again(tokens).logits, 1e-3)


def safetensors():
    """Files written from npu tensors and read onto the card."""
    from safetensors.torch import load_file, load_model, save_file, save_model

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        tensors = {"a": torch.randn(3, 4, device="npu"), "b": torch.arange(5, device="npu").half()}
        save_file(tensors, path)
        for device in ("npu", "npu:1", "cpu"):
            for name, tensor in load_file(path, device=device).items():
                assert tensor.device == torch.device(device if device != "npu" else "npu:0")
                assert torch.equal(tensor.cpu(), tensors[name].cpu())
        net = nn.Linear(3, 2).npu()
        save_model(net, path)
        twin = nn.Linear(3, 2).npu()
        load_model(twin, path)
        close(twin.weight, net.weight, 0)


def lightning():
    """Trainer on the card, through Lightning's interface for accelerators that it does not know."""
    import lightning as pl
    from lightning.pytorch.accelerators import Accelerator
    from lightning.pytorch.strategies import SingleDeviceStrategy

    class Npu(Accelerator):
        def setup_device(self, device):
            torch.npu.set_device(device)

        def get_device_stats(self, device):
            return torch.npu.memory_stats(device)

        def teardown(self):
            torch.npu.empty_cache()

        @staticmethod
        def parse_devices(devices):
            return devices

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device("npu", i) for i in range(devices)]

        auto_device_count = staticmethod(torch.npu.device_count)
        is_available = staticmethod(torch.npu.is_available)
        name = staticmethod(lambda: "npu")

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.losses = nn.Linear(4, 1), []

        def training_step(self, batch, _):
            loss = nn.functional.mse_loss(self.layer(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def losses(device):
        pl.seed_everything(0, verbose=False)
        data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randn(16, 1))
        model = Model()
        where = {"accelerator": "cpu"}
        if device != "cpu":
            where = {"strategy": SingleDeviceStrategy(torch.device(device), accelerator=Npu())}
        trainer = pl.Trainer(max_epochs=2, **where, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False)
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=4))
        return torch.tensor(model.losses)

    close(losses("npu:0"), losses("cpu"))


def diffusers():
    """A small UNet: the same noise prediction and the same sampled picture, and a training step."""
    from diffusers import DDIMScheduler, UNet2DModel

    torch.manual_seed(0)
    net = UNet2DModel(sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
                      down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    scheduler = DDIMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(5)
    noise = torch.randn(1, 1, 16, 16)

    def sample(device):
        net.to(device).eval()
        picture = noise.to(device)
        for t in scheduler.timesteps:
            with torch.no_grad():
                picture = scheduler.step(net(picture, t.to(device)).sample, t, picture).prev_sample
        return picture

    close(sample("npu"), sample("cpu"), 1e-3)
    net.npu().train()
    noisy = scheduler.add_noise(noise.npu(), torch.randn_like(noise).npu(), torch.tensor([10]).npu())
    net(noisy, 10).sample.square().mean().backward()
    assert all(p.grad is not None for p in net.parameters())


def torchvision():
    """A classifier, transforms on npu tensors, nms and roi_align against torchvision's Python, a detector: boxes and a training step."""
    import torchvision as tv
    from torchvision.ops.roi_align import _roi_align
    from torchvision.transforms import v2

    torch.manual_seed(0)
    net, picture = tv.models.resnet18(num_classes=10).eval(), torch.rand(1, 3, 64, 64)
    expected = net(picture)
    close(net.npu()(picture.npu()), expected, 1e-3)
    change = v2.Compose([v2.Resize((32, 32), antialias=True), v2.CenterCrop(28), v2.ColorJitter(0.2), v2.RandomHorizontalFlip(1.0),
                         v2.GaussianBlur(3, 1.0), v2.Normalize([0.5] * 3, [0.25] * 3)])
    torch.manual_seed(0)
    changed = change(picture.npu())
    torch.manual_seed(0)
    close(changed, change(picture))
    corner = torch.rand(50, 2) * 20
    boxes, scores = torch.cat([corner, corner + 5], 1), torch.rand(50)
    kept = []
    for i in scores.argsort(descending=True).tolist():
        if not kept or tv.ops.box_iou(boxes[i : i + 1], boxes[kept]).max() <= 0.3:
            kept.append(i)
    assert tv.ops.nms(boxes.npu(), scores.npu(), 0.3).tolist() == kept
    rois = torch.cat([torch.zeros(50, 1), boxes], 1)
    close(tv.ops.roi_align(picture.npu(), rois.npu(), 4, 0.5, 2), _roi_align.__wrapped__(picture, rois, 0.5, 4, 4, 2, False))

    options = {"weights": None, "weights_backbone": None, "min_size": 64, "max_size": 64}
    detector = tv.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(**options).eval()
    found = detector(picture)[0]
    detector.npu()
    for name, tensor in detector(picture.npu())[0].items():
        close(tensor, found[name], 1e-2)
    target = {"boxes": torch.tensor([[5.0, 5.0, 40.0, 40.0]]).npu(), "labels": torch.tensor([1]).npu()}
    losses = detector.train()(picture.npu(), [target])
    sum(losses.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in detector.parameters() if p.requires_grad)


ROWS = [transformers, accelerate, accelerate_scripts, peft, safetensors, lightning, diffusers, torchvision]


def main():
    asked = sys.argv[1:]
    failed = 0
    for row in ROWS:
        if asked and row.__name__ not in asked:
            continue
        if importlib.util.find_spec(row.__name__.partition("_")[0]) is None:
            print(f"not installed: {row.__name__}", flush=True)
            failed += row.__name__ in asked
            continue
        try:
            row()
            print(f"ok: {row.__name__} {version(row.__name__.partition('_')[0])}: {' '.join(row.__doc__.split())}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL: {row.__name__}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
            if os.environ.get("VERBOSE"):
                raise
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
