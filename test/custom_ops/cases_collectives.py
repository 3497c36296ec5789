"""Operators over several cards: their cases are in test/distributed."""

CASES = []
ELSEWHERE = {
    "_npu_distribute_barrier", "npu_all_gather_quant_mm", "npu_all_to_all_matmul", "npu_all_to_all_quant_matmul", "npu_alltoallv_quant_gmm",
    "npu_gmm_alltoallv", "npu_matmul_all_to_all", "npu_moe_distribute_combine", "npu_moe_distribute_combine_add_rms_norm",
    "npu_moe_distribute_combine_v2", "npu_moe_distribute_dispatch", "npu_moe_distribute_dispatch_v2", "npu_quant_gmm_alltoallv",
    "npu_quant_matmul_all_to_all", "npu_quant_mm_reduce_scatter",
}
