"""open_clip: a small CLIP, the features of pictures and texts, and a training step with its contrastive loss, against the CPU."""

from importlib.metadata import version

import open_clip
import torch

generator = torch.Generator().manual_seed(0)
pictures = torch.randn(4, 3, 32, 32, generator=generator)
texts = torch.randint(1, 60, (4, 8), generator=generator)
CLIP = {"embed_dim": 16, "vision_cfg": {"image_size": 32, "patch_size": 8, "width": 32, "layers": 2, "head_width": 8},
        "text_cfg": {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 4, "layers": 2}}  # fmt: skip


def run(place):
    torch.manual_seed(0)
    model = open_clip.CLIP(**CLIP).to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        seen, read, scale = model(pictures.to(place), texts.to(place))
        loss = open_clip.ClipLoss()(seen, read, scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    with torch.no_grad():
        similarity = model.encode_image(pictures.to(place)) @ model.encode_text(texts.to(place)).T
    return torch.cat([similarity.flatten().cpu(), torch.stack(losses).cpu()])


npu = run("npu")
torch.testing.assert_close(npu, run("cpu"), rtol=1e-3, atol=1e-3)
text = f"a CLIP of 2 layers: similarities and 3 steps as on the CPU, loss {npu[-3]:.3f} to {npu[-1]:.3f}"
print(f"ok: open_clip_torch {version('open_clip_torch')}: {text}")
