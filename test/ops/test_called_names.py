"""An operator reaches the device under the aclnn name that the official client calls for it, once."""

import json
import os
import re
import subprocess
import sys

import pytest

# What is launched by each of these, on x = [[1, 2], [3, 4]], i = the same in int64, b = its truths, v = [1, 2].
EXPECTED = {
    # in place
    "x.add_(2)": "aclnnInplaceAdds",
    "x.sub_(2)": "aclnnInplaceSubs",
    "x.mul_(2)": "aclnnInplaceMuls",
    "x.div_(2)": "aclnnInplaceDivs",
    "i.mul_(2)": "aclnnInplaceMuls",
    "x.div_(x, rounding_mode='floor')": "aclnnInplaceDivMod",
    "x.div_(2, rounding_mode='floor')": "aclnnInplaceDivMods",
    "x.floor_divide_(x)": "aclnnInplaceFloorDivide",
    "x.floor_divide_(2)": "aclnnInplaceFloorDivides",
    "x.eq_(x)": "aclnnInplaceEqTensor",
    "x.eq_(2)": "aclnnInplaceEqScalar",
    "x.ne_(x)": "aclnnInplaceNeTensor",
    "x.ne_(2)": "aclnnInplaceNeScalar",
    "x.lt_(x)": "aclnnInplaceLtTensor",
    "x.lt_(2)": "aclnnInplaceLtScalar",
    "x.le_(x)": "aclnnInplaceLeTensor",
    "x.le_(2)": "aclnnInplaceLeScalar",
    "x.gt_(x)": "aclnnInplaceGtTensor",
    "x.gt_(2)": "aclnnInplaceGtScalar",
    "x.ge_(x)": "aclnnInplaceGeTensor",
    "x.ge_(2)": "aclnnInplaceGeScalar",
    "x.atan2_(x)": "aclnnInplaceAtan2",
    "i.bitwise_and_(i)": "aclnnInplaceBitwiseAndTensor",
    "i.bitwise_and_(2)": "aclnnInplaceBitwiseAndScalar",
    "i.bitwise_xor_(i)": "aclnnInplaceBitwiseXorTensor",
    "i.bitwise_xor_(2)": "aclnnInplaceBitwiseXorScalar",
    "x.fmod_(x)": "aclnnInplaceFmodTensor",
    "x.fmod_(2)": "aclnnInplaceFmodScalar",
    "x.remainder_(x)": "aclnnInplaceRemainderTensorTensor",
    "x.remainder_(2)": "aclnnInplaceRemainderTensorScalar",
    "x.pow_(x)": "aclnnInplacePowTensorTensor",
    "x.pow_(3)": "aclnnInplacePowTensorScalar",
    "x.clamp_max_(2)": "aclnnInplaceClampMax",
    "x.clamp_max_(x)": "aclnnInplaceClampMaxTensor",
    "x.clamp_min_(x)": "aclnnInplaceClampMinTensor",
    "x.round_(decimals=1)": "aclnnInplaceRoundDecimals",
    "x.nan_to_num_()": "aclnnInplaceNanToNum",
    "b.logical_and_(b)": "aclnnInplaceLogicalAnd",
    "b.logical_or_(b)": "aclnnInplaceLogicalOr",
    "b.logical_not_()": "aclnnInplaceLogicalNot",
    "x.xlogy_(2)": "aclnnInplaceXLogYScalarOther",
    "x.addmm_(x, x)": "aclnnInplaceAddmm",
    "x.addr_(v, v)": "aclnnInplaceAddr",
    "x.renorm_(2, 0, 1)": "aclnnInplaceRenorm",
    "x.scatter_(0, i * 0, x + 1)": "aclnnInplaceScatter",
    "x.scatter_(0, i * 0, 2)": "aclnnInplaceScatterValue",
    "x.scatter_reduce_(0, i * 0, x + 1, 'sum')": "aclnnInplaceScatterReduce",
    "x.index_copy_(0, i[0] - 1, x + 1)": "aclnnInplaceIndexCopy",
    "F.celu_(x)": "aclnnInplaceCelu",
    "torch._add_relu_(x, x)": "aclnnInplaceAddRelu",
    "F.rrelu_(x, training=True)": "aclnnInplaceRReluWithNoise",
    # numbers
    "2 - x": "aclnnRsubs",
    "torch.rsub(x, x)": "aclnnRsub",
    "torch.add(torch.tensor(2.0), x)": "aclnnAddV3",
    "torch.remainder(5, x)": "aclnnRemainderScalarTensor",
    "torch.remainder(torch.tensor(5.0), x)": "aclnnRemainderScalarTensor",
    "torch.pow(torch.tensor(2.0), x)": "aclnnPowScalarTensor",
    "x // x": "aclnnFloorDivide",
    "x // 2": "aclnnFloorDivides",
    "torch.xlogy(2, x)": "aclnnXLogYScalarSelf",
    "torch.xlogy(x, 2)": "aclnnXLogYScalarOther",
    "i << 2": "aclnnLeftShifts",
    "torch.searchsorted(v, 1.5)": "aclnnSearchSorteds",
    # what torch would compose
    "F.celu(x)": "aclnnCelu",
    "torch._add_relu(x, x)": "aclnnAddRelu",
    "torch._aminmax(x)": "aclnnAminmaxAll",
    "torch._aminmax(x, 0)": "aclnnAminmaxDim",
    "torch.logsumexp(x, 0)": "aclnnLogSumExp",
    "torch.mv(x, v)": "aclnnMv",
    "x.repeat(2, 3)": "aclnnRepeat",
    "torch.stack([x, x])": "aclnnStack",
    "torch._chunk_cat([x, x], 0, 2)": "aclnnChunkCat",
    "F.pad(x, [1, 1])": "aclnnConstantPadNd",
    "x.index_fill(0, i[0] - 1, 2)": "aclnnIndexFill",
    "F.embedding(i - 1, torch.ones(4, 3, device='npu'))": "aclnnEmbedding",
    "torch.split_with_sizes_copy(x, [1, 1], out=[torch.empty(1, 2, device='npu'), torch.empty(1, 2, device='npu')])": "aclnnSplitWithSize",
    "F.binary_cross_entropy_with_logits(x, x)": "aclnnBinaryCrossEntropyWithLogits",
    "F.soft_margin_loss(x, x)": "aclnnSoftMarginLoss",
    "torch.ops.aten.soft_margin_loss_backward(x, x, x, 0)": "aclnnSoftMarginLossBackward",
    "torch.conv_tbc(x[None], x[None], v)": "aclnnConvTbc",
    "torch.ops.aten._conv_depthwise2d(x[None, None], x[None, None], [2, 2], None, [1, 1], [0, 0], [1, 1])": "aclnnConvDepthwise2d",
    "F.affine_grid(torch.ones(1, 2, 3, device='npu'), [1, 1, 2, 2])": "aclnnAffineGrid",
    "torch._unique(i)": "aclnnUnique",
    "torch._transform_bias_rescale_qkv(torch.ones(1, 2, 6, device='npu'), torch.ones(6, device='npu'), 1)": "aclnnTransformBiasRescaleQkv",
    "torch.fake_quantize_per_channel_affine(x, v, i[0].int(), 0, 0, 255)": "aclnnFakeQuantPerChannelAffineCachemask",
    # several cards, random numbers
    "torch.batch_norm_stats(x, 1e-5)": "aclnnBatchNormStats",
    "torch.batch_norm_elemt(x, v, v, v, v, 1e-5)": "aclnnBatchNormElemt",
    "torch.batch_norm_gather_stats_with_counts(x, x, x, None, None, 0.1, 1e-5, v)": "aclnnBatchNormGatherStatsWithCounts",
    "torch.batch_norm_backward_reduce(x, x, v, v, v, True, True, True)": "aclnnBatchNormReduceBackward",
    "torch.batch_norm_backward_elemt(x, x, v, v, v, v, v, i[0].int())": "aclnnBatchNormElemtBackward",
    "torch.normal(x, 2.0)": "aclnnNormalTensorFloat",
    "torch.normal(x, x)": "aclnnNormalTensorTensor",
    "torch.normal(2.0, x)": "aclnnNormalFloatTensor",
    "torch.normal(0.0, 1.0, (3,), device='npu')": "aclnnNormalFloatFloat",
}
# Launched on the way: arguments of the expression itself, and what the host has to know.
BESIDE = {
    "aclnnAdds",
    "aclnnSubs",
    "aclnnMuls",
    "aclnnCast",
    "aclnnInplaceOne",
    "aclnnInplaceFillScalar",
    "aclnnMin",
    "aclnnGeScalar",
    "aclnnInplaceCopy",
}

PROGRAM = """
import json, os, sys, torch, torch_npu
import torch.nn.functional as F
for name in json.load(sys.stdin):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).npu()
    i, b, v = x.long(), x.bool(), x[0].clone()
    torch.npu.synchronize()
    os.write(2, f"\\nBEGIN {name}\\n".encode())
    eval(name)
    torch.npu.synchronize()
    os.write(2, b"\\nEND\\n")
"""


@pytest.fixture(scope="module")
def launched():
    environment = {**os.environ, "SOFTNPU_TRACE": "1", "TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps(list(EXPECTED)), capture_output=True, text=True, env=environment)
    parts = re.findall(r"^BEGIN ([^\n]*)\n(.*?)^END$", run.stderr, re.MULTILINE | re.DOTALL)
    assert len(parts) == len(EXPECTED), run.stderr[-2000:]
    return {name: re.findall(r"\b(?:aclnn|softnpu)[A-Z]\w*", trace) for name, trace in parts}


@pytest.mark.parametrize("expression", EXPECTED)
def test_the_official_clients_name_is_called_once(launched, expression):
    names = launched[expression]
    assert names.count(EXPECTED[expression]) == 1, names
    assert set(names) - {EXPECTED[expression]} <= BESIDE, names
