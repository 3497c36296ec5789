"""A residual network trained on images by several processes, one per GPU, in the manner of the ImageNet recipe."""

import argparse
import os
import time

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


def resnet(classes):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        Block(8, 8), Block(8, 16, 2), Block(16, 32, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes),
    )  # fmt: skip


class Images(Dataset):
    def __init__(self, count, classes):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(0, classes, (count,), generator=generator)
        self.images = torch.randn(count, 3, 32, 32, generator=generator) + self.labels.view(-1, 1, 1, 1) / classes

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def all_reduce(self, gpu):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32, device=f"cuda:{gpu}")
        dist.all_reduce(total, dist.ReduceOp.SUM)
        self.sum, self.count = total.tolist()

    @property
    def avg(self):
        return self.sum / self.count


def main_worker(gpu, ngpus, args):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group(backend="nccl", init_method=f"tcp://127.0.0.1:{args.port}", world_size=ngpus, rank=gpu)
    torch.cuda.set_device(gpu)
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    cudnn.benchmark = True

    model = resnet(args.classes).cuda(gpu)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model) if args.sync_bn else model
    model = DDP(model, device_ids=[gpu], output_device=gpu)
    criterion = nn.CrossEntropyLoss().cuda(gpu)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)

    dataset = Images(args.images, args.classes)
    sampler = DistributedSampler(dataset, shuffle=True, seed=0)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, num_workers=0, pin_memory=True)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        losses, start = AverageMeter(), time.time()
        for step, (images, target) in enumerate(loader):
            images = images.cuda(gpu, non_blocking=True)
            target = target.cuda(gpu, non_blocking=True)
            loss = criterion(model(images), target)
            losses.update(loss.item(), images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        losses.all_reduce(gpu)
        if gpu == 0:
            print(f"epoch {epoch} loss {losses.avg:.6f}")
            assert time.time() > start

    if gpu == 0:
        torch.save({"state_dict": model.state_dict()}, "checkpoint.pth.tar")
    dist.barrier()
    checkpoint = torch.load("checkpoint.pth.tar", map_location=f"cuda:{gpu}")
    model.load_state_dict(checkpoint["state_dict"])
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--port", type=int, default=29688)
    parser.add_argument("--sync-bn", action="store_true")
    args = parser.parse_args()
    ngpus = min(args.gpus, torch.cuda.device_count())
    mp.spawn(main_worker, nprocs=ngpus, args=(ngpus, args))


if __name__ == "__main__":
    main()
