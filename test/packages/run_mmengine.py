"""mmengine: its Runner takes the npu by itself and trains a small network there."""

import tempfile

import mmengine
import torch
from mmengine.device import get_device, is_npu_available
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch.utils.data import DataLoader, TensorDataset


class Network(BaseModel):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3))

    def forward(self, inputs, targets, mode):
        logits = self.layers(inputs)
        self.devices = {inputs.device.type, logits.device.type}
        return {"loss": torch.nn.functional.cross_entropy(logits, targets)} if mode == "loss" else (logits, targets)


assert is_npu_available() and get_device() == "npu", get_device()
torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(32, 1, 8, 8), torch.randint(3, (32,))), batch_size=8)
with tempfile.TemporaryDirectory() as folder:
    runner = Runner(
        model=Network(), work_dir=folder, train_dataloader=data, train_cfg={"by_epoch": True, "max_epochs": 5},
        optim_wrapper={"type": "AmpOptimWrapper", "optimizer": {"type": "SGD", "lr": 0.05}},
        default_hooks={"logger": {"type": "LoggerHook", "interval": 1}}, log_level="ERROR",
    )  # fmt: skip
    runner.train()
    losses = [float(value) for value in runner.message_hub.get_scalar("train/loss").data[0]]
model = runner.model
assert model.devices == {"npu"} and {p.device.type for p in model.parameters()} == {"npu"}
assert sum(losses[-4:]) < sum(losses[:4]), losses
print(f"ok: mmengine {mmengine.__version__}: Runner trains 5 epochs with AMP on {get_device()}, loss {losses[0]:.3f} to {losses[-1]:.3f}")
