"""A bidirectional LSTM made of two LSTMs."""

import torch
from torch import nn

__all__ = ["BiLSTM"]


class BiLSTM(nn.Module):
    """Outputs of both directions side by side: [sequence, batch, input_size] -> [sequence, batch, 2 * hidden_size]."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.fw_rnn = nn.LSTM(input_size, hidden_size)
        self.bw_rnn = nn.LSTM(input_size, hidden_size)

    def forward(self, inputs):
        forward, _ = self.fw_rnn(inputs)
        backward, _ = self.bw_rnn(inputs.flip(0))
        return torch.cat([forward, backward.flip(0)], -1)
