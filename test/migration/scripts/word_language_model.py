"""Predicts the next word of a text: a recurrent network or a transformer, with truncated back-propagation."""

import argparse
import math

import torch
import torch.nn as nn

TEXT = "the cat sat on the mat and the dog sat on the log while the bird sang to the cat and the dog " * 12


class Corpus:
    def __init__(self, text):
        words = text.split()
        self.index = {word: i for i, word in enumerate(sorted(set(words)))}
        self.ids = torch.tensor([self.index[word] for word in words], dtype=torch.int64)


class RNNModel(nn.Module):
    def __init__(self, kind, tokens, size, layers, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(tokens, size)
        self.rnn = getattr(nn, kind)(size, size, layers)
        self.decoder = nn.Linear(size, tokens)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.kind, self.size, self.layers = kind, size, layers

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return torch.log_softmax(self.decoder(self.drop(output)).flatten(0, 1), dim=1), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        if self.kind == "LSTM":
            return weight.new_zeros(self.layers, batch, self.size), weight.new_zeros(self.layers, batch, self.size)
        return weight.new_zeros(self.layers, batch, self.size)


class TransformerModel(nn.Module):
    def __init__(self, tokens, size, layers, dropout):
        super().__init__()
        position, div = torch.arange(64).unsqueeze(1), torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
        pe = torch.zeros(64, 1, size)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer("pe", pe)
        self.encoder = nn.Embedding(tokens, size)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(size, 2, size, dropout), layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(size, tokens)

    def forward(self, input, hidden):
        mask = torch.log(torch.tril(torch.ones(len(input), len(input), device=input.device)))
        output = self.layers(self.encoder(input) + self.pe[: len(input)], mask=mask)
        return torch.log_softmax(self.decoder(output).flatten(0, 1), dim=1), hidden

    def init_hidden(self, batch):
        return torch.empty(0)


def batchify(ids, batch, device):
    steps = ids.size(0) // batch
    return ids.narrow(0, 0, steps * batch).view(batch, -1).t().contiguous().to(device)


def repackage_hidden(hidden):
    return hidden.detach() if isinstance(hidden, torch.Tensor) else tuple(repackage_hidden(h) for h in hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="LSTM")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--bptt", type=int, default=9)
    args = parser.parse_args()
    torch.manual_seed(1111)
    if torch.cuda.is_available():
        if not args.cuda:
            print("WARNING: You have a CUDA device, so you should probably run with --cuda.")
        else:
            torch.cuda.manual_seed(1111)
    device = torch.device("cuda" if args.cuda else "cpu")

    corpus = Corpus(TEXT)
    data = batchify(corpus.ids, 4, device)
    tokens = len(corpus.index)
    if args.model == "Transformer":
        model = TransformerModel(tokens, 16, 2, 0.0).to(device)
    else:
        model = RNNModel(args.model, tokens, 16, 2, 0.0).to(device)
    criterion = nn.NLLLoss()
    lr = 5.0 if args.model != "Transformer" else 0.5
    model.train()
    hidden = model.init_hidden(4)
    for step, start in enumerate(range(0, data.size(0) - 1, args.bptt)):
        length = min(args.bptt, data.size(0) - 1 - start)
        source, target = data[start : start + length], data[start + 1 : start + 1 + length].reshape(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(source, hidden)
        loss = criterion(output, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        print(f"step {step} loss {loss.item():.6f} ppl {math.exp(loss.item()):.4f}")


if __name__ == "__main__":
    main()
